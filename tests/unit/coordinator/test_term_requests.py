"""What a term does with requests that come: queues, refusals, what can't be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from samza_dagster.coordinator import refusal
from samza_dagster.coordinator.kafka import KafkaOwnRequests
from samza_dagster.coordinator.mail import Arrived, Ignored, Mail
from samza_dagster.metadata.state_topic import Snapshot, encode_record
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands, events
from samza_dagster.placement.state import PlacementAsk
from tests.rig.term_bench import UUID, Bench, Finished, asks, everything_runs, leading, malformed
from tests.unit.placement.scenes import stored_and_read

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("own", [False, True])
def test_a_group_queues_no_more_than_its_record_holds(
    own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is answered once, with what would make it legal, and deleted where it is."""
    monkeypatch.setattr(refusal, "MOST_QUEUED", 3)
    bench = leading()
    *taken, beyond = asks(4, own=own, **({"kind": RequestKind.PLACE} if own else {}))
    for each in taken:
        bench.term._handle(each)
    assert len(bench.steps.state.groups["0"].queue) == 3
    bench.log.commits.clear()
    bench.term._handle(beyond)
    ((records, _, stream),) = bench.log.commits
    if own:
        (_, gone), (_, answer) = records[-2:]
        text = str(answer)
    else:
        gone, text = stream[0].value, stream[1].value.decode()
    assert gone is None
    assert "BAD_REQUEST" in text
    assert "at most 3 requests; 3 of group 0 wait; ask again when" in text
    bench.log.commits.clear()
    monkeypatch.setattr(refusal, "MOST_QUEUED", 9)
    bench.term._handle(beyond)
    assert bench.log.commits == [([], [commands.DeleteRequest(beyond.ask.uuid, own)], [])]
    assert len(bench.steps.state.groups["0"].queue) == 3


def largest(bench: Bench) -> int:
    """Bytes of the largest record that was written to the state topic."""
    written = [encode_record(*record) for records, _, _ in bench.log.commits for record in records]
    return max(len(key) + len(value or b"") for key, value in written)


@pytest.mark.parametrize("kind", [RequestKind.STOP_STANDBY, RequestKind.FAIL_OVER])
def test_no_queue_outgrows_what_a_broker_takes_in_one_record(kind: RequestKind) -> None:
    """260 requests with the longest names were 1.1 MB: no leader could write the group again."""
    bench = leading()
    everything_runs(bench)
    bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "0", "ANY_HOST", 0)))
    told = []
    for each in asks(260, own=True, kind=kind):
        pid = "0-0" if kind is RequestKind.STOP_STANDBY else "0"
        long = replace(each.ask, processor_id=pid, destination_host="\N{FOX FACE}" * 1024)
        bench.term._handle(Arrived(long))
        told += [str(record) for record in bench.log.commits[-1][0] if "response/" in record[0]]
    queue = bench.steps.state.groups["0"].queue
    assert 20 < len(queue) < 260
    assert largest(bench) < 500_000
    assert f"at most {refusal.MOST_QUEUED_BYTES} bytes of requests" in told[0]
    assert f"{len(queue)} of group 0 wait" in told[0]
    assert "ask again when one of them has ended, or cancel some" in told[0]


def test_one_request_finds_room_in_an_empty_queue_however_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fields are bounded where they are read; the bound of the queue is for many."""
    monkeypatch.setattr(refusal, "MOST_QUEUED_BYTES", 10)
    bench = leading()
    first, second = asks(2)
    bench.term._handle(first)
    bench.term._handle(second)
    assert [ask.uuid for ask in bench.steps.state.groups["0"].queue] == [first.ask.uuid]


def test_a_full_queue_changes_nothing_for_what_isnt_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A UUID that is known or queued, another deployment's, and a cancellation, which makes room."""
    monkeypatch.setattr(refusal, "MOST_QUEUED", 2)
    bench = leading()
    first, second = asks(2)
    for each in (first, second):
        bench.term._handle(each)
    answered = len(bench.log.commits)
    bench.term._handle(second)
    bench.term._handle(Arrived(replace(second.ask, uuid=UUID, deployment_id="run-0")))
    assert [len(p) for _, p, _ in bench.log.commits[answered:]] == [1, 1]
    cancel = replace(
        second.ask, uuid=UUID, kind=RequestKind.CANCEL, refers_to=second.ask.uuid, own=True
    )
    bench.term._handle(Arrived(cancel))
    assert [ask.uuid for ask in bench.steps.state.groups["0"].queue] == [first.ask.uuid]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_request_under_a_uuid_that_was_refused_unread_is_only_deleted(
    own: bool, restarted: bool
) -> None:
    """BAD_REQUEST is its outcome, also for a coordinator that takes over."""
    bench = leading()
    bench.term._handle(malformed(own))
    if restarted:
        bench.steps.state = bench.steps.stored = stored_and_read(bench.steps.state)
        bench.term._handle(events.CoordinatorRestarted(0))
    bench.log.commits.clear()
    bench.term._handle(malformed(own))
    bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "0", "ANY_HOST", 1, own=own)))
    (records, told, stream), (later, deleted, _) = bench.log.commits
    assert [value for _, value in records] + [r.value for r in stream] == [None]
    assert (told, later, deleted) == ([], [], [commands.DeleteRequest(UUID, own)])
    assert bench.steps.state.groups["0"].queue == ()
    assert bench.steps.state.groups["0"].action is None


def test_of_another_deployment_or_a_known_uuid_it_is_only_deleted() -> None:
    """The first outcome stands; others' requests have no record here."""
    bench = leading()
    bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "9", "h1", 1)))
    bench.log.commits.clear()
    bench.term._handle(malformed(own=True))
    bench.term._handle(malformed(own=True, uuid="1" * 8 + UUID[8:], deployment_id="run-0"))
    assert [len(records) for records, _, _ in bench.log.commits] == [1, 1]


def test_what_nobody_can_be_answered_for_is_counted() -> None:
    """And nothing is written."""
    bench = Bench()
    bench.run()
    bench.log.commits.clear()
    bench.term._handle(Ignored("a key without a UUID"))
    assert bench.steps.counters["ignored-requests"] == 1
    assert bench.log.commits == []


def test_reports_that_cant_be_read_have_a_counter_of_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many in one round, told of once: a topic full of them fills no log."""
    bench = Bench()
    bench.run()
    bench.term.observe(Ignored("no JSON", counted_as="ignored-reports", times=3))
    bench.term.observe(Ignored("", counted_as="ignored-reports", times=2))
    bench.handle_all()
    assert bench.steps.counters["ignored-reports"] == 5
    assert bench.steps.counters["ignored-requests"] == 0
    assert [r.message for r in caplog.records if "ignored" in r.message] == [
        "ignored a record: no JSON"
    ]


@dataclass
class Reader:
    """A state topic in which nothing more comes but what the test tells `on_foreign`."""

    on_foreign: Callable[[TopicRecord], None] = lambda _: None

    def watch_mail(
        self, on_record: object, *, from_position: int, on_foreign: Callable[..., None]
    ) -> Finished:
        self.on_foreign = on_foreign
        return Finished()


def test_foreign_records_of_the_state_topic_are_counted_as_ignored() -> None:
    """Those that were there at the take-over, and those that come later; deletions are none."""
    foreign = TopicRecord(b"\xff" * 300, b"\x00", 0, 3)
    reader = Reader()
    told: list[Mail] = []
    source = KafkaOwnRequests(
        reader,  # pyright: ignore[reportArgumentType]
        Snapshot({}, 9, (TopicRecord(b"request/\xff", b"x", 0, 1),), foreign=(foreign,)),
    )
    with source.tail(told.append):
        reader.on_foreign(replace(foreign, key=None))
    assert [type(mail) for mail in told] == [Ignored] * 3
    assert {mail.counted_as for mail in told if isinstance(mail, Ignored)} == {"ignored-requests"}
    assert "offset 3" in str(told[1])
    assert len(str(told[1])) < 1000


def test_what_is_about_a_request_comes_after_it_whatever_time_it_bears() -> None:
    """Its client's clock is behind, and nobody led meanwhile: a cancel that came first had nothing to cancel."""
    place, cancel = UUID, UUID.replace("0", "1")
    asked = {"processorId": "0", "destinationHost": "h1", "deploymentId": "run-1"}
    written = [
        (place, {**asked, "kind": "fail-over", "timestamp": 200_000}),
        (cancel, {**asked, "kind": "cancel", "timestamp": 50_000, "refersTo": place}),
    ]
    mail = tuple(
        TopicRecord(
            f"request/{uuid}".encode(), json.dumps({"version": 1, **of}).encode(), 0, number
        )
        for number, (uuid, of) in enumerate(written)
    )

    told: list[Mail] = []
    with KafkaOwnRequests(Reader(), Snapshot({}, 2, mail)).tail(told.append):  # pyright: ignore[reportArgumentType]
        assert [m.ask.uuid for m in told if isinstance(m, Arrived)] == [place, cancel], told


def test_a_cancel_finds_the_request_that_waited_with_it_in_the_other_topic() -> None:
    """Requests of Samza's wire are in the coordinator stream, what is about them is in ours."""
    about = UUID.replace("0", "1")
    bench = Bench()
    bench.mails.append(Arrived(PlacementAsk(UUID, "run-1", "0", "h1", 200_000)))
    bench.own.append(
        Arrived(
            PlacementAsk(
                about, "run-1", "0", "h1", 50_000, kind=RequestKind.CANCEL, refers_to=UUID, own=True
            )
        )
    )
    bench.run()
    bench.handle_all()
    answers = {
        p.uuid: p.status
        for _, projections, _ in bench.log.commits
        for p in projections
        if isinstance(p, commands.WriteResponse)
    }
    assert answers[about] == "SUCCEEDED", answers
