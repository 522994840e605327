"""Job `move_via_new_standby`: a standby warms up at the destination, the active takes its place."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from placement_runs import Run
from run_results import failure, output_metadata, was_cancelled
from test_dagster_reexecution import execute, from_failure

from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import EXPIRED, NOT_STARTED, SUCCEEDED, SteppedJob
from tests.rig.worker import Killed

pytestmark = pytest.mark.dagster
JOB = "move_via_new_standby"
ASK = {"processor": "0", "destination": "host-4", "steady_s": 0}
CONFIG = {"ops": {f"plan_{JOB}": {"config": ASK}}}
DONE = (SUCCEEDED, "done")
REMOVAL, ANOTHER = (f"00000000-0000-0000-0000-{n:012d}" for n in (1, 2))


@pytest.fixture(autouse=True)
def _warm(world: SteppedJob) -> None:
    world.lag_now = {"0-1": [3], "0-0": [0]}


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """A re-execution reads what the first run left."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def kinds(world: SteppedJob) -> list[str]:
    return list(world.kinds.values())


def test_a_standby_warms_up_then_the_active_takes_its_place(world: SteppedJob, run: Run) -> None:
    """Three requests of one chain; as many standbys as before, the active on the named host."""
    world.container_memory_mb = 256
    result = run(JOB, **ASK)
    assert result.success
    assert kinds(world) == ["start-standby", "stop-standby", "hold"]
    steps = ("spin_up", "gives_place", "move")
    assert list(world.requests) == [request_uuid(result.run_id, s, 0) for s in steps]
    assert world.at == {"0": "host-4", "0-0": "host-3", "1": "host-2", "1-0": "host-4"}
    assert result.output_for_node("standbys_after") == ["0-0"]
    shown = output_metadata(result, "standbys_after")
    assert shown["new_standby_cost"].startswith("256 MiB for ")


def test_without_a_destination_it_is_the_legal_host_with_most_room(
    world: SteppedJob, run: Run
) -> None:
    """host-2 has most free memory, and no container of the group."""
    result = run(JOB, processor="0", steady_s=0)
    assert result.success
    assert world.at["0"] == "host-2"


def test_a_dry_run_prints_every_step_and_asks_nothing(world: SteppedJob, run: Run) -> None:
    """Spin-up, wait, place given, move, verification."""
    result = run(JOB, dry_run=True, **ASK)
    text = result.output_for_node(f"plan_{JOB}", "preview")
    for part in ("reserves memory", "records behind", "stops and is removed", "commit", "verify"):
        assert part in text
    assert world.requests == {}


@pytest.mark.parametrize("destination", ["ANY_HOST", "STANDBY"])
def test_one_of_samza_s_words_is_no_destination(
    world: SteppedJob, run: Run, destination: str
) -> None:
    """The host must be known before the standby is started there."""
    result = run(JOB, **{**ASK, "destination": destination})
    assert "a host's name" in failure(result, f"plan_{JOB}")[0]


def test_a_failed_move_leaves_the_active_where_it_was_and_says_what_is_left(
    world: SteppedJob, run: Run
) -> None:
    """No room any more for the active: the standby had given its place."""
    world.ends = [DONE, DONE, EXPIRED]
    result = run(JOB, **ASK)
    text, metadata = failure(result, "reserve")
    assert "expired" in text
    assert metadata["extra_standby"] == "standby 0-1 is gone; its store stays on host-4"
    assert world.at["0"] == "host-1"


@pytest.mark.longdagster
@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_a_standby_that_never_warms_up_is_kept_or_removed_as_configured(
    world: SteppedJob, run: Run, fate: str
) -> None:
    """The failure says which, and how to go on."""
    world.lag_now = {"0-1": [90_000]}
    config = {**ASK, "catch_up_timeout_s": 1, "if_it_fails": fate}
    result = run(JOB, **config)
    text, metadata = failure(result, "wait_until_warm")
    assert "90,000 records behind" in text
    assert ("0-1" in world.at) is (fate == "keep")
    assert ("is kept" if fate == "keep" else "is removed again") in metadata["extra_standby"]


@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_a_cancelled_wait_hands_back_as_configured(world: SteppedJob, run: Run, fate: str) -> None:
    """Cancelled while it waits for lag: nothing else was touched."""
    world.breaks = {"lag": dg.DagsterExecutionInterruptedError()}
    result = run(JOB, **ASK, if_it_fails=fate)
    assert not result.success
    assert ("0-1" in world.at) is (fate == "keep")
    assert world.at["0"] == "host-1"


@pytest.mark.parametrize(
    ("where", "op"),
    [(texts.RESOURCES_REQUESTED, "spin_up"), ("lag", "wait_until_warm"), ("held", "reserve")],
)
@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_cancelled_while_kafka_is_away_it_is_cancelled(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run, fate: str, where: str, op: str
) -> None:
    """The standby that can't be handed back is told of, in place of nothing."""
    world.breaks, world.away_at = {where: dg.DagsterExecutionInterruptedError()}, where
    result = run(JOB, **ASK, if_it_fails=fate)
    assert was_cancelled(result, op)
    told = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert any("no broker answers" in line for line in told)


def test_a_failed_start_is_asked_again_by_a_re_execution(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The store of the standby is still at the destination."""
    world.ends = [DONE, DONE, NOT_STARTED]
    done, first = execute(instance, job="move_via_new_standby", config=CONFIG)
    assert not done
    assert from_failure(instance, first, "move_via_new_standby", CONFIG)
    assert kinds(world) == ["start-standby", "stop-standby", "hold", "hold"]
    assert world.at["0"] == "host-4"


def test_a_destination_lost_meanwhile_does_not_cost_the_warm_standby(
    world: SteppedJob, run: Run
) -> None:
    """What the standby gives way for must still be possible."""
    host = world.hosts["host-4"]
    world.after_answer["start-standby"] = lambda: world.hosts.update(
        {"host-4": host.__class__("host-4", "lost")}
    )
    result = run(JOB, **ASK)
    assert "host-4 is lost" in failure(result, "give_place")[0]
    assert kinds(world) == ["start-standby"]


@pytest.mark.parametrize("host", [pytest.param("host-2", marks=pytest.mark.longdagster), "host-4"])
@pytest.mark.parametrize("fails_in", ["wait_until_warm", "give_place"])
def test_a_standby_that_somebody_else_started_under_the_same_id_is_not_adopted(
    world: SteppedJob, instance: dg.DagsterInstance, fails_in: str, host: str
) -> None:
    """The run's own `0-1` is gone: the re-execution neither removes the other one nor moves cold."""
    alive = world.hosts["host-4"]
    if fails_in == "give_place":
        lost = alive.__class__("host-4", "lost")
        world.after_answer["start-standby"] = lambda: world.hosts.update({"host-4": lost})
    else:
        world.breaks = {"lag": Killed()}
    config = {"ops": {f"plan_{JOB}": {"config": {**ASK, "if_it_fails": "remove"}}}}
    done, first = execute(instance, job="move_via_new_standby", config=config)
    assert not done
    world.hosts["host-4"] = alive
    if "0-1" in world.at:
        world.ask("stop-standby", "0-1", "host-4", REMOVAL, 0)
        world.go_on(REMOVAL)
        world.go_on(REMOVAL)
    world.ask("start-standby", "0", host, ANOTHER, 0)
    world.go_on(ANOTHER)
    world.go_on(ANOTHER)
    asked = len(world.requests)
    assert not from_failure(instance, first, "move_via_new_standby", config)
    assert len(world.requests) == asked
    assert (world.at["0"], world.at["0-1"]) == ("host-1", host)
