"""Changelogs and the checkpoints that name offsets in them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.changelogs import StoreChangelog, store_changelogs
from samza_dagster.model.checkpoints import Checkpoint, checkpoint_key, decode_checkpoint

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("config", "changelog"),
    [
        ({"stores.s.changelog": "kafka.topic.with.dots"}, ("kafka", "topic.with.dots")),
        ({"stores.s.changelog": "log"}, ("", "log")),
        ({"stores.s.changelog": "log", "job.default.system": "k1"}, ("k1", "log")),
        (
            {"stores.s.changelog": "log", "job.changelog.system": "k2", "job.default.system": "k1"},
            ("k2", "log"),
        ),
        (
            {"stores.s.changelog": "kafka.log", "app.mode": "BATCH", "app.run.id": "r7"},
            ("kafka", "log-r7"),
        ),
    ],
)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stores.s.factory": "F", "stores.s.side.inputs.processor.factory": "P"},
        {"stores.cache.factory": "F", "stores.default.changelog.min.compaction.lag.ms": "1"},
    ],
)
def test_a_changelogs_system_and_topic(
    config: dict[str, str], changelog: tuple[str, str], more: dict[str, str]
) -> None:
    """The first dot separates; a bare name takes the changelog's or the default system."""
    assert store_changelogs({**config, **more}) == (StoreChangelog("s", *changelog),)


# Of a commit both versions say the same, and what can't be read is told.

RECORDS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "wire" / "checkpoint-tail.jsonl")
    .read_text()
    .splitlines()
]
V1, V2 = (f'{{"taskName":"t","type":"{it}"}}'.encode() for it in ("checkpoint", "checkpoint-v2"))


def decoded(key: bytes, value: bytes) -> Checkpoint | None:
    about = checkpoint_key(key)
    return None if about is None else decode_checkpoint(about, value)


def test_both_versions_of_a_recorded_commit_are_the_same() -> None:
    """Twelve records of six commits: what was read, and by its standby's gauge what was written."""
    found = [decoded(it["key"].encode(), it["value"].encode()) for it in RECORDS]
    first, second = found[::2], found[1::2]
    assert first == second
    assert None not in first
    assert first[0] == Checkpoint(
        "Partition 0", 0, {"kafka.yw-input.0": 65_694}, {"kafka-yw-lab-changelog-0-offset": 65_809}
    )


def test_a_changelog_that_was_empty_has_no_offset() -> None:
    """Its record in v1 has the word, its marker in v2 a null."""
    ssp = {"system": "k", "stream": "log", "partition": "0", "offset": "1795264708911-289471:null"}
    marker = {"changelog-ssp": {"system": "k", "stream": "log", "partition": 0}}
    backend = "org.apache.samza.storage.KafkaChangelogStateBackendFactory"
    markers = {backend: {"store": json.dumps({**marker, "changelog-offset": None})}}
    body = {"input-offsets": {}, "state-checkpoint-markers": markers}
    assert decoded(V1, json.dumps({"ssp": ssp}).encode()) == Checkpoint("t", 0)
    assert decoded(V2, json.dumps(body).encode()) == Checkpoint("t", 0)


def test_stores_of_another_backend_have_no_changelog() -> None:
    """Their markers are that backend's own."""
    body = {"input-offsets": {"k.in.0": "5"}, "state-checkpoint-markers": {"Blob": {"s": "id"}}}
    assert decoded(V2, json.dumps(body).encode()) == Checkpoint("t", 0, {"k.in.0": 5})


def test_other_records_are_none() -> None:
    """A checkpoint topic also holds the changelog mapping of old versions, and startpoints may be there."""
    assert checkpoint_key(b'{"type":"startpoint","taskName":"t"}') is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (None, b"{}", "key has no type"),
        (b"{", b"{}", "key has no type"),
        (b"[]", b"{}", "key has no type"),
        (b'{"taskName":"t"}', b"{}", "key has no type"),
        (b'{"taskName":1,"type":"checkpoint"}', b"{}", "key has no type"),
        (b"[" * 50_000, b"{}", "key has no type"),
        (V1, b"[]", "value is no checkpoint:"),
        (V1, b'{"a":{"offset":"5"}}', "'system'"),
        (V2, b"{}", "value is no checkpoint-v2: 'input-offsets'"),
        (V2, b"{", "value is no checkpoint-v2"),
        (V2, b"[" * 50_000, "value is no checkpoint-v2"),
        (V2, b'{"a":' * 50_000, "value is no checkpoint-v2"),
    ],
)
def test_what_cant_be_read_says_why(key: Any, value: bytes, why: str) -> None:
    """Whoever may write to the topic can write it, also what is deeper than any stack."""
    with pytest.raises(MalformedRecord, match=why):
        decoded(key, value)


@pytest.mark.parametrize("offset", ["²", "9" * 5000, 2**80, -1, True, None, 1.5])
@pytest.mark.parametrize("version", [1, 2])
def test_an_offset_that_no_topic_has_costs_itself_alone(version: int, offset: Any) -> None:
    """The other partitions of that commit count."""
    if version == 1:
        ssps = (("0", "5"), ("1", offset))
        body: Any = {
            n: {"system": "k", "stream": "in", "partition": n, "offset": it} for n, it in ssps
        }
    else:
        body = {"input-offsets": {"k.in.0": "5", "k.in.1": offset}}
    checkpoint = decoded(V1 if version == 1 else V2, json.dumps(body).encode())
    assert checkpoint is not None
    assert checkpoint.input_offsets == {"k.in.0": 5}


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_checkpoint_or_refused(key: bytes, value: bytes) -> None:
    """Never another exception, whichever half of the record it is in."""
    for one in (key, V1, V2):
        with suppress(MalformedRecord):
            decoded(one, value)
