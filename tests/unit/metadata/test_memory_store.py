"""`MemoryMetadataStore` behaves as the stores over real streams do."""

from __future__ import annotations

import queue
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.metadata import Change, MemoryMetadataStore, MetadataStore

pytestmark = pytest.mark.unit


def test_it_is_a_metadata_store() -> None:
    """The type checker agrees, and so does a caller that knows the protocol alone."""
    store: MetadataStore = MemoryMetadataStore()
    assert store.get("n", "k") is None
    assert store.put("n", "k", b"1") == 0
    assert store.put("m", "k", b"2") == 1
    assert store.get("n", "k") == b"1"
    assert store.all("n") == {"k": b"1"}
    assert store.remove("n", "k") == 2
    assert store.remove("n", "never") == 3
    assert store.all("n") == {}
    assert store.end_position() == 4
    assert store.written_ms("n", ["k", "never"]).keys() == {"k"}, "though it was deleted since"


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.none() | st.binary(max_size=2))
    )
)
def test_it_holds_the_newest_value_of_every_key(
    writes: list[tuple[str, str, bytes | None]],
) -> None:
    """Whatever was written and deleted before; a watch from 0 tells all of it in order."""
    store = MemoryMetadataStore(now_ms=lambda: 7)
    expected: dict[tuple[str, str], bytes] = {}
    for namespace, key, value in writes:
        if value is None:
            store.remove(namespace, key)
            expected.pop((namespace, key), None)
        else:
            store.put(namespace, key, value)
            expected[namespace, key] = value
    found = {(n, k): v for n in "ab" for k, v in store.all(n).items()}
    assert found == expected
    assert {
        (n, k): v for n, keys in store.whole().items() for k, (v, _) in keys.items()
    } == expected
    seen: queue.Queue[Change] = queue.Queue()
    store.watch(seen.put, from_position=0)
    told = [seen.get(timeout=5) for _ in writes]
    store.close()
    assert told == [Change(n, k, v, at, 7) for at, (n, k, v) in enumerate(writes)]


def test_a_watch_begins_now_and_ends_when_closed() -> None:
    """What was written before isn't told, and nothing after the close."""
    store = MemoryMetadataStore()
    store.put("n", "before", b"")
    seen: queue.Queue[str] = queue.Queue()
    watch = store.watch(lambda change: seen.put(change.key))
    store.put("n", "after", b"")
    assert seen.get(timeout=5) == "after"
    watch.close()
    store.put("n", "late", b"")
    assert seen.empty()


def test_a_callback_may_write_fail_and_close() -> None:
    """It runs in the watch's own thread, holding no lock."""
    store = MemoryMetadataStore()
    done = threading.Event()

    def on_change(change: Change) -> None:
        if change.key == "bad":
            raise RuntimeError
        if change.key == "ask":
            store.put("n", "answer", b"")
        if change.key == "answer":
            watch.close()
            done.set()

    watch = store.watch(on_change)
    store.put("n", "bad", b"")
    store.put("n", "ask", b"")
    assert done.wait(5)
    assert store.get("n", "answer") == b""
