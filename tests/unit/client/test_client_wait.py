"""Waiting sees every status, once, in order, and says what it saw when time is up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from samza_dagster.client import waiting
from samza_dagster.errors import ActionFailed, DeadlineExceeded
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
OTHER = "99b0d30c-d518-4307-9e8e-c8529eb30f04"


def test_each_status_of_a_request_of_ours_is_seen(job: Any) -> None:
    """Also those that were written, and overwritten, before the wait began."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    job.respond(UUID, StatusCode.ACCEPTED, "a")
    job.respond(OTHER, StatusCode.FAILED, "of another request")
    job.respond(UUID, StatusCode.IN_PROGRESS, "b")
    job.respond(UUID, StatusCode.IN_PROGRESS, "c")
    job.respond(UUID, StatusCode.SUCCEEDED, "d")
    seen: list[PlacementResponse] = []
    last = client.wait(UUID, timeout_s=5, on_response=seen.append)
    assert [r.response_message for r in seen] == ["a", "b", "c", "d"]
    assert last.status_code is StatusCode.SUCCEEDED


def test_an_answer_that_the_next_leader_says_again_is_told_once(job: Any) -> None:
    """Also when the action has gone on since: its details say so, people have read its words."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    for stage in ("stopping", "starting"):
        details = ResponseDetails(stage=stage, stopped=("0",))
        job.respond(UUID, StatusCode.IN_PROGRESS, "b", details=details)
    job.respond(UUID, StatusCode.SUCCEEDED, "d")
    seen: list[PlacementResponse] = []
    client.wait(UUID, timeout_s=5, on_response=seen.append)
    assert [r.response_message for r in seen] == ["b", "d"]


def test_an_outcome_from_before_is_the_answer(job: Any) -> None:
    """A request of somebody else that has ended: no wait."""
    job.respond(UUID, StatusCode.FAILED, "no host")
    assert job.client().wait(UUID, timeout_s=5).status_code is StatusCode.FAILED


def test_statuses_written_while_the_wait_starts_keep_their_order(job: Any) -> None:
    """A writer that races with the start: whatever was seen is in order, the last one is there."""
    for _ in range(20):
        messages = [f"m{number}" for number in range(6)]

        def write(messages: list[str] = messages) -> None:
            for message in messages:
                job.respond(UUID, StatusCode.IN_PROGRESS, message)
            job.respond(UUID, StatusCode.SUCCEEDED, "end")

        job.store.remove(PLACEMENT_NAMESPACE, f"{UUID}.ContainerPlacementResponseMessage")
        writer = threading.Thread(target=write)
        seen: list[str] = []

        def collect(response: PlacementResponse, seen: list[str] = seen) -> None:
            seen.append(response.response_message)

        writer.start()
        job.client().wait(UUID, timeout_s=5, on_response=collect)
        writer.join()
        assert seen == [*messages, "end"][-len(seen) :]


def test_a_predicate_ends_the_wait_early(job: Any) -> None:
    """Until IN_PROGRESS, for example: the resource is being reserved."""
    job.respond(UUID, StatusCode.IN_PROGRESS, "b")
    response = job.client().wait(
        UUID, timeout_s=5, until=lambda r: r.status_code is StatusCode.IN_PROGRESS
    )
    assert response.response_message == "b"


@pytest.mark.parametrize(
    ("status", "seen"),
    [
        (None, "no coordinator has taken it"),
        (StatusCode.IN_PROGRESS, "last IN_PROGRESS: Preferred"),
    ],
)
def test_a_deadline_says_what_was_seen_last(job: Any, status: StatusCode | None, seen: str) -> None:
    """Timed out is not failed: the request stays, and the error names the way to follow it."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    if status is not None:
        job.respond(UUID, status, "Preferred Resources requested")
    with pytest.raises(DeadlineExceeded) as raised:
        client.wait(UUID, timeout_s=0.2)
    assert seen in raised.value.seen
    assert f"samza-dagster status {UUID}" in raised.value.fix
    assert raised.value.exit_code == 3


def test_an_unknown_request_is_named_as_such(job: Any) -> None:
    """Neither request nor response: taken a moment ago, or never written."""
    with pytest.raises(DeadlineExceeded, match="never written"):
        job.client().wait(UUID, timeout_s=0.1)


def test_a_response_that_cant_be_read_is_skipped(job: Any) -> None:
    """The next one counts."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    job.store.put(PLACEMENT_NAMESPACE, f"{UUID}.ContainerPlacementResponseMessage", b"{")
    job.respond(UUID, StatusCode.SUCCEEDED, "d")
    assert client.wait(UUID, timeout_s=5).response_message == "d"


def test_a_status_from_before_the_tail_that_was_overwritten_is_never_seen_late(job: Any) -> None:
    """Two statuses land between the first reading and the tail's start: the newest one counts."""
    client = job.client()
    end_position = job.store.end_position

    def late() -> int:
        job.store.end_position = end_position
        job.respond(UUID, StatusCode.ACCEPTED, "a")
        job.respond(UUID, StatusCode.IN_PROGRESS, "b")
        return end_position()

    job.store.end_position = late
    seen: list[str] = []

    def on_response(response: PlacementResponse) -> None:
        seen.append(response.response_message)
        if response.response_message == "b":
            job.respond(UUID, StatusCode.SUCCEEDED, "c")

    client.wait(UUID, timeout_s=10, on_response=on_response)
    assert seen == ["b", "c"]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment that is over has a moment, not two seconds, to answer yet."""
    monkeypatch.setattr(waiting, "_TAIL_S", 0.1)
    monkeypatch.setattr(waiting, "_SLICE_S", 0.02)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("by", ["who wrote it", "another"])
@pytest.mark.parametrize("when", ["before", "while it waits"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_request_of_an_am_that_was_replaced_is_waited_for_no_longer(
    job: Any, by: str, when: str, *, taken: bool
) -> None:
    """The new one knows nothing of it; it was waited for up to the deadline."""
    writer = job.client()
    writer.place("0", "host-2", uuid=UUID)
    if taken:
        job.respond(UUID, StatusCode.IN_PROGRESS, "Preferred Resources requested")
    client = writer if by == "who wrote it" else job.client()
    if when == "before":
        job.configure("app.run.id", "run-2")
    else:
        threading.Timer(0.05, lambda: job.configure("app.run.id", "run-2")).start()
    with pytest.raises(ActionFailed, match="run-2 runs") as raised:
        client.wait(UUID, timeout_s=60)
    assert ("last IN_PROGRESS" in raised.value.seen) is taken


@pytest.mark.usefixtures("hasty")
def test_what_a_coordinator_answers_as_it_is_replaced_is_the_answer(job: Any) -> None:
    """Ours ends what the deployment before was asked, just after the new one began."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    job.configure("app.run.id", "run-2")
    job.respond(UUID, StatusCode.FAILED, "deployment run-2 began")
    assert client.wait(UUID, timeout_s=60).status_code is StatusCode.FAILED
