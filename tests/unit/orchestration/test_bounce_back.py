"""Whoever was back and isn't the same process any more: died, or restarted by somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import (
    ActionView,
    FailoverView,
    HostView,
    JobView,
    ProcessorView,
)
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode, TaskMode
from samza_dagster.orchestration.operations.schedule import Progress, UnitStatus
from samza_dagster.orchestration.operations.watching import SETTLES_MS, BackWatch, Since
from samza_dagster.placement import texts
from tests.rig.played_job import PlayedJob
from tests.rig.worker import Calls, Worker

pytestmark = pytest.mark.unit
MEMBERS = {"0": "h1", "0-0": "h2", "1": "h3"}
OURS = {p: f"00000000-0000-4000-8000-00000000000{n}" for n, p in enumerate(MEMBERS)}
THEIRS = "00000000-0000-4000-8000-0000000000ff"


def client_of(*told: PlacementResponse, calls: Calls | None = None) -> PlacementClient:
    """Of a job in which these are the answers. All have been restarted once."""
    played = PlayedJob(at=dict(MEMBERS), starts=dict.fromkeys(MEMBERS, 1))
    for response in told:
        played.respond(response)
    return Worker.client(played.client(), calls or Calls())


def job(died: str = "", *, execution: str = "", **more: Any) -> JobView:
    """All run as `<id>#1`; the one that died is starting, or runs as `execution`."""

    def processor(p: str, host: str) -> ProcessorView:
        mode = TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE
        if p != died:
            return ProcessorView(p, mode, "running", host, f"{p}#1")
        return ProcessorView(
            p, mode, "running" if execution else "starting", host, execution or None
        )

    made = JobView(
        job_name="j",
        job_id="1",
        deployment_id="run-1",
        processors={p: processor(p, host) for p, host in MEMBERS.items()},
        hosts={host: HostView(host, "alive") for host in MEMBERS.values()},
        coordinator="samza_dagster",
    )
    return replace(made, **more)


def rows() -> dict[str, Progress]:
    return {
        p: Progress(
            p, host, "active", UnitStatus.BACK, uuid=OURS[p], in_ms=1_000, execution=f"{p}#1"
        )
        for p, host in MEMBERS.items()
    }


def answer(
    processor: str, message: str, at_ms: int = 5_000, to: str = "h9", uuid: str = THEIRS
) -> PlacementResponse:
    status = StatusCode.SUCCEEDED if message.startswith("Success") else StatusCode.FAILED
    return PlacementResponse(
        uuid=uuid,
        deployment_id="run-1",
        processor_id=processor,
        destination_host=to,
        status_code=status,
        timestamp=at_ms,
        response_message=message,
    )


def swapped(message: str, **details: Any) -> PlacementResponse:
    """Of 0 with a standby, as our coordinator answers it."""
    given = answer("0", message, to="STANDBY")
    return given.model_copy(update={"details": ResponseDetails(**details)})


def watch(client: PlacementClient, *views: JobView, every_ms: int = SETTLES_MS) -> list[Since]:
    made = BackWatch(client)
    ours = set(OURS.values())
    return [made.look(view, rows(), ours, 10_000 + n * every_ms) for n, view in enumerate(views)]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (lambda: job("0-0"), "0-0 is starting"),
        (lambda: job("0-0", execution="0-0#2"), "0-0 runs as 0-0#2, no longer as 0-0#1"),
        (lambda: job(hosts={"h2": HostView("h2", "lost")}), "host h2 is lost"),
    ],
)
def test_who_died_by_itself_has_failed_when_no_answer_says_otherwise(
    view: Callable[[], JobView], why: str
) -> None:
    """Until the answer would be there it is unsettled."""
    first, second = watch(client_of(), view(), view())
    assert first == Since(unsettled={"0-0": why})
    assert second == Since(died={"0-0": why})


def test_who_is_itself_again_before_that_has_not_failed() -> None:
    """A host that was silent for a moment: the same process runs on."""
    silent = job(hosts={"h2": HostView("h2", "lost")})
    looks = watch(client_of(), silent, job(), silent, job())
    assert [set(look.unsettled) for look in looks] == [{"0-0"}, set(), {"0-0"}, set()]
    assert not any(look.died for look in looks)


SWAP = ActionView("x", "0", "STANDBY", "stopping-standby", 0)


@pytest.mark.parametrize(
    "seen",
    [
        {"actions": (ActionView("x", "0-0", "h9", "stopping", 0),)},
        {"actions": (ActionView("x", "0-0", "h9", "fallback-any", 0),)},
        {"actions": (SWAP,)},
        {"actions": (replace(SWAP, stage="starting", kind="fail-over"),)},
        {"failovers": (FailoverView("0", "0-0", "h2", 0, "0 died"),)},
    ],
)
def test_who_somebody_else_restarts_has_not_failed(seen: dict[str, Any]) -> None:
    """By its own action, for an active that takes its place, or by the coordinator for one that died.

    What was seen once counts until it runs again; then it is watched as the process it is.
    """
    again = job("0-0", execution="0-0#2")
    looks = watch(client_of(), job("0-0", **seen), job("0-0"), job("0-0"), again)
    assert looks[:3] == [Since()] * 3
    assert {p: found.execution_id for p, found in looks[3].renewed.items()} == {"0-0": "0-0#2"}


@pytest.mark.parametrize(
    "action",
    [
        ActionView("x", "0-0", "h9", "held", 0),
        ActionView("x", "0-0", "h9", "reserving", 0),
        ActionView("x", "0", "h9", "stopping", 0),
        ActionView("x", "0", "STANDBY", "reserving-standby", 0),
        ActionView("x", "1", "STANDBY", "starting", 0),
        ActionView(OURS["0-0"], "0-0", "LAST_SEEN", "starting", 0),
    ],
)
def test_an_action_that_has_not_stopped_it_excuses_nothing(action: ActionView) -> None:
    """It only reserves, is another group's, or is about the other member."""
    view = job("0-0", actions=(action,))
    assert set(watch(client_of(), view, view)[1].died) == {"0-0"}


@pytest.mark.parametrize(
    ("told", "is_asked_for"),
    [
        (answer("0-0", texts.started("h9")), True),
        (answer("0-0", texts.start_failed("h9", "h2")), True),
        (answer("0-0", texts.constraints_now("h9")), True),
        (swapped("cancelled after standby 0-0 gave way", stopped=("0-0",)), True),
        (answer("0", texts.started("h9")), False),
        (answer("0-0", texts.started("h9"), at_ms=900), False),
        (answer("0-0", texts.started("h9"), uuid=OURS["0-0"]), False),
        (answer("0-0", texts.failed("container 0-0 ended by itself")), False),
        (answer("0-0", texts.expired("no room")), False),
        (answer("0-0", texts.RELEASED), False),
        (answer("0-0", texts.ended_for("x", released=True)), False),
        (swapped(texts.standby_started("0-1", "h9"), started="0-1", host="h9"), False),
        (swapped(texts.started("h2"), started="0", stopped=("0-0", "0")), True),
        (swapped(texts.started("h2"), started="0", stopped=("0-1", "0")), False),
        (swapped(texts.stop_failed("h1"), stopped=("0-0",)), True),
        (swapped(texts.stop_failed("h2")), False),
    ],
)
def test_an_answer_tells_whether_somebody_has_asked(
    told: PlacementResponse, is_asked_for: bool
) -> None:
    """One that came after its own restart and says that it was stopped."""
    again = job("0-0", execution="0-0#2")
    looks = watch(client_of(told), again, again)
    assert bool(looks[0].renewed) is is_asked_for
    assert bool(looks[1].died) is not is_asked_for


def test_one_answer_excuses_one_restart() -> None:
    """It was moved, and dies there by itself."""
    client = client_of(answer("0-0", texts.started("h9")))
    made, known = BackWatch(client), rows()
    moved = job("0-0", execution="0-0#2")
    assert set(made.look(moved, known, (), 10_000).renewed) == {"0-0"}
    known["0-0"] = replace(known["0-0"], execution="0-0#2")
    assert made.look(moved, known, (), 11_000) == Since()
    died = job("0-0", execution="0-0#3")
    assert set(made.look(died, known, (), 12_000).unsettled) == {"0-0"}
    assert set(made.look(died, known, (), 12_000 + SETTLES_MS).died) == {"0-0"}


def test_what_another_deployment_restarts_has_not_failed() -> None:
    """Whoever deployed has asked for it; what dies under it later has."""
    made, known = BackWatch(client_of()), rows()
    assert made.look(job(), known, (), 0) == Since()
    second = {"deployment_id": "run-2"}
    assert made.look(job("1", **second), known, (), 1_000) == Since()
    again = job("1", execution="1#2", **second)
    assert set(made.look(again, known, (), 60_000).renewed) == {"1"}
    known["1"] = replace(known["1"], execution="1#2")
    assert made.look(again, known, (), 61_000) == Since()
    for at_ms in (62_000, 62_000 + SETTLES_MS):
        look = made.look(job("1", **second), known, (), at_ms)
    assert set(look.died) == {"1"}


def test_a_calm_bounce_reads_no_answers() -> None:
    """Nor one under Samza's AM, which tells no incarnations."""
    calls = Calls()
    watch(client_of(calls=calls), job(), job(), job("0", coordinator="samza"))
    assert calls.count == 0
