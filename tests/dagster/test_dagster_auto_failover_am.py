"""`auto_failover` where Samza's own AM coordinates: what it tells, when, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg
import pytest
from watched_am import REPORT_MS, WatchedAm, Watching

from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.watch.settings import AutoFailover

pytestmark = pytest.mark.dagster
DEADLINE_MS = 3 * REPORT_MS
AT_ONCE_MS = 15_000
"""Where YARN says it: as many looks as it takes to count, here five seconds apart."""
REFUSED_THERE = (
    "fail-over",
    "cancel",
    "--to STANDBY",
    "--hold",
    "control-standby",
    "coordinator run",
)


def told(events: list[dg.AssetObservation]) -> list[tuple[str, str]]:
    """Signal and subject of each trouble, in the order in which they were told."""
    found = [
        (str(e.metadata["signal"].value), str(e.metadata["subject"].value))
        for e in events
        if "verdict" in e.metadata
    ]
    return list(dict.fromkeys(found))


def ends(watching: Watching) -> list[tuple[str, str, str]]:
    """Signal, outcome and what was done of each trouble that is over."""
    names = ("signal", "outcome", "done")
    over = [e for e in watching.events.kept if "outcome" in e.metadata]
    return [tuple(str(e.metadata[name].value) for name in names) for e in over]  # type: ignore[misc]


@dataclass(frozen=True)
class Fault:
    """What is done to the job, what is to be told of it, and by when."""

    name: str
    inject: Callable[[WatchedAm], None]
    signal: tuple[str, str]
    resource_manager: bool = False
    deadline_ms: int = DEADLINE_MS


FAULTS = (
    *(Fault("frozen active", lambda w, p=p: w.freeze(p), ("silent", p)) for p in "0123"),
    *(
        Fault("frozen standby", lambda w, p=p: w.freeze(f"{p}-0"), ("silent", f"{p}-0"))
        for p in "0123"
    ),
    *(
        Fault(
            "dead restore thread",
            lambda w, p=p: w.kill_restore_thread(f"{p}-0"),
            ("standby-stalled", f"{p}-0"),
        )
        for p in "0123"
    ),
    *(Fault("dead node", lambda w, h=h: w.kill_node(h), ("host-sick", h)) for h in ("nm0", "nm2")),
    Fault(
        "dead node",
        lambda w: w.kill_node("nm1"),
        ("host-sick", "nm1"),
        resource_manager=True,
    ),
    *(Fault("dead AM", lambda w: w.kill_am(), ("coordinator-replaced", "job")) for _ in range(2)),
    Fault("dead AM", lambda w: w.kill_am(), ("coordinator-gone", "coordinator"), True, AT_ONCE_MS),
    Fault("dead job", lambda w: w.kill_job(), ("job-dead", "job")),
    Fault("dead job", lambda w: w.kill_job(), ("job-dead", "job"), True, AT_ONCE_MS),
)
KINDS = tuple({(fault.name, fault.resource_manager): fault for fault in FAULTS}.values())
"""One of each, with a ResourceManager that tells it and without."""


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_each_fault_is_told_within_three_report_intervals(number: int) -> None:
    """Twenty faults, each at another second: what it is, of whom, and nothing else."""
    fault = FAULTS[number]
    world = WatchedAm(seed=number, resource_manager=fault.resource_manager)
    watching = Watching(world)
    assert watching.go_on(300 + 7 * number) == []
    fault.inject(world)
    found = watching.go_on(fault.deadline_ms // 1000)
    assert told(found) == [fault.signal], fault.name


@pytest.mark.parametrize("lag_as_reported", [True, False])
def test_nothing_is_told_in_a_quiet_hour(lag_as_reported: bool) -> None:
    """Reports that are late, and one in twenty lost."""
    world = WatchedAm(lag_as_reported=lag_as_reported, loses_reports=True)
    watching = Watching(world)
    assert watching.go_on(3_600) == []


def test_the_first_mode_on_an_am_only_records() -> None:
    """What it would ask, with what a person would run: no verb that an AM refuses."""
    world = WatchedAm()
    watching = Watching(world)
    watching.go_on(300)
    world.freeze("0")
    (event,) = watching.go_on(180)
    assert event.metadata["verdict"].value == "shadow"
    assert event.metadata["action"].value == "move_with_standby"
    assert world.placed == []
    assert watching.runs == []


@pytest.mark.parametrize("fault", KINDS, ids=lambda f: f.name)
def test_no_advice_names_what_an_am_refuses(fault: Fault) -> None:
    """Of any kind of fault, in any mode that doesn't ask."""
    world = WatchedAm(resource_manager=fault.resource_manager)
    watching = Watching(world, AutoFailover(mode="advise"))
    watching.go_on(300)
    fault.inject(world)
    for event in watching.go_on(900):
        said = f"{event.description} {event.metadata.get('what_to_do')}"
        assert not [word for word in REFUSED_THERE if word in said], said


def test_in_act_a_frozen_active_is_moved_by_one_run() -> None:
    """Of `move_with_standby`, which asks twice; the tick itself writes nothing."""
    world = WatchedAm()
    watching = Watching(world, AutoFailover(mode="act"))
    watching.go_on(300)
    world.freeze("0")
    watching.go_on(400)
    (run,) = watching.runs
    assert run.job_name == "move_with_standby"
    config = run.run_config["ops"]["plan_move_with_standby"]["config"]
    assert (config["processor"], config["standby"]) == ("0", "0-0")
    assert run.tags["samza/container-group"] == "demo/1/0"
    assert run.run_key == watching.events.kept[0].metadata["run_key"].value
    assert world.placed == []


def test_in_act_a_dead_standby_is_restarted_where_it_is() -> None:
    """By one run; its end is told when it reports again, not when it was started."""
    world = WatchedAm()
    watching = Watching(world, AutoFailover(mode="act"))
    watching.go_on(300)
    world.freeze("1-0")
    watching.go_on(180)
    assert [run.job_name for run in watching.runs] == ["restart_container"]
    assert world.placed == []
    world.client().place("1-0", LAST_SEEN)  # as the run does
    watching.go_on(320)
    ((signal, outcome, _),) = ends(watching)
    assert (signal, outcome) == ("silent", "moved or restarted")


@pytest.mark.parametrize("fault", KINDS[3:], ids=lambda f: f.name)
def test_in_act_nothing_is_asked_for_what_an_am_does_itself_or_nobody_reads(fault: Fault) -> None:
    """A dead node, a dead AM, a dead job."""
    world = WatchedAm(resource_manager=fault.resource_manager)
    watching = Watching(world, AutoFailover(mode="act"))
    watching.go_on(300)
    fault.inject(world)
    watching.go_on(1_200)
    assert world.placed == []
    assert watching.runs == []


def test_what_the_am_did_by_itself_is_told_with_the_end() -> None:
    """The node of an active alone dies: YARN takes ten minutes for that, silence tells after three."""
    world = WatchedAm(hosts=8)
    watching = Watching(world)
    watching.go_on(300)
    world.kill_node("nm0")
    assert told(watching.go_on(DEADLINE_MS // 1000)) == [("silent", "0")]
    watching.go_on(420)
    assert ends(watching) == []
    watching.go_on(200)
    ((signal, outcome, done),) = ends(watching)
    assert (signal, outcome) == ("silent", "moved or restarted")
    assert "it was 0 on nm0" in done


def test_that_it_was_started_elsewhere_is_not_its_end() -> None:
    """It may not come up there: a trouble is over when what fell silent reports again."""
    world = WatchedAm(hosts=8)
    watching = Watching(world)
    watching.go_on(300)
    world.kill_node("nm0")
    watching.go_on(600)
    world.until(world.now_ms + 30_000)
    assert world.at["0"] != "nm0"
    world.processes["0"].stopped_ms = world.now_ms
    world.processes["0"].reported_ms = None
    watching.go_on(100)
    assert ends(watching) == []


def test_what_comes_back_by_itself_needed_nothing() -> None:
    """The same process on the same host: a false alarm, and counted as one."""
    world = WatchedAm()
    watching = Watching(world)
    watching.go_on(300)
    world.freeze("0")
    watching.go_on(200)
    world.thaw("0")
    over = watching.go_on(120)
    assert ends(watching) == [("silent", "nothing was needed", "")]
    assert "nothing was needed" in str(over[-1].description)


@pytest.mark.parametrize("seed", range(6))
def test_an_attempt_that_replaces_the_am_is_over_when_all_have_had_time_to_report(
    seed: int,
) -> None:
    """What was silent counts from the new deployment: nobody is told to be frozen meanwhile."""
    world = WatchedAm(seed=seed)
    watching = Watching(world)
    watching.go_on(300)
    world.kill_am(down_ms=80_000)
    watching.go_on(300)
    done = "deployment run-2; it was deployment run-1"
    assert ends(watching) == [("coordinator-replaced", "moved or restarted", done)]


def test_a_job_that_is_deployed_again_is_back() -> None:
    """The new deployment is what was done."""
    world = WatchedAm()
    watching = Watching(world)
    watching.go_on(300)
    world.kill_job()
    watching.go_on(400)
    assert ends(watching) == []
    world.new_attempt()
    watching.go_on(200)
    done = "deployment run-2; it was deployment run-1"
    assert ends(watching)[0] == ("job-dead", "moved or restarted", done)


def test_a_job_that_falls_silent_has_no_container_that_is_silent_alone() -> None:
    """The first of them is silent an interval before the last: nothing is asked on a dead job."""
    for seed in range(10):
        world = WatchedAm(seed=seed)
        watching = Watching(world, AutoFailover(mode="act"))
        watching.go_on(300 + 7 * seed)
        world.kill_job()
        assert told(watching.go_on(400)) == [("job-dead", "job")]
        assert watching.runs == []


def test_an_active_that_committed_after_its_last_report_is_silent_all_the_same() -> None:
    """With a deep backlog its commits are followed: a former one excuses no silence for ever."""
    world = WatchedAm()
    world.backlog = 50_000
    watching = Watching(world)
    watching.go_on(300)
    world.until(world.now_ms + 4_000)  # it commits in the third second of each minute
    world.freeze("0")
    assert told(watching.go_on(180)) == [("silent", "0")]


def test_a_standby_that_stood_and_was_helped_is_told_again_when_it_freezes() -> None:
    """The same restart helps against both, and Samza's AM tells no incarnations: it was never told."""
    world = WatchedAm()
    watching = Watching(world)
    watching.go_on(300)
    world.kill_restore_thread("1-0")
    assert told(watching.go_on(180)) == [("standby-stalled", "1-0")]
    world.client().place("1-0", LAST_SEEN)
    watching.go_on(600)
    world.freeze("1-0")
    assert told(watching.go_on(180)) == [("silent", "1-0")]


def test_an_active_that_froze_as_the_sensor_began_is_told_and_is_not_well_until_it_reports() -> (
    None
):
    """Three intervals after its last report its lag is that of its last commit: it counted as a new one."""
    world = WatchedAm()
    world.until(world.now_ms + 300_000)
    watching = Watching(world)
    world.freeze("0")
    found = watching.go_on(600)
    assert told(found) == [("silent", "0")]
    assert all("verdict" in event.metadata for event in found), "it looks well again"
