"""The runs that `test_dagster_deploy` disturbs: undisturbed they end as they are judged.

And their judge sees what was done twice, or to two of a group at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import bounce_runs
import dagster as dg
import placement_runs
import pytest
from judged_run import JudgedRun
from judged_runs import BOUNCE, VIA
from killed_rows import ROWS
from placement_runs import placement_job

from tests.rig.bounce_world import BounceWorld
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
JUDGED_RUNS = {str(row.judged_run): row.judged_run for row in ROWS}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One of each test's own: bounces of a job exclude each other."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_world_is_left() -> Iterator[None]:
    yield
    placement_runs.WORLDS.clear()
    bounce_runs.WORLDS.clear()


def ran(
    judged_run: JudgedRun, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> tuple[SteppedJob | BounceWorld, str]:
    """The world after an undisturbed run of it, and that run."""
    world = judged_run.world()
    if isinstance(world, BounceWorld):
        bounce_runs.in_virtual_time(world, monkeypatch)
        job = bounce_runs.rolling_bounce()
    else:
        placement_runs.WORLDS["reexecuted"] = world
        job = placement_job(judged_run.job)
    return world, run(job, judged_run, instance)


def run(job: dg.JobDefinition, judged_run: JudgedRun, instance: dg.DagsterInstance) -> str:
    return job.execute_in_process(run_config=judged_run.run_config, instance=instance).run_id


@pytest.mark.parametrize("judged_run", JUDGED_RUNS.values(), ids=JUDGED_RUNS)
def test_an_undisturbed_run_ends_as_it_is_judged(
    judged_run: JudgedRun, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests, by the uuids by which a run that goes on finds them, commits, starts and places."""
    world, root = ran(judged_run, instance, monkeypatch)
    judged_run.judge(world, root)
    assert judged_run.is_done(world)


def asked_again(world: SteppedJob) -> None:
    world.ask("hold", "0", "host-4", "00000000-0000-0000-0000-000000000001", 0)


def started_again(world: SteppedJob) -> None:
    world.starts["0"] += 1


def note_standby_left(world: SteppedJob) -> None:
    world.at["0-1"] = "host-4"


def committed_again(world: SteppedJob) -> None:
    world.committed |= dict.fromkeys(world.committed, "00000000-0000-0000-0000-000000000002")


def two_of_a_group(world: SteppedJob) -> None:
    world.together.append(frozenset({"0", "0-0"}))


@pytest.mark.longdagster
@pytest.mark.parametrize(
    "wrong", [asked_again, started_again, note_standby_left, committed_again, two_of_a_group]
)
def test_a_placement_that_went_wrong_is_seen(
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[SteppedJob], None],
) -> None:
    """Though Dagster would say that all is well."""
    world, root = ran(VIA, instance, monkeypatch)
    assert isinstance(world, SteppedJob)
    wrong(world)
    with pytest.raises(AssertionError):
        VIA.judge(world, root)


def bounced_twice(world: BounceWorld) -> None:
    world.started_ms["0"].append(world.now_ms)


def group_at_once(world: BounceWorld) -> None:
    one, other = (
        next(r for r in world.requests.values() if r.processor == p) for p in ("0-0", "0")
    )
    other.asked_ms = one.asked_ms


def released(world: BounceWorld) -> None:
    world.released.append("0")


@pytest.mark.longdagster
@pytest.mark.parametrize("wrong", [bounced_twice, group_at_once, released])
def test_a_bounce_that_went_wrong_is_seen(
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[BounceWorld], None],
) -> None:
    """Though everybody is back."""
    world, root = ran(BOUNCE, instance, monkeypatch)
    assert isinstance(world, BounceWorld)
    wrong(world)
    with pytest.raises(AssertionError):
        BOUNCE.judge(world, root)
