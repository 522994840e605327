"""No run tag outgrows PostgreSQL's index over tags, however much a run does."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import dagster as dg
import pytest

from samza_dagster.orchestration.moves.spun_up import SPINS_UP, SPUN_UP, YES, note_spin_up
from samza_dagster.orchestration.operations.ops import FAILED_GROUPS, note_failed_groups
from samza_dagster.orchestration.operations.progress import Progress
from samza_dagster.orchestration.plans.units import State, Unit, UnitsPlan
from samza_dagster.orchestration.reconcile.run import left_over
from samza_dagster.orchestration.tags import JOB, MOST_TAG_BYTES
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
INDEX_TAKES = 2_704
"""Bytes of key and value, as PostgreSQL's message has it."""
KEYS = re.compile(r"^([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}$")
"""Dagster warns of any other key, and will refuse it."""


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: what is left over is looked for among all runs."""
    return own_instance


def uuid_of(number: int) -> str:
    return str(UUID(int=number))


def run_of(instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.DagsterRun:
    """A run of the job that failed."""
    made = dg.DagsterRun("drain_host", tags={JOB: "demo/1", **tags})
    return instance.add_run(made.with_status(dg.DagsterRunStatus.FAILURE))


def spin_up(instance: dg.DagsterInstance, run: dg.DagsterRun, number: int) -> None:
    context = SimpleNamespace(instance=instance, run=run)
    note_spin_up(cast("dg.OpExecutionContext", context), uuid_of(number))


def is_left_over(world: SteppedJob, instance: dg.DagsterInstance, number: int) -> bool:
    """Whether the standby that the request of this number has started counts as left over."""
    world.at["0-1"], world.extra = "host-4", {"0-1"}
    world.origins = {"0-1": uuid_of(number)}
    client = world.client()
    return left_over(instance, client, client.view(), "demo/1").standbys == {"0-1"}


def test_a_run_that_spins_up_two_hundred_standbys_has_no_tag_that_is_too_large(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """One tag for all of them ended the run at the 73rd on PostgreSQL, with others in flight."""
    run = run_of(instance, {})
    for number in (*range(200), 199):
        spin_up(instance, run, number)
    known = instance.get_run_by_id(run.run_id)
    assert known is not None
    assert all(KEYS.match(key) for key in known.tags)
    assert max(len(f"{key}{value}".encode()) for key, value in known.tags.items()) < MOST_TAG_BYTES
    noted = ",".join(value for key, value in sorted(known.tags.items()) if SPUN_UP in key)
    assert sorted(noted.split(",")) == [uuid_of(number) for number in range(200)]
    assert all(is_left_over(world, instance, number) for number in (0, 59, 60, 199))
    assert not is_left_over(world, instance, 200)


def test_what_an_older_release_noted_in_one_tag_is_still_found(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Also beside what its re-execution has noted since, whose tags are a copy."""
    old = {SPINS_UP: YES, SPUN_UP: ",".join(uuid_of(number) for number in range(72))}
    run = run_of(instance, old)
    spin_up(instance, run, 72)
    assert all(is_left_over(world, instance, number) for number in (0, 71, 72))
    known = instance.get_run_by_id(run.run_id)
    assert known is not None
    assert known.tags[SPUN_UP] == old[SPUN_UP]
    assert max(len(f"{key}{value}".encode()) for key, value in known.tags.items()) < INDEX_TAKES


def test_the_groups_that_failed_are_noted_as_far_as_a_tag_takes_them(
    instance: dg.DagsterInstance,
) -> None:
    """Of long ids fewer than two hundred fit; those left out aren't done last, no more."""
    run = run_of(instance, {})
    names = [f"{number}_{'n' * 100}" for number in range(200)]
    failed = [Progress(Unit(name, "", "", (), name), State.FAILED) for name in names]
    context = cast("dg.OpExecutionContext", SimpleNamespace(instance=instance, run=run))
    note_failed_groups(
        context, cast("UnitsPlan", SimpleNamespace(refused=(), refused_groups=())), failed
    )
    known = instance.get_run_by_id(run.run_id)
    assert known is not None
    noted = known.tags[FAILED_GROUPS]
    assert 2_000 < len(noted) <= MOST_TAG_BYTES
    assert set(noted.split(",")) <= set(names)
