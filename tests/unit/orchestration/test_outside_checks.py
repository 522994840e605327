"""What an outsider sees of a job's invariants, and how long a finding must stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.client.views import HostView, OrphanView, ProcessorView
from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.watch import invariants as outside_checks
from samza_dagster.orchestration.watch.findings import (
    MOST_OF_A_CHECK,
    REPEAT_MS,
    CheckFinding,
    CheckMemory,
    Hysteresis,
    LastEvaluation,
    is_due,
    looked,
)
from samza_dagster.orchestration.watch.settings import Invariants, LagSlo
from tests.rig.job_views import job, lag, processor

pytestmark = pytest.mark.unit


WELL = job(
    processor("0", "h1"), processor("0-0", "h2"), processor("1", "h2"), processor("1-0", "h1")
)


def test_a_job_that_is_well_gives_no_finding() -> None:
    """All rules at once."""
    assert outside_checks.same_host(WELL) == []
    assert outside_checks.replicas_present(WELL) == []
    assert outside_checks.one_owner(WELL) == []
    assert (
        outside_checks.locality_agrees(WELL, {"0": "h1", "0-0": "h2", "1": "h2", "1-0": "h1"}) == []
    )


def test_a_container_that_was_seen_last_on_a_host_that_yarn_has_lost_isnt_taken_for_running() -> (
    None
):
    """Under Samza's own AM, which says nothing of it itself, and starts it elsewhere."""
    there = job(processor("0", "h1", "last-seen"), processor("0-0", "h2", "last-seen"), coordinator="samza")  # fmt: skip
    assert outside_checks.replicas_present(there) == []
    lost = replace(there, hosts={**there.hosts, "h1": HostView("h1", "lost", yarn_state="LOST")})
    (finding,) = outside_checks.replicas_present(lost)
    assert (finding.subject, finding.seen, finding.severity) == (
        "0",
        "last seen on h1, which is lost",
        "ERROR",
    )
    assert "starts it elsewhere" in finding.fix


def test_a_missing_standby_of_an_application_masters_job_is_no_request_of_ours() -> None:
    """Its AM knows no `control-standby`: the job's config says how many there are."""
    (ours,) = outside_checks.replicas_present(job(processor("0", "h1")), 1)
    assert ours.fix == "samza-dagster control-standby start 0"
    (theirs,) = outside_checks.replicas_present(
        job(processor("0", "h1", "last-seen"), coordinator="samza"), 1
    )
    assert theirs.fix.startswith("job.standbytasks.replication.factor")


def test_a_dead_job_is_one_finding() -> None:
    assert outside_checks.not_dead(WELL) == []
    (finding,) = outside_checks.not_dead(replace(WELL, dead="YARN's ResourceManager: a1 is KILLED"))
    assert (finding.subject, finding.severity) == ("job", "ERROR")
    assert "deploy the job again" in finding.fix


@pytest.mark.parametrize(
    ("processors", "subjects"),
    [
        ((processor("0", "h1"), processor("0-0", "h1", "stopping")), ["0 on h1"]),
        ((processor("0", "h1", "reserved"), processor("0-0", "h1", "stopping")), []),
        ((processor("0", "h1"), processor("1-0", "h1")), []),
    ],
    ids=["one of them isn't dead yet", "one waits for the other's death", "of two groups"],
)
def test_two_processes_of_one_group_on_one_host_are_an_error(
    processors: tuple[ProcessorView, ...], subjects: list[str]
) -> None:
    found = outside_checks.same_host(job(*processors))
    assert [(f.subject, f.severity) for f in found] == [(s, "ERROR") for s in subjects]


def test_a_container_that_does_not_run_is_missing() -> None:
    """An active's absence weighs more than a standby's; one that leaves isn't wanted."""
    view = job(
        processor("0", None, "requesting"),
        processor("0-0", "h2", "starting"),
        processor("0-1", "h3", "leaving"),
    )
    found = {f.subject: f.severity for f in outside_checks.replicas_present(view, 1)}
    assert found == {"0": "ERROR", "0-0": "WARN"}


def test_an_active_without_the_standbys_that_others_have_is_named() -> None:
    """Without a number the usual one is taken for wanted."""
    view = job(*WELL.processors.values(), processor("2", "h3"))
    assert [f.subject for f in outside_checks.replicas_present(view)] == ["standbys of 2"]
    assert outside_checks.replicas_present(view, 0) == []


def test_a_task_with_two_actives_has_two_owners() -> None:
    """By the assignments of the coordinator stream."""
    view = job(processor("0", "h1", "running", "t"), processor("1", "h2", "running", "t"))
    (found,) = outside_checks.one_owner(view)
    assert (found.subject, found.severity) == ("t", "ERROR")


@pytest.mark.parametrize(
    ("state", "ended", "count"),
    [
        ("running", None, 1),
        ("running", "dead", 0),
        ("running", "fenced", 0),
        ("running", "lease", 0),
        ("reserved", None, 0),
    ],
)
def test_a_processor_beside_its_earlier_self_has_two_owners(
    state: str, ended: str | None, count: int
) -> None:
    """Unless the earlier one was seen dead, was shut out or its lease is over, or this one waits."""
    orphan = OrphanView("0", "old", "h9", 1, None, ended)
    view = replace(job(processor("0", "h1", state)), orphans=(orphan,))
    assert len(outside_checks.one_owner(view)) == count


def test_a_standby_over_the_limit_or_unknown_is_named_once() -> None:
    """Its worst partition counts; an active's lag isn't the check's."""
    lags = [
        lag("0-0", 5),
        lag("0-0", 11, partition=1),
        lag("1-0", None),
        lag("2-0", 10),
        lag("3", 99),
    ]
    found = outside_checks.within_limit(lags, 10)
    assert [f.subject for f in found] == ["0-0", "1-0"]
    assert "11 records" in found[0].seen
    assert "isn't known" in found[1].seen


def test_a_container_that_reported_another_host_disagrees() -> None:
    """Only of those that run: one on its way hasn't reported yet."""
    view = job(processor("0", "h1"), processor("1", "h2", "starting"), processor("2", "h3"))
    found = outside_checks.locality_agrees(view, {"0": "h1", "2": "h9"})
    assert [f.subject for f in found] == ["2"]


SLOW = {"c": Hysteresis(looks=2, for_ms=10_000, good_looks=2)}
BAD = {"c": [CheckFinding("x", "seen", "fix")]}


def test_where_the_clock_was_set_back_patience_begins_anew_and_what_counts_is_told_again() -> None:
    """How long it has stood is counted from then; what was told by the later clock is told once more."""
    board, _ = looked(CheckMemory("demo/1"), BAD, SLOW, 5_000_000)
    board, (result,) = looked(board, BAD, SLOW, 1_000_000)
    assert result.passed
    _, (result,) = looked(board, BAD, SLOW, 1_010_000)
    assert [s.subject for s in result.standing] == ["x"]
    assert is_due(result, LastEvaluation(result.fingerprint, 5_000_000), 1_010_000)
    assert not is_due(result, LastEvaluation(result.fingerprint, 1_000_000), 1_010_000)


def test_what_a_check_has_failed_for_counts_at_once_when_its_sensor_begins_anew() -> None:
    """It was told before the cursor was lost; of any other it isn't known for how long it has been."""
    _, (result,) = looked(CheckMemory("demo/1"), BAD, SLOW, 1_000, {"c"})
    assert not result.passed
    _, (result,) = looked(CheckMemory("demo/1"), BAD, SLOW, 1_000)
    assert result.passed


def test_a_flood_is_bounded_and_the_longest_known_stay() -> None:
    """The cursor stays small, and what is left out is counted."""
    flood = {"c": [CheckFinding(f"f{n:05}", "seen", "fix") for n in range(1_000)]}
    board, _ = looked(CheckMemory("demo/1"), BAD, {"c": Hysteresis(1)}, 1_000)
    board, (result,) = looked(board, {"c": [*BAD["c"], *flood["c"]]}, {"c": Hysteresis(1)}, 2_000)
    assert len(result.standing) == MOST_OF_A_CHECK
    assert result.standing[0].subject == "x"
    assert result.left_out == 1_001 - MOST_OF_A_CHECK
    assert len(board.to_text()) < 60_000


def test_a_result_is_told_when_it_changes_and_now_and_then() -> None:
    """Not at each tick."""
    _, (result,) = looked(CheckMemory("demo/1"), BAD, {"c": Hysteresis(1)}, 1_000)
    told = LastEvaluation(result.fingerprint, 1_000)
    ages = (None, replace(told, fingerprint="other"), told)
    assert [is_due(result, last, 1_000 + REPEAT_MS - 1) for last in ages] == [True, True, False]
    assert is_due(result, told, 1_000 + REPEAT_MS)


@pytest.mark.parametrize(
    "patience",
    [
        LagSlo().patience(60),
        Invariants().patience(60)[outside_checks.LAG],
        Invariants().patience()[outside_checks.LAG],
    ],
)
def test_a_lag_that_one_report_shows_and_the_next_one_doesnt_is_not_told(
    patience: Hysteresis,
) -> None:
    """With a report a minute, and a look each 10 s, it is looked at seven times."""
    board, standing = CheckMemory("demo/1"), list[bool]()
    for look in range(8):
        board, (result,) = looked(board, BAD, {"c": patience}, 1_000 + look * 10_000)
        standing.append(bool(result.standing))
    assert standing[-1]
    assert not any(standing[: patience.for_ms // 10_000])
    assert patience.for_ms >= 60_000


def test_a_check_that_cant_be_judged_keeps_what_stands_and_says_so() -> None:
    """Not seen isn't over; the others are judged."""
    patience = {"lag": Hysteresis(looks=1), "owner": Hysteresis(looks=1)}
    behind, away = CheckFinding("0-0", "behind", "look"), Unreachable("read lags", seen="no answer")
    board, _ = looked(CheckMemory("demo/1"), {"lag": [behind]}, patience, 1_000)
    results: dict[str, list[str]] = {}
    for n in range(2, 6):
        board, found = looked(board, {"lag": away, "owner": [behind]}, patience, n * 1_000)
        results = {result.check: sorted(s.subject for s in result.standing) for result in found}
        assert not any(result.recovered for result in found)
    assert results == {"lag": ["0-0", "not judged"], "owner": ["0-0"]}
    board, _ = looked(board, {"lag": ()}, patience, 7_000)
    _, (lag, _) = looked(board, {"lag": ()}, patience, 8_000)
    assert (lag.passed, set(lag.recovered)) == (True, {"0-0", "not judged"})
