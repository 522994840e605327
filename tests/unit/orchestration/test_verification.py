"""One judge of whether a started container works, whoever asks: it runs anew, it works, its lag is small."""

from __future__ import annotations

import pytest

from samza_dagster.client.views import ProcessorView, ReplicaLag
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.requests.verify import (
    Expected,
    LagSeen,
    Missing,
    NewReports,
    not_running,
)

pytestmark = pytest.mark.unit
ACTIVE = Expected("0", True, verify_s=60, former="0#1", lag_s=1_800)
STANDBY = Expected("0-0", False, verify_s=60, reports_from="h2")
NO_PROGRESS = "no input offset grew in a commit since its start"


def seen(execution: str | None = "0#2", state: str = "running") -> ProcessorView:
    return ProcessorView("0", TaskMode.ACTIVE, state, "h1", execution)


@pytest.mark.parametrize(
    ("found", "works", "lag", "lacks"),
    [
        (None, True, "", Missing("it is gone", 60)),
        (seen(state="starting"), True, "", Missing("it is starting", 60)),
        (seen("0#1"), True, "", Missing("it still runs as 0#1", 60)),
        (seen(), False, "it is behind", Missing(NO_PROGRESS, 60, "processes")),
        (
            seen(),
            True,
            "it is behind",
            Missing("it is behind", 1_800, "has its lag back", is_lag=True),
        ),
        (seen(), True, "", None),
        (seen(None, "last-seen"), True, "", None),
    ],
)
def test_the_first_that_is_missing_is_told_with_its_own_time(
    found: ProcessorView | None, works: bool, lag: str, lacks: Missing | None
) -> None:
    """Samza's AM tells no incarnation: what it has launched counts as another one."""
    assert ACTIVE.missing(found, works=works, lag=lag) == lacks


def test_a_move_that_awaits_no_former_process_takes_any_that_runs() -> None:
    """Its coordinator has told which one it started."""
    assert not_running(seen("0#1")) == ""


def test_what_is_missing_names_the_sign_and_what_to_do() -> None:
    """An active has to process, a standby of Samza's AM to report from where it was launched."""
    active, standby = (each.missing(seen(), works=False) for each in (ACTIVE, STANDBY))
    assert active is not None
    assert standby is not None
    assert (active.sign, standby.sign) == ("processes", "reports from h2")
    assert "verify_timeout_s 0" in active.fix
    assert "Samza's AM starts it again" in standby.fix


@pytest.mark.parametrize(
    ("expected", "is_awaited"),
    [
        (ACTIVE, True),
        (Expected("0", True, verify_s=0), False),
        (STANDBY, True),
        (Expected("0-0", False, verify_s=60), False),
    ],
)
def test_a_standby_of_our_coordinator_needs_no_sign(expected: Expected, is_awaited: bool) -> None:
    """That its request succeeded says that it has checked in."""
    assert expected.is_awaited is is_awaited


def report(lag: int | None, execution: str = "", at_ms: int = 1) -> ReplicaLag:
    return ReplicaLag(
        *("0-0", "t", TaskMode.STANDBY, "s", "log", 0, None, 0, None, lag, at_ms),
        execution_id=execution,
    )


def test_what_a_former_process_has_reported_says_nothing_of_the_new_one() -> None:
    """Its own first report shows that it runs; the next one how far it is."""
    reports = NewReports()

    def look(*replicas: ReplicaLag) -> LagSeen:
        return reports.look(replicas, "0-0#2", 100, shown_by_work=False)

    unknown = "its lag isn't reported yet"
    assert look(report(0, "0-0#1")) == LagSeen(None, unknown)
    assert look(report(None, "0-0#2")) == LagSeen(None, unknown, is_up=True)
    assert look(report(101, "0-0#2")) == LagSeen(101, "it is 101 records behind, limit 100")
    assert look(report(100, "0-0#2")) == LagSeen(100)
    partly = (report(101, "0-0#2"), report(None, "0-0#2"))
    assert look(*partly) == LagSeen(101, "it is 101 records behind, limit 100")
