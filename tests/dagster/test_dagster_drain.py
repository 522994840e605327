"""Job `drain_host`: a host is emptied, each active by way of a warm standby."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest
from fake_placement import (
    EXPIRED,
    NOT_STARTED,
    SUCCEEDED,
    FakeClient,
    Killed,
    World,
    fake_drain,
)
from judged_runs import drained_world
from test_dagster_jobs import failure, output_metadata, run, was_cancelled
from test_dagster_reexecution import execute, from_failure
from waiting_runs import continued, requested, tick

from samza_dagster.client.views import HostView, ProcessorProgress
from samza_dagster.errors import DeadlineExceeded, Refused, Unreachable
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.moves import CatchUp
from samza_dagster.orchestration.operations import loop
from samza_dagster.orchestration.operations.control import RunControl
from samza_dagster.orchestration.operations.loop import End
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.plans.several import Limits
from samza_dagster.orchestration.plans.units import Kind, Step, Unit
from samza_dagster.orchestration.requests import request_uuid
from samza_dagster.orchestration.waits.conditions import Met
from samza_dagster.orchestration.waits.waiting import MET
from samza_dagster.placement import texts
from tests.rig.bounce_world import earlier_restart

pytestmark = pytest.mark.dagster
JOB = "drain_host"
WARNING = logging.WARNING
DONE = (SUCCEEDED, "done")
HOSTS = ("host-1", "host-2", "host-3", "host-4", "host-5", "host-6")


@pytest.fixture(autouse=True)
def _full(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """host-1 has 0 (warm standby), 1 (a standby far behind), 2 (no store) and 3's standby."""
    monkeypatch.setattr("samza_dagster.orchestration.operations.loop.POLL_S", 0.01)
    full = drained_world()
    world.hosts, world.at, world.lag_now = full.hosts, full.at, full.lag_now
    world.container_memory_mb = full.container_memory_mb


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """A re-execution reads what the first run left."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def config(**more: Any) -> dict[str, Any]:
    return {"ops": {"plan_drain_host": {"config": {"host": "host-1", "steady_s": 0, **more}}}}


def drain(
    request: pytest.FixtureRequest, instance: dg.DagsterInstance, **more: Any
) -> dg.ExecuteInProcessResult:
    return run(request.node.name, JOB, instance, **{"host": "host-1", "steady_s": 0, **more})


def on(world: World, host: str = "host-1") -> list[str]:
    return sorted(p for p, h in world.at.items() if h == host)


def test_each_container_leaves_as_suits_it(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Standby, warm active, stateless active, then the one that needs a standby for it."""
    result = drain(request, instance)
    assert result.success
    assert result.output_for_node("drain") == 4
    asked = [(kind, p) for kind, (p, _) in zip(world.kinds.values(), world.asked, strict=True)]
    assert asked == [
        ("place", "3-0"),
        *(("place", "0-0"), ("place", "0")),
        ("place", "2"),
        *(("start-standby", "1"), ("stop-standby", "1-1"), ("place", "1")),
    ]
    assert on(world) == []
    assert world.at["0"] == "host-2"
    assert "1-1" not in world.at
    for group in "0123":
        members = [h for p, h in world.at.items() if group_of(p) == group]
        assert len(members) == len(set(members))


def test_each_container_s_steps_are_drawn_over_time(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Also of a run that failed; a step has when it ended and how long it took."""
    shown = output_metadata(drain(request, instance), "drain")
    for name in ("progress", "timeline"):
        assert shown[name].startswith(f"![{name}](data:image/svg+xml")
    rows = [row.data for row in shown["steps"].records]
    assert all(row["at"] and row["seconds"] >= 0 for row in rows)
    drawn = base64.b64decode(shown["progress"].partition("base64,")[2][:-1]).decode()
    assert "4 of 4 done" in drawn
    timeline = base64.b64decode(shown["timeline"].partition("base64,")[2][:-1]).decode()
    assert "SUCCEEDED" in timeline


def test_it_says_what_it_cost_against_permanent_standbys(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Memory times time, and the seconds that actives were down."""
    shown = output_metadata(drain(request, instance), "drain")
    assert shown["just_in_time_standbys"] == 1
    assert "MiB·h in 1 standbys" in shown["standby_memory"]
    assert "300 MiB all the time" in shown["permanent_standbys_instead"]
    assert shown["move_longest_stop_to_first_commit_seconds"] > 0
    assert {r.data["state"] for r in shown["outcomes"].records} == {"done"}


def test_no_destination_is_left_to_the_coordinator(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Each request names a host, and never the one that is drained."""
    drain(request, instance)
    placed = [
        d
        for kind, (_, d) in zip(world.kinds.values(), world.asked, strict=True)
        if kind != "stop-standby"
    ]
    assert set(placed) <= set(HOSTS) - {"host-1"}


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_at_most_so_many_at_once_and_never_two_of_a_group(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest, at_once: int
) -> None:
    """The requests that are open together."""
    world.slow = True
    assert drain(request, instance, at_once=at_once).success
    assert world.busiest == at_once
    for together in world.together:
        assert len({group_of(p) for p in together}) == len(together)


def test_a_dry_run_tells_everything_and_asks_nothing(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Each container, how it leaves, why, and where to."""
    result = drain(request, instance, dry_run=True)
    text = result.output_for_node("plan_drain_host", "preview")
    for part in ("standby 0-0 is warm: 5 records", "1-0 90,000 records behind: one is spun up"):
        assert part in text
    assert "no state to restore" in text
    assert "downtime" in text
    assert world.requests == {}


def test_what_was_measured_last_is_the_expected_downtime(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """A dry run after a drain."""
    drain(request, instance)
    result = drain(request, instance, host="host-2", dry_run=True)
    text = result.output_for_node("plan_drain_host", "preview")
    told = re.search(
        r"Expected downtime of an active: ([\d.]+) s from its stop to its first commit", text
    )
    assert told is not None
    assert float(told[1]) >= 0.2, (
        "from the stop to the check-in by the answers, and on by the run's"
    )


@pytest.mark.parametrize(
    ("change", "seen", "fix"),
    [
        ({"host": "host-9"}, "hosts host-1, host-2", "one of these names"),
        ({"destinations": ["host-2", "host-3"]}, "3-0 (relocate)", "room for"),
        ({"exclude": list(HOSTS[1:])}, "isn't among the hosts to go to", "no container of group"),
    ],
)
def test_what_cannot_end_well_is_refused_before_anything_is_asked(
    world: World,
    instance: dg.DagsterInstance,
    request: pytest.FixtureRequest,
    change: dict[str, Any],
    seen: str,
    fix: str,
) -> None:
    """An unknown host; containers that would have no legal host, and what is missing."""
    if "destinations" in change:
        world.at["3"] = "host-2"
        world.hosts["host-3"] = HostView("host-3", "alive", free_memory_mb=299)
    result = drain(request, instance, **change)
    text, metadata = failure(result, "plan_drain_host")
    assert seen in text
    assert fix in metadata["fix"]
    assert world.requests == {}


def test_a_lost_host_is_told_as_such(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """There is nothing to drain: what was on it is being started elsewhere."""
    world.hosts["host-1"] = HostView("host-1", "lost")
    text, metadata = failure(drain(request, instance), "plan_drain_host")
    assert "host-1 is lost; 0 is running" in text
    assert "elsewhere by itself" in metadata["fix"]
    assert world.requests == {}


def test_an_empty_host_is_drained(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Nothing to ask; the run says so and succeeds."""
    result = drain(request, instance, host="host-6")
    assert result.output_for_node("drain") == 0
    assert world.requests == {}


def test_under_samza_s_am_a_cold_active_is_refused_before_anything_is_asked(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Its wire has no standby on request: the refusal names what is possible."""
    world.coordinator = "samza"
    text, metadata = failure(drain(request, instance), "plan_drain_host")
    assert "Samza's AM has no standby on request" in text
    assert "cold: true" in metadata["fix"]
    assert world.requests == {}


def test_under_samza_s_am_it_is_drained_by_placements_alone(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Each processor is placed once; a cold one restores where it goes."""
    world.coordinator = "samza"
    assert drain(request, instance, cold=True).success
    assert set(world.kinds.values()) == {"place"}
    assert sorted(p for p, _ in world.asked) == ["0", "0-0", "1", "2", "3-0"]
    assert on(world) == []


def test_a_drain_asks_nothing_where_samza_s_am_may_end_the_job_for_any_of_its_steps(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Not for the first of them alone; a dry run notices what is left."""
    world.coordinator = "samza"
    first = drain(request, instance, cold=True, dry_run=True)
    assert "in a row" not in output_metadata(first, "plan_drain_host")["what"]
    times = [world.now_ms - 10_000 * n for n in range(7, 0, -1)]
    world.earlier = [earlier_restart("2", at, n) for n, at in enumerate(times)]
    text, _ = failure(drain(request, instance, cold=True), "plan_drain_host")
    assert "2: place 2" in text
    assert "this would be stop 8 of 2 in a row" in text
    assert world.requests == {}
    world.earlier = world.earlier[-4:]
    dry = drain(request, instance, cold=True, dry_run=True)
    assert "stop 5 of 2 in a row" in output_metadata(dry, "plan_drain_host")["what"]


@pytest.mark.longdagster
@pytest.mark.parametrize(
    "where", ["wait", texts.RESOURCES_REQUESTED, texts.STOP_IN_PROGRESS, "lag"]
)
@pytest.mark.parametrize("times", range(8))
def test_killed_at_any_boundary_it_goes_on_where_it_stood(
    world: World, instance: dg.DagsterInstance, where: str, times: int
) -> None:
    """Nobody is moved twice, no second standby is started."""
    world.breaks = {where: Killed()}
    world.breaks_after[where] = times
    done, first = execute(instance, job=fake_drain, config=config())
    assert done is (where in world.breaks)  # it is passed less often than that
    assert times or not done  # but once at least, or nothing was killed at all
    if not done:
        assert from_failure(instance, first, fake_drain, config())
    assert on(world) == []
    assert len(world.requests) == 7
    assert world.starts == {"3-0": 1, "0-0": 1, "0": 1, "2": 1, "1-1": 1, "1": 1}


def test_a_failure_stops_what_has_not_begun_and_a_re_execution_goes_on(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The first that fails is the last that is begun; its second attempt is a re-execution's."""
    world.ends = [DONE, DONE, NOT_STARTED]
    done, first = execute(instance, job=fake_drain, config=config())
    assert not done
    assert on(world) == ["0", "1", "2"]
    assert from_failure(instance, first, fake_drain, config())
    assert on(world) == []
    failed, again = (request_uuid(first, "drain_host/host-1/0/move", n) for n in (0, 1))
    assert failed in world.requests
    assert again in world.requests
    assert len(world.requests) == 8


@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_a_standby_of_a_failed_move_is_kept_or_removed_as_configured(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest, fate: str
) -> None:
    """The warm-up takes too long: the failure says what is left."""
    world.lag_now = {**world.lag_now, "1-1": [50_000]}
    result = drain(request, instance, catch_up_timeout_s=1, if_it_fails=fate)
    text, metadata = failure(result, "drain")
    assert "not warm in" in text
    assert "50,000 records behind" in text
    assert ("1-1" in world.at) is (fate == "keep")
    assert ("is kept" if fate == "keep" else "removed again") in metadata["extra_standbys"]


def test_a_cancelled_drain_gives_back_what_was_only_reserved(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """What was asked is cancelled; nothing else begins."""
    world.breaks = {texts.RESOURCES_REQUESTED: dg.DagsterExecutionInterruptedError()}
    result = drain(request, instance)
    assert not result.success
    assert len(world.requests) == 1
    assert world.cancelled == list(world.requests)
    assert on(world) == ["0", "1", "2", "3-0"]


def test_a_drain_cancelled_while_kafka_is_away_is_cancelled_and_says_what_goes_on(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Each container of it: Kafka's absence doesn't take the place of the cancellation."""
    world.slow, world.away_at = True, "wait"
    world.breaks, world.breaks_after = {"wait": dg.DagsterExecutionInterruptedError()}, {"wait": 3}
    result = drain(request, instance, at_once=2)
    assert was_cancelled(result, "drain")
    warned = [e.user_message for e in instance.all_logs(result.run_id) if e.level == WARNING]
    for processor, uuid in zip(("3-0", "0"), world.requests, strict=True):
        (told,) = [w for w in warned if w.startswith(f"cancelled: {processor}: ")]
        assert f"request {uuid} goes on" in told
        assert "no broker answers" in told


def test_a_drain_that_fails_while_kafka_is_away_still_tells_what_became_of_each(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """The map as it is now is the only thing that isn't known."""
    world.ends, world.away_at = [EXPIRED], EXPIRED[1]
    text, metadata = failure(drain(request, instance), "drain")
    assert EXPIRED[1] in text
    assert metadata["outcomes"].records
    assert "no broker answers" in metadata["hosts_and_containers_now"]


@pytest.mark.parametrize("where", ["wait", "lag", "commits", texts.STOP_IN_PROGRESS])
def test_a_broker_that_is_away_for_a_moment_ends_no_drain(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest, where: str
) -> None:
    """What couldn't be read is read again, and nobody is asked twice."""
    world.breaks = {where: Unreachable("Kafka", seen="no broker answers")}
    world.breaks_after[where] = 1
    assert drain(request, instance).success
    assert world.breaks == {}
    assert on(world) == []
    assert len(world.requests) == 7


def test_a_broker_that_stays_away_ends_the_drain_and_what_became_of_each_is_told(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Once nobody has answered for `timeout_s`."""
    world.ends, world.away_at = [DONE, (SUCCEEDED, "away")], "away"
    text, metadata = failure(drain(request, instance, timeout_s=1), "drain")
    assert "no broker answers" in text
    assert text.endswith("not begun or left waiting: 2, 1")
    states = {row.data["container"]: row.data["state"] for row in metadata["outcomes"].records}
    assert states == {"3-0": "done", "0": "running", "2": "waiting", "1": "waiting"}


def test_no_room_is_told_with_the_coordinator_s_words(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """The container stays where it is."""
    world.ends = [EXPIRED]
    text, _ = failure(drain(request, instance), "drain")
    assert EXPIRED[1] in text
    assert "not begun or left waiting: 0, 2, 1" in text


def test_a_drain_that_waits_for_a_standby_holds_no_run(world: World) -> None:
    """Everything else is done first; the continuing run only moves the last one."""
    with dg.DagsterInstance.ephemeral() as instance:
        world.lag_now["1-1"] = [50_000]
        first = fake_drain_waiting(instance)
        assert first.success
        assert on(world) == ["1"]
        assert requested(tick(instance)) == []
        world.lag_now["1-1"] = [4]
        (request,) = requested(tick(instance))
        assert continued(instance, request).success
        assert on(world) == []
        assert len(world.requests) == 7


def fake_drain_waiting(instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    from fake_placement import fake_job

    return fake_job(JOB, wait_in_run_s=0).execute_in_process(
        run_config=config(), instance=instance, raise_on_error=False
    )


def test_a_view_that_lags_behind_an_answer_is_waited_for(
    world: World,
    instance: dg.DagsterInstance,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answer and state are in two topics: a refusal right after a step is looked at again."""
    ask, refused = FakeClient._ask, list[str]()

    def refuse_once(client: FakeClient, kind: str, processor: str, *rest: Any, **more: Any) -> Any:
        if processor == "0" and not refused:
            refused.append(processor)
            raise Refused("same host", seen="0-0 is on host-2")
        return ask(client, kind, processor, *rest, **more)

    monkeypatch.setattr(FakeClient, "_ask", refuse_once)
    assert drain(request, instance).success
    assert refused == ["0"]


def test_an_active_that_does_not_process_stops_the_drain(
    world: World, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """Its move went well; the next one isn't begun."""
    world.processes = False
    text, _ = failure(drain(request, instance, verify_timeout_s=1), "drain")
    assert "0 processes within 1 s of its start" in text
    assert "left waiting: 2, 1" in text


def test_a_re_execution_counts_what_was_committed_since_the_move_of_the_run_before(
    world: World, instance: dg.DagsterInstance
) -> None:
    """Where commits ended at the move is kept: the input may have been idle ever since."""
    world.processes = False
    short = config(verify_timeout_s=1)
    done, first = execute(instance, job=fake_drain, config=short)
    assert not done
    moved_at, world.commits, world.processes = world.commits, world.commits + 50, True
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            FakeClient,
            "processing",
            lambda _, p, since: asked.append(since) or ProcessorProgress(p, since, True, (), since),
        )
        assert from_failure(instance, first, fake_drain, short)
    assert asked[0] == moved_at
    assert set(asked[1:]) == {moved_at + 50}


def test_a_unit_begun_in_a_continuing_run_has_the_whole_time_for_its_own_standby(
    world: World,
) -> None:
    """The nearly spent time of the one that was waited for before isn't its."""
    now_ms = 1_800_000_000_000
    seen = Met({}, {"0-0": 1}, "w")
    ran = SimpleNamespace(
        run_id="r", tags={MET: seen.to_text()}, parent_run_id=None, root_run_id=None
    )
    context = cast(
        "dg.OpExecutionContext",
        SimpleNamespace(run=ran, log=SimpleNamespace(info=lambda _: None)),
    )
    limits = Limits(60, 60, 0, CatchUp(100, 0, 60), in_run_s=0)
    runner = Runner(context, FakeClient(world), "drain_host", limits, now_ms=lambda: now_ms)
    world.lag_now["0-0"] = [90_000]
    steps = (Step("warm", Kind.WAIT_WARM, "1-0"), Step("move", Kind.PLACE, "1", "host-3"))
    known = tuple(replace(step, processor=step.processor.replace("1", "0")) for step in steps)
    wait = runner.run([Unit("1", "", "", steps), Unit("0", "", "", known)], at_once=2).wait
    assert wait is not None
    assert wait.left_ms == {"1-0": 60_000, "0-0": 1}


def test_a_look_takes_no_longer_at_many_requests_than_at_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was waited for: an order to pause sixty-four was heard after sixteen seconds."""
    waited: list[float] = []

    def silent(_: FakeClient, uuid: str, *, timeout_s: float, **__: object) -> None:
        waited.append(timeout_s)
        raise DeadlineExceeded(f"the outcome of {uuid}", seen="nobody answers")

    monkeypatch.setattr(FakeClient, "wait", silent)
    monkeypatch.setattr(FakeClient, "response", lambda *_: None)
    ran = SimpleNamespace(run_id="r", tags={}, parent_run_id=None, root_run_id=None)
    log = SimpleNamespace(info=lambda _: None, warning=lambda _: None)
    runner = Runner(
        cast("dg.OpExecutionContext", SimpleNamespace(run=ran, log=log)),
        FakeClient(world),
        "drain_host",
        Limits(60, 60, 0, CatchUp(100, 0, 60), in_run_s=0),
        control=cast(
            "RunControl",
            SimpleNamespace(order=lambda: "abort" if waited else "", progress=lambda _: None),
        ),
    )
    units = [Unit(p, "", "", (Step("move", Kind.PLACE, p, "host-6"),)) for p in ("0", "1", "2")]
    assert runner.run(units, at_once=3).end is End.ABORTED
    assert len(world.asked) == 3
    assert sum(waited) <= loop.POLL_S


def test_a_re_execution_starts_another_standby_for_the_one_that_was_removed(
    world: World, instance: dg.DagsterInstance
) -> None:
    """What is asked of the second one is asked anew, though it has the id of the first."""
    world.lag_now["1-1"] = [50_000]
    asked = config(catch_up_timeout_s=1, if_it_fails="remove")
    done, first = execute(instance, job=fake_drain, config=asked)
    assert not done
    assert "1-1" not in world.at
    world.lag_now["1-1"] = [9]
    assert from_failure(instance, first, fake_drain, asked)
    assert on(world) == []
    assert [
        kind for kind, (p, _) in zip(world.kinds.values(), world.asked, strict=True) if p[0] == "1"
    ] == [
        *("start-standby", "stop-standby"),
        *("start-standby", "stop-standby", "place"),
    ]


def test_a_drain_older_than_its_answers_asks_for_nothing_that_is_so(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The last move failed; all that came before it is done, and its answers are cleaned up."""
    world.ends = [DONE] * 6 + [NOT_STARTED]
    done, first = execute(instance, job=fake_drain, config=config())
    assert not done
    assert on(world) == ["1"]
    world.clean_up()
    known = len(world.requests)
    assert from_failure(instance, first, fake_drain, config())
    assert on(world) == []
    assert list(world.kinds.values())[known:] == ["start-standby", "stop-standby", "place"]
