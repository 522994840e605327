"""Leadership and commits on a real broker, judged by plain read-committed consumers."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from samza_dagster.errors import Fenced, InvalidInput, MalformedRecord, Unreachable
from samza_dagster.metadata import (
    KafkaCluster,
    StateReader,
    StateRecord,
    StateWriter,
    ensure_topic,
)
from samza_dagster.metadata.topic_reader import TopicEnd
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract
MARK = b"take-over"


@pytest.fixture
def transactional_id() -> str:
    return f"samza-dagster-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_writer(
    bootstrap_servers: str, topic: str, transactional_id: str
) -> Iterator[Callable[[], StateWriter]]:
    writers: list[StateWriter] = []

    def new() -> StateWriter:
        writers.append(StateWriter(bootstrap_servers, topic, transactional_id))
        return writers[-1]

    yield new
    for writer in writers:
        writer.close()


@pytest.fixture
def other_topic(cluster: KafkaCluster) -> str:
    """Stands for the coordinator stream beside the state topic."""
    name = f"stream-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, name)
    return name


def state(**fields: object) -> bytes:
    return json.dumps({"version": 1, **fields}).encode()


def host_of(mark: bytes | None) -> str:
    """Who takes over by a mark."""
    claim = json.loads(mark or b"")
    return claim["host"]


def committed(bootstrap_servers: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """All but the marks of take-overs that a plain read-committed consumer gets once no
    transaction is open.
    """
    return [(key, value) for key, value in in_the_topic(bootstrap_servers, topic) if key != MARK]


def in_the_topic(bootstrap_servers: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """All that such a consumer gets."""
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "outsider",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    dirty = Consumer({**settings, "isolation.level": "read_uncommitted"})
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    partition = TopicPartition(topic, 0)
    deadline = time.monotonic() + 10 * PACE
    while consumer.get_watermark_offsets(partition, 10) != dirty.get_watermark_offsets(
        partition, 10
    ):
        assert time.monotonic() < deadline, "a transaction stays open"
    dirty.close()
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is not None:
            break
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_a_new_leader_reads_what_the_one_before_committed(
    new_writer: Callable[[], StateWriter], topic: str
) -> None:
    """The newest record of every key, in order of offsets, deleted ones left out."""
    first = new_writer()
    assert dict(first.take_over().records) == {}
    first.commit([(topic, b"job", state(n=1)), (topic, b"group/0", state(n=2))])
    first.commit([(topic, b"job", state(n=3)), (topic, b"gone", state())])
    first.commit([(topic, b"gone", None)])
    snapshot = new_writer().take_over()
    assert [(r.key, r.value, r.offset) for r in snapshot.records.values()] == [
        ("group/0", {"version": 1, "n": 2}, 3),
        ("job", {"version": 1, "n": 3}, 5),
    ]
    # A mark, five records, four markers, and up to the second mark, which is read, too.
    assert snapshot.end == 11


def test_a_take_over_marks_what_it_has_read(
    new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str
) -> None:
    """One record before anything else, which says who takes over; nothing of it is state."""
    first, second = new_writer(), new_writer()
    assert first.take_over(claim={"host": "a"}).end == 1
    first.commit([(topic, b"leader", state(epoch=1))])
    snapshot = second.take_over(claim={"host": "b"})
    assert (list(snapshot.records), snapshot.end) == (["leader"], 5)
    found = in_the_topic(bootstrap_servers, topic)
    assert [key for key, _ in found] == [MARK, b"leader", MARK]
    assert [host_of(value) for key, value in found if key == MARK] == ["a", "b"]
    assert StateReader(bootstrap_servers, topic).snapshot().records["take-over"].offset == 4


def test_an_end_that_the_broker_tells_too_low_hides_nothing_from_a_leader(
    new_writer: Callable[[], StateWriter], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a broker's restart, before its high watermark is back."""
    first = new_writer()
    first.take_over()
    for n in range(5):
        first.commit([(topic, b"job", state(n=n))])
    answers = {"asked": 0}

    def too_low(*_: object, **__: object) -> int:
        answers["asked"] += 1
        return 4

    monkeypatch.setattr(TopicEnd, "offset", too_low)
    snapshot = new_writer().take_over()
    assert answers["asked"] > 0
    assert snapshot.records["job"].value == {"version": 1, "n": 4}


def test_a_take_over_that_lost_against_another_leads_nowhere(
    new_writer: Callable[[], StateWriter],
    bootstrap_servers: str,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fenced before its mark: it is told so, has written nothing and may try again later."""
    slow, quick = new_writer(), new_writer()
    mark = StateWriter._mark

    def after_the_other(self: StateWriter, *arguments: Any) -> int:
        if self is slow:
            monkeypatch.setattr(StateWriter, "_mark", mark)
            quick.take_over(claim={"host": "quick"})
            quick.commit([(topic, b"leader", state(epoch=1))])
        return mark(self, *arguments)

    monkeypatch.setattr(StateWriter, "_mark", after_the_other)
    with pytest.raises(Fenced):
        slow.take_over(claim={"host": "slow"})
    with pytest.raises(Fenced):
        slow.commit([(topic, b"leader", state(epoch=1))])
    quick.commit([(topic, b"job", state())])
    key, value = in_the_topic(bootstrap_servers, topic)[0]
    assert (key, host_of(value)) == (MARK, "quick")
    assert set(slow.take_over().records) == {"leader", "job"}


def test_the_older_writer_is_fenced_and_nothing_of_it_is_visible(
    new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str
) -> None:
    """After a take-over every commit of the older one is refused, for good."""
    old = new_writer()
    old.take_over()
    old.commit([(topic, b"leader", state(epoch=1))])
    young = new_writer()
    snapshot = young.take_over()
    with pytest.raises(Fenced) as raised:
        old.commit([(topic, b"leader", state(epoch=99))])
    assert raised.value.exit_code == 1
    assert snapshot.records["leader"].value == {"version": 1, "epoch": 1}
    young.commit([(topic, b"leader", state(epoch=2))])
    with pytest.raises(Fenced):
        old.commit([(topic, b"leader", state(epoch=99))])
    with pytest.raises(Fenced):
        old.finish_pending()
    assert committed(bootstrap_servers, topic) == [
        (b"leader", state(epoch=1)),
        (b"leader", state(epoch=2)),
    ]


def test_a_transaction_that_a_dead_leader_left_open_is_invisible(
    new_writer: Callable[[], StateWriter],
    bootstrap_servers: str,
    topic: str,
    transactional_id: str,
) -> None:
    """Its records are in the log; the take-over aborts them and doesn't wait for a time-out."""
    new_writer().take_over()
    zombie = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id}
    )
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, key=b"leader", value=state(epoch=99))
    assert zombie.flush(10) == 0
    started = time.monotonic()
    successor = new_writer()
    assert dict(successor.take_over().records) == {}
    assert time.monotonic() - started < 5 * PACE
    successor.commit([(topic, b"leader", state(epoch=2))])
    assert committed(bootstrap_servers, topic) == [(b"leader", state(epoch=2))]


def test_a_commit_spans_state_topic_and_coordinator_stream_whole_or_not_at_all(
    new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str, other_topic: str
) -> None:
    """One record that the broker refuses keeps the others of its commit out of every topic."""
    writer = new_writer()
    writer.take_over()
    writer.commit([(topic, b"a", state(n=1)), (other_topic, b'[1,"n","k"]', b"1")])
    with pytest.raises(InvalidInput):
        writer.commit(
            [
                (topic, b"a", state(n=2)),
                (other_topic, b'[1,"n","k"]', b"x" * 3_000_000),
                (topic, b"b", state(n=2)),
            ]
        )
    assert not writer.has_pending
    missing = f"missing-{topic}"
    with pytest.raises(InvalidInput, match=f"no topic {missing}"):
        writer.commit([(topic, b"a", state(n=2)), (missing, b"k", b"v")])
    writer.commit([(topic, b"a", state(n=3)), (other_topic, b'[1,"n","k"]', b"3")])
    assert committed(bootstrap_servers, topic) == [(b"a", state(n=1)), (b"a", state(n=3))]
    assert committed(bootstrap_servers, other_topic) == [
        (b'[1,"n","k"]', b"1"),
        (b'[1,"n","k"]', b"3"),
    ]


def test_a_record_that_the_broker_refuses_aborts_the_whole_commit(
    cluster: KafkaCluster, new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str
) -> None:
    """Refused after it was sent (larger than the topic takes): the others are aborted with it."""
    small = f"small-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, small, config={"cleanup.policy": "compact", "max.message.bytes": "1000"})
    writer = new_writer()
    writer.take_over()
    with pytest.raises(InvalidInput):
        writer.commit([(topic, b"a", state(n=1)), (small, b"k", b"x" * 5000)])
    writer.commit([(topic, b"b", state(n=2))])
    assert committed(bootstrap_servers, topic) == [(b"b", state(n=2))]
    assert committed(bootstrap_servers, small) == []


def test_answers_that_were_overwritten_are_read_with_the_newest(
    new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str
) -> None:
    """In order, with their positions, counted with the mark of a take-over and the commits' ends."""
    writer, key = new_writer(), f"response/{uuid.uuid4()}".encode()
    writer.take_over()
    for status in (b"ACCEPTED", b"IN_PROGRESS", b"SUCCEEDED"):
        writer.commit([(topic, key, status), (topic, b"job", state(n=1))])
    writer.commit([(topic, b"response/other", b"FAILED")])
    writer.commit([(topic, b"response/other", None)])
    snapshot = StateReader(bootstrap_servers, topic).snapshot()
    assert [(r.offset, r.key, r.value) for r in snapshot.answers] == [
        (2, key, b"ACCEPTED"),
        (5, key, b"IN_PROGRESS"),
        (8, key, b"SUCCEEDED"),
        (11, b"response/other", b"FAILED"),
    ]
    assert [(r.offset, r.value) for r in snapshot.mail] == [(8, b"SUCCEEDED")]


@pytest.mark.parametrize("keep", [False, True])
def test_readers_never_see_half_a_commit(
    new_writer: Callable[[], StateWriter],
    bootstrap_servers: str,
    topic: str,
    keep: bool,
) -> None:
    """While commits run, every snapshot of a client holds one whole commit, and the first at least."""
    writer = new_writer()
    writer.take_over()
    keys = [f"group/{n}".encode() for n in range(5)]
    writer.commit([(topic, key, state(n=0)) for key in keys])
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            writer.commit([(topic, key, state(n=number)) for key in keys])

    thread = threading.Thread(target=write)
    thread.start()
    reader = StateReader(bootstrap_servers, topic, keep=keep)
    seen: set[int] = set()
    deadline = time.monotonic() + 20 * PACE
    try:
        while len(seen) < 5 and time.monotonic() < deadline:
            found = reader.snapshot().records
            records = [record for key, record in found.items() if key != "take-over"]
            assert len(records) == 5
            numbers = {record.value["n"] for record in records if record.value is not None}
            assert len(numbers) == 1
            seen |= numbers
    finally:
        stop.set()
        thread.join()
    assert len(seen) == 5


def test_a_watch_sees_committed_records_only_and_reports_bad_ones(
    new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str
) -> None:
    """Deletions come as None; another version is told with its offset and skipped."""
    writer = new_writer()
    writer.take_over()
    reader = StateReader(bootstrap_servers, topic)
    seen: queue.Queue[StateRecord] = queue.Queue()
    told: queue.Queue[MalformedRecord] = queue.Queue()
    reader.watch(seen.put, on_malformed=told.put)
    writer.commit([(topic, b"group/a", state(n=1)), (topic, b"group/b", b'{"version":3}')])
    writer.commit([(topic, b"group/a", None)])
    assert [(r.key, r.value) for r in (seen.get(timeout=10), seen.get(timeout=10))] == [
        ("group/a", {"version": 1, "n": 1}),
        ("group/a", None),
    ]
    assert f"topic {topic}, offset 3: key group/b, field version: 3" in told.get(timeout=10).seen
    reader.close()


def test_nobody_leads_on_a_state_that_cannot_be_read(
    new_writer: Callable[[], StateWriter], topic: str
) -> None:
    """The refusal names topic and offset. A bad record that was overwritten since doesn't count."""
    writer = new_writer()
    writer.take_over()
    writer.commit([(topic, b"job", state()), (topic, b"group/0", b'{"version":3}')])
    with pytest.raises(MalformedRecord, match="field version: 3") as raised:
        new_writer().take_over()
    assert f"topic {topic}, offset 3" in raised.value.seen
    repair = new_writer()
    with pytest.raises(MalformedRecord):
        repair.take_over()
    repair.commit([(topic, b"group/0", state(n=1))])
    assert set(new_writer().take_over().records) == {"job", "group/0"}


def test_leading_needs_the_state_topic(bootstrap_servers: str, transactional_id: str) -> None:
    """An unknown job is refused before anybody is fenced, and by a commit before a take-over."""
    missing = f"missing-{transactional_id}"
    writer = StateWriter(bootstrap_servers, missing, transactional_id)
    with pytest.raises(InvalidInput, match=f"no topic {missing}"):
        writer.take_over()
    with pytest.raises(InvalidInput, match="take_over"):
        writer.commit([(missing, b"a", b"{}")])
    with pytest.raises(InvalidInput, match=f"no topic {missing}"):
        StateReader(bootstrap_servers, missing).snapshot()


def test_a_foreign_open_transaction_never_hides_our_state_from_a_leader(
    new_writer: Callable[[], StateWriter], bootstrap_servers: str, topic: str
) -> None:
    """It would end a read-committed read too early: the take-over refuses instead of forgetting."""
    stranger = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": uuid.uuid4().hex}
    )
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(topic, key=b"x", value=state())
    assert stranger.flush(10) == 0
    leader = new_writer()
    with pytest.raises(Unreachable, match="offset"):
        leader.take_over(timeout_s=3)
    stranger.abort_transaction(10)
    assert dict(new_writer().take_over().records) == {}
