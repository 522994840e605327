"""What two pictures of a job make of its events."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from samza_dagster.coordinator.shadow.downtime import BUSY_MS, Downtime, Silence, downtime
from samza_dagster.coordinator.shadow.events import ShadowEvent, Watch, follow
from samza_dagster.coordinator.shadow.picture import Asked, Picture
from samza_dagster.metadata.resource_manager import Application
from samza_dagster.placement.state import Fencing, Limits
from tests.rig.shadow_pictures import AT, picture

pytestmark = pytest.mark.unit

LIMITS = Limits(fencing=Fencing.BROKER)
UUID = "914b0a7c-ebcd-4999-8099-05299ae8cb4e"
WORKS = Downtime(100_400, 109_000, 8.6)
RUNS = {pid: (f"c-{n}", host) for n, (pid, host) in enumerate(AT.items())}


def played(*pictures: Picture, measured: Downtime | None = None) -> tuple[Watch, list[ShadowEvent]]:
    """Follow the pictures; `measured` is known of every open event at the last of them.

    Returns what is remembered, and the events that are over.
    """
    watch, found = Watch(), list[ShadowEvent]()
    for before, after in pairwise(pictures):
        known = dict.fromkeys(watch.open, measured) if after is pictures[-1] and measured else {}
        watch, over = follow(watch, before, after, LIMITS, known)
        found += over
    return watch, found


def test_nothing_happens_where_nothing_changes() -> None:
    watch, found = played(picture(), picture(101_000), picture(102_000))
    assert found == []
    assert watch == Watch()


def test_a_container_that_started_anew_failed_and_is_over_once_it_works() -> None:
    """Noticed by its new record of a start; Samza's host and the downtime stand beside what ours would do."""
    started = picture(108_000, positions={"0": 20})
    watch, found = played(picture(), started, replace(started, at_ms=109_500), measured=WORKS)
    (event,) = found
    assert (event.kind, event.processor, event.state) == ("failure", "0", "over")
    assert (event.host, event.samza_host, event.started_ms) == ("h1", "h1", 107_500)
    assert (event.noticed_ms, event.last_ms, event.works_ms) == (108_000, 100_400, 109_000)
    assert event.downtime_s == 8.6
    assert event.ours is not None
    assert (event.ours.action, event.same_host) == ("restart", True)
    assert watch.open == {}


def test_what_the_masters_page_lacks_is_noticed_before_it_starts_anew() -> None:
    """One event of both signs, open until the container works."""
    gone = picture(101_000, executions={p: it for p, it in RUNS.items() if p != "0"})
    moved = picture(
        108_000, {**AT, "0": "h3"}, positions={"0": 20}, executions={**RUNS, "0": ("c-9", "h3")}
    )
    watch, found = played(picture(executions=RUNS), gone, moved)
    assert found == []
    assert {key: event.noticed_ms for key, event in watch.open.items()} == {"0": 101_000}
    assert watch.to_measure() == {"0": ("0", 107_500)}
    _, found = played(
        picture(executions=RUNS), gone, moved, replace(moved, at_ms=110_000), measured=WORKS
    )
    (event,) = found
    assert (event.samza_host, event.same_host, event.downtime_s) == ("h3", False, 8.6)


def test_a_page_that_cannot_be_read_in_between_is_no_sign() -> None:
    blind = picture(101_000)
    after = picture(102_000, executions={**RUNS, "0": ("c-9", "h1")})
    assert played(picture(executions=RUNS), blind, after)[1] == []


def test_a_standby_has_a_failure_without_downtime() -> None:
    (event,) = played(picture(), picture(108_000, positions={"0-0": 20}))[1]
    assert (event.kind, event.role, event.state) == ("failure", "standby", "over")
    assert event.downtime_s is None


def test_an_active_is_down_until_its_topics_tell_that_it_works() -> None:
    started = picture(108_000, positions={"0": 20})
    pending = Downtime(100_400, None, None)
    watch, found = played(picture(), started, replace(started, at_ms=109_000), measured=pending)
    assert found == []
    watch, (event,) = follow(watch, started, started, LIMITS, {"0": None})
    assert (event.state, event.downtime_s, watch.open) == ("over", None, {})
    assert "don't tell the downtime" in event.because


def test_a_standby_that_starts_while_its_active_is_down_gives_way_to_it() -> None:
    """Samza took its host for the active: that is no failure of its own."""
    both = picture(108_000, {**AT, "0": "h2", "0-0": "h4"}, positions={"0": 20, "0-0": 21})
    watch, found = played(picture(), both)
    assert set(watch.open) == {"0"}
    assert found == []


def asked(status: str = "", answered_ms: int = 0, destination: str = "h3", **more: bool) -> Asked:
    return Asked(UUID, "0", destination, "run-1", 100_900, None, status, "", answered_ms, **more)


def test_a_placement_takes_in_the_restart_that_it_causes() -> None:
    """One event: what was asked, the answer's time, the downtime, and what ours would have answered."""
    at = {**AT, "0": "h3"}
    done = {UUID: asked("SUCCEEDED", 113_400, stopped=True, ended=True)}
    watch, found = played(
        picture(),
        picture(101_000, requests={UUID: asked()}),
        picture(114_000, at, requests=done),
        picture(117_000, at, requests=done, positions={"0": 20}),
        picture(118_000, at, requests=done, positions={"0": 20}),
        measured=WORKS,
    )
    (event,) = found
    assert (event.kind, event.uuid, event.destination) == ("placement", UUID, "h3")
    assert (event.status, event.answer_s, event.downtime_s) == ("SUCCEEDED", 12.5, 8.6)
    assert (event.state, event.samza_host, event.same_host) == ("over", "h3", True)
    assert event.ours is not None
    assert event.ours.action == "move"
    assert watch.open == {}


def test_a_container_that_fails_while_a_request_for_it_waits_has_failed_by_itself() -> None:
    """Nobody has taken the request: two events, each with its own end."""
    waits = {UUID: asked()}
    done = {UUID: asked("SUCCEEDED", 130_000, stopped=True, ended=True)}
    at = {**AT, "0": "h3"}
    watch, found = played(
        picture(),
        picture(101_000, requests=waits),
        picture(108_000, requests=waits, positions={"0": 20}),
        picture(131_000, at, requests=done, positions={"0": 20}),
        picture(131_500, at, requests=done, positions={"0": 20}),
        measured=WORKS,
    )
    assert [(e.kind, e.started_ms) for e in found] == [("failure", 107_500)]
    before, after = (picture(at_ms, at, requests=done) for at_ms in (131_500, 134_000))
    watch, _ = follow(
        watch,
        before,
        replace(after, starts=picture(134_000, at, positions={"0": 30}).starts),
        LIMITS,
    )
    assert {key: e.started_ms for key, e in watch.open.items()} == {UUID: 133_500}


def test_a_refused_placement_is_over_with_its_answer() -> None:
    refused = {UUID: asked("BAD_REQUEST", 105_000, "h2", ended=True)}
    (event,) = played(
        picture(),
        picture(101_000, requests={UUID: asked(destination="h2")}),
        picture(105_500, requests=refused),
    )[1]
    assert (event.state, event.status, event.downtime_s) == ("over", "BAD_REQUEST", None)
    assert event.ours is not None
    assert event.ours.action == "refuse"


def test_a_placement_ends_with_its_deployment() -> None:
    (_, placement) = played(
        picture(),
        picture(101_000, requests={UUID: asked()}),
        picture(110_000, requests={UUID: asked()}, run="run-2"),
    )[1]
    assert (placement.kind, placement.state) == ("placement", "over")
    assert "run-1" in placement.because


def test_a_replaced_master_is_an_event_and_so_is_each_container_that_it_starts_anew() -> None:
    """What had been noticed before belongs to it too, and ours would have let them all run on."""
    gone = picture(101_000, executions={p: it for p, it in RUNS.items() if p != "0"})
    anew = picture(110_000, run="run-2")
    started = picture(118_000, run="run-2", positions={"0": 20, "1": 21})
    later = picture(500_000, run="run-2", positions={"0": 20, "1": 21, "1-0": 22})
    watch, found = played(picture(executions=RUNS), gone, anew, started, later)
    found = [*found, *watch.open.values()]
    kinds = {e.processor: e.kind for e in found}
    assert kinds == {"": "deployment", "0": "redeployed", "1": "redeployed", "1-0": "failure"}
    actions = {e.processor: e.ours.action for e in found if e.ours is not None}
    assert (actions[""], actions["0"], actions["1"]) == ("run-on", "run-on", "run-on")


def test_a_job_that_was_deployed_anew_is_told_from_a_replaced_master_by_yarn() -> None:
    after = picture(110_000, run="run-2")
    application = Application("application_1_0002", "RUNNING")
    after = replace(after, view=replace(after.view, application=application))
    (event,) = played(picture(), after)[1]
    assert event.ours is not None
    assert event.ours.action == "restart"


def test_downtime_is_the_longest_silence_of_a_task() -> None:
    """From a task's last record in any of its stores to its first one after."""
    tasks = {
        "P 0": [Silence(99_000, 109_000), Silence(99_500, 108_000)],
        "P 2": [Silence(99_900, 110_000)],
    }
    assert downtime(tasks, 105_000) == Downtime(99_900, 110_000, 10.1)


def test_a_task_that_does_not_work_yet_keeps_its_container_down() -> None:
    tasks = {"P 0": [Silence(99_000, 109_000)], "P 2": [Silence(99_900, None)]}
    assert downtime(tasks, 105_000) == Downtime(99_900, None, None)


def test_a_task_that_was_idle_before_tells_nothing() -> None:
    idle = Silence(105_000 - BUSY_MS, None)
    assert downtime({"P 0": [idle]}, 105_000) is None
    tasks = {"P 0": [idle], "P 2": [Silence(99_000, 109_000)]}
    assert downtime(tasks, 105_000) == Downtime(99_000, 109_000, 10.0)


def test_a_silence_shorter_than_any_start_says_that_clocks_disagree() -> None:
    assert downtime({"P 0": [Silence(104_990, 105_020)]}, 105_000) is None


def test_a_container_that_the_job_has_no_more_is_not_waited_for() -> None:
    started = picture(108_000, positions={"0": 20})
    smaller = picture(110_000, {"1": "h3", "1-0": "h4"}, run="run-2")
    found = {e.processor: e.state for e in played(picture(), started, smaller)[1]}
    assert found["0"] == "over"
