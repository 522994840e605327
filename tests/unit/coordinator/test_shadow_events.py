"""What a shadow makes of two pictures of a job: its events, and what ours would have done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from samza_dagster.client.views import HostView, JobView
from samza_dagster.coordinator.shadow import decision as rules
from samza_dagster.coordinator.shadow.downtime import BUSY_MS, Downtime, Silence, downtime
from samza_dagster.coordinator.shadow.events import ShadowEvent, Watch, follow
from samza_dagster.coordinator.shadow.picture import Asked, Picture, Report, Start
from samza_dagster.metadata.resource_manager import Application
from samza_dagster.placement.state import Fencing, Limits
from tests.rig.job_views import job_view

pytestmark = pytest.mark.unit

AT = {"0": "h1", "0-0": "h2", "1": "h3", "1-0": "h4"}
APPLICATION = Application("application_1_0001", "RUNNING")


def view(
    at: Mapping[str, str | None], lost: str = "", closed: str = "", run: str = "run-1"
) -> JobView:
    """Return the job under Samza's AM on hosts `h1` to `h4`."""
    states = {lost: "lost", closed: "closed"}
    hosts = [HostView(f"h{n}", states.get(f"h{n}", "alive")) for n in range(1, 5)]
    made = job_view(at, hosts, application=APPLICATION, coordinator="samza")
    return replace(made, deployment_id=run)


def picture(
    at_ms: int = 100_000,
    at: Mapping[str, str | None] | None = None,
    *,
    positions: Mapping[str, int] | None = None,
    reports: Mapping[str, Report] | None = None,
    requests: Mapping[str, Asked] | None = None,
    executions: Mapping[str, tuple[str, str]] | None = None,
    lost: str = "",
    closed: str = "",
    run: str = "run-1",
) -> Picture:
    """Return a picture; each container's start stands at its position (10, if nothing is said)."""
    places = AT if at is None else at
    starts = {
        pid: Start((positions or {}).get(pid, 10), at_ms - 500, host or "")
        for pid, host in places.items()
    }
    return Picture(
        at_ms,
        view(places, lost, closed, run),
        starts=starts,
        executions=executions,
        reports=reports or {},
        requests=requests or {},
        partitions={pid: {f"P {pid}": (("log", 0),)} for pid in places},
    )


# What ours would have done, by the reducer: one picture before, one after.

LIMITS = Limits(fencing=Fencing.BROKER)
UUID = "914b0a7c-ebcd-4999-8099-05299ae8cb4e"


def request(processor: str, destination: str) -> Asked:
    return Asked(UUID, processor, destination, "run-1", 99_000)


def test_a_process_that_ended_on_a_living_host_is_restarted_there_with_its_state() -> None:
    """With the figure of a restart on the same host, and no wait."""
    found = rules.after_failure(picture(), picture(101_000), "0", LIMITS)
    assert (found.action, found.host, found.with_state) == ("restart", "h1", True)
    assert (found.waits_s, found.expected_s) == (0.0, rules.RESTARTED.seconds)
    assert "restart on the same host" in found.figure


def test_an_active_of_a_lost_host_goes_to_its_standby_once_the_host_is_lost_for_ours_too() -> None:
    """The lag is the standby's last report; the host's time-out is in what is expected."""
    before = picture(reports={"0-0": Report("c-2", lag=17)})
    found = rules.after_failure(before, picture(101_000, lost="h1"), "0", LIMITS)
    assert (found.action, found.host, found.standby, found.lag) == ("fail-over", "h2", "0-0", 17)
    assert found.waits_s == LIMITS.host_timeout_ms / 1000
    assert found.expected_s == found.waits_s + rules.HOST_LOST.seconds


def test_without_a_fence_at_the_brokers_the_lease_is_waited_for() -> None:
    """A lease outlasts the time-out of the host: what the job's own settings cost stands in the answer."""
    limits = Limits(lease_ms=120_000)
    found = rules.after_failure(picture(), picture(101_000, lost="h1"), "0", limits)
    assert found.waits_s == (limits.lease_ms + limits.lease_bound_ms) / 1000


def test_a_host_that_takes_no_more_containers_hands_its_active_to_the_standby() -> None:
    """Its NodeManager is being decommissioned: a restart there isn't to be had."""
    found = rules.after_failure(picture(), picture(101_000, closed="h1"), "0", LIMITS)
    assert (found.action, found.host, found.standby) == ("fail-over", "h2", "0-0")
    assert found.expected_s == rules.FAILED_OVER.seconds


def test_an_active_without_a_standby_starts_cold_elsewhere_and_has_no_figure() -> None:
    """What a cold start takes grows with the state, which nobody has measured for this job."""
    at = {"0": "h1", "1": "h3"}
    found = rules.after_failure(picture(at=at), picture(101_000, at, lost="h1"), "0", LIMITS)
    assert (found.action, found.with_state) == ("restart", False)
    assert found.host in ("h2", "h4")
    assert found.expected_s is None


def test_where_no_host_is_left_ours_would_have_waited() -> None:
    """Its own host is lost, and no other is known."""
    at = {"0": "h1"}
    before = picture(at=at)
    after = picture(101_000, at, lost="h1")
    hosts = {"h1": after.view.hosts["h1"]}
    after.view.hosts.clear()  # type: ignore[attr-defined]
    after.view.hosts.update(hosts)  # type: ignore[attr-defined]
    found = rules.after_failure(before, after, "0", LIMITS)
    assert found.action == "nothing"
    assert found.because


def test_a_standby_is_restarted_and_its_end_is_no_downtime() -> None:
    found = rules.after_failure(picture(), picture(101_000), "0-0", LIMITS)
    assert (found.action, found.host, found.expected_s) == ("restart", "h2", None)


def test_a_container_that_fails_again_and_again_is_paused_by_ours() -> None:
    """By the retry window of the job's own settings."""
    failed = tuple(range(90_000, 90_000 + LIMITS.retry_count + 1))
    found = rules.after_failure(picture(), picture(101_000), "0", LIMITS, failed)
    assert found.waits_s == 30.0


def test_a_move_to_a_free_host_is_taken_and_has_no_figure() -> None:
    found = rules.of_request(picture(), picture(101_000), request("0", "h3"), LIMITS)
    assert (found.action, found.host, found.expected_s) == ("move", "h3", None)


def test_a_move_to_the_standbys_host_is_refused_with_the_rule() -> None:
    found = rules.of_request(picture(), picture(101_000), request("0", "h2"), LIMITS)
    assert found.action == "refuse"
    assert "same-host: 0-0 of the same group is running on h2" in found.because


def test_an_unknown_host_is_refused() -> None:
    found = rules.of_request(picture(), picture(101_000), request("0", "h9"), LIMITS)
    assert found.action == "refuse"
    assert "destination-known" in found.because


def test_a_restart_has_the_figure_of_a_restart() -> None:
    found = rules.of_request(picture(), picture(101_000), request("0", "LAST_SEEN"), LIMITS)
    assert (found.action, found.host) == ("restart", "h1")
    assert found.expected_s == rules.RESTARTED.seconds


def test_a_request_for_the_standbys_place_takes_it() -> None:
    """Samza's AM has no such word; ours takes the place of the standby in one action."""
    found = rules.of_request(picture(), picture(101_000), request("0", "STANDBY"), LIMITS)
    assert (found.action, found.host) == ("move", "h2")
    assert found.expected_s == rules.ONTO_STANDBY.seconds


def test_any_host_is_another_legal_one() -> None:
    found = rules.of_request(picture(), picture(101_000), request("0", "ANY_HOST"), LIMITS)
    assert found.action == "move"
    assert found.host in ("h3", "h4")


def test_a_replaced_master_of_ours_touches_no_container() -> None:
    """The same application with another deployment: only its Application Master was replaced."""
    found = rules.after_master(picture(), picture(101_000, run="run-2"), LIMITS)
    assert found.action == "run-on"


def test_what_no_picture_places_is_unknown() -> None:
    at = {**AT, "0": None}
    found = rules.after_failure(picture(at=at), picture(101_000, at), "0", LIMITS)
    assert found.action == "unknown"


# What two pictures of a job make of its events.

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
