"""What a long wait says of itself: each half minute, what it sees and how long is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import ActionView, HostView, JobView, ProcessorView, ReplicaLag
from samza_dagster.errors import Unreachable
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.orchestration.requests.heartbeat import Heartbeat, seen_now
from samza_dagster.orchestration.requests.step_request import ENDED, Moment, Outcome, follow
from samza_dagster.placement import texts

pytestmark = pytest.mark.unit
UUID = "00000000-0000-4000-8000-000000000001"


def answer(status: StatusCode, message: str) -> PlacementResponse:
    return PlacementResponse(
        uuid=UUID,
        deployment_id="run-1",
        processor_id="0",
        destination_host="host-2",
        status_code=status,
        timestamp=1_000,
        response_message=message,
    )


STOPPING = answer(StatusCode.IN_PROGRESS, texts.STOP_IN_PROGRESS)
DONE = answer(StatusCode.SUCCEEDED, texts.started("host-2"))


class SlowClient:
    """Says what it is at twice, then that it is done; shows each status again."""

    def wait(
        self, uuid: str, *, on_response: Any, until: Any, on_look: Any, **_: Any
    ) -> PlacementResponse:
        for left_s in (270, 240):
            on_response(STOPPING)
            on_look(left_s)
        on_response(DONE)
        assert until(DONE)
        return DONE


def test_following_a_request_tells_the_status_that_it_is_at() -> None:
    """Each status comes once, whatever the client shows again."""
    moments: list[Moment] = []
    told: list[tuple[str, float]] = []
    outcome = follow(
        cast("PlacementClient", SlowClient()),
        Outcome("move", UUID, 0, "CREATED", "", "host-2", asked_ms=500),
        until=ENDED,
        timeout_s=300,
        on_moment=moments.append,
        beat=lambda status, left_s: told.append((status, left_s)),
    )
    assert outcome.succeeded
    assert [m.status for m in moments] == ["IN_PROGRESS", "SUCCEEDED"]
    at = f"IN_PROGRESS: {texts.STOP_IN_PROGRESS}"
    assert told == [(at, 270), (at, 240)]


@dataclass
class Looked:
    """A client that shows a job and its lags."""

    job: JobView | Unreachable
    lags: tuple[ReplicaLag, ...] = ()

    def view(self) -> JobView:
        if isinstance(self.job, Unreachable):
            raise self.job
        return self.job

    def lag(self) -> tuple[ReplicaLag, ...]:
        return self.lags


def job(**more: Any) -> JobView:
    return JobView(
        job_name="j",
        job_id="1",
        deployment_id="run-1",
        processors={"0": ProcessorView("0", TaskMode.ACTIVE, "starting", "host-2")},
        hosts={"host-2": HostView("host-2", "alive")},
        **more,
    )


def lag(store: str, records: int | None) -> ReplicaLag:
    return ReplicaLag("0", "t", TaskMode.ACTIVE, store, "log", 0, "host-2", 9, 0, records, None)


def test_a_restore_is_told_by_the_records_left() -> None:
    """The most that any of its stores is behind, and where its action is."""
    action = ActionView(UUID, "0", "host-2", "starting", 0)
    client = Looked(job(actions=(action,)), (lag("a", 17), lag("b", 12_345)))
    told = seen_now(cast("PlacementClient", client), "0", UUID)
    assert told == "its action is at starting, 0 is starting on host-2, 12,345 records behind"
    client = Looked(job(), (lag("a", None),))
    assert seen_now(cast("PlacementClient", client), "0") == "0 is starting on host-2, lag unknown"
    client = Looked(job())
    assert seen_now(cast("PlacementClient", client), "0", UUID) == "0 is starting on host-2"
    assert seen_now(cast("PlacementClient", client), "0-0") == "0-0 isn't in the job"


def test_a_look_that_fails_ends_no_wait() -> None:
    """The line says that nobody answered."""
    client = Looked(Unreachable("read the job", seen="no broker answers"))
    told = seen_now(cast("PlacementClient", client), "0")
    assert told == "0 can't be looked at: no broker answers"


def test_a_line_is_made_when_it_is_due_and_of_each_that_is_waited_for() -> None:
    """Two that stand differently don't drive each other's lines."""
    now_ms, lines, made = 0, list[str](), list[str]()

    def line() -> str:
        made.append("x")
        return "looked"

    first, second = (Heartbeat(lines.append, lambda: now_ms) for _ in range(2))
    first.begin("stopping")
    for at_ms in range(0, 61_000, 300):
        now_ms = at_ms
        first("stopping", line)
        second("behind", "1 is behind")
    assert len(made) == 2
    assert lines.count("looked") == 2
    assert lines.count("1 is behind") == 3
    beat = Heartbeat(lines.append, lambda: now_ms)
    beat("steady", "a")
    beat("behind", "b")
    assert lines[-2:] == ["a", "b"]
