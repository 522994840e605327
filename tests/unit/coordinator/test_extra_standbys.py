"""Standbys that were spun up on request, in the JobModel and in the coordinator stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.assignment import group, group_by_partition, with_standbys
from samza_dagster.coordinator.extra_standbys import assignment_records, with_extras
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.job_metadata import job_model_records
from samza_dagster.model import JobModel, TaskMode
from samza_dagster.model.naming import ANY_HOST
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.stream_model import job_model, write

pytestmark = pytest.mark.unit

AUTHOR = Author("h", "u", 0)


def planned(replicas: int) -> JobModel:
    tasks = group_by_partition({"in": 4}, "kafka")
    containers = with_standbys(group(tasks, {}, {"0": ANY_HOST, "1": ANY_HOST}), replicas)
    return JobModel(config={}, containers=containers, max_change_log_stream_partitions=4)


def test_an_extra_standby_shadows_its_active() -> None:
    """Task names, inputs and changelog partitions as if the job had planned it."""
    model = with_extras(planned(1), {"0-1"})
    assert model.containers["0-1"] == planned(2).containers["0-1"]
    assert model.containers["0-1"].mode is TaskMode.STANDBY


@pytest.mark.parametrize("unknown", ["7-0", "0-x", "0-", "0", "1-0"])
def test_what_has_no_active_or_is_planned_changes_nothing(unknown: str) -> None:
    """A group that a new deployment lacks, and ids of no standby."""
    assert with_extras(planned(1), {unknown}) == planned(1)


ids = st.frozensets(st.sampled_from(["0-0", "0-1", "0-2", "1-0", "1-1", "1-3", "5-0"]))


@given(st.lists(ids, min_size=1, max_size=5), st.integers(0, 2))
def test_the_stream_always_describes_the_present_job_model(
    history: list[frozenset[str]], replicas: int
) -> None:
    """Whatever comes and goes: read back, it is the plan and the extra standbys there are."""
    store = MemoryMetadataStore()
    plan = planned(replicas)
    write(store, job_model_records(plan, AUTHOR, deployment_id="d"))
    before: frozenset[str] = frozenset()
    for after in history:
        write(store, assignment_records(plan, before, after, AUTHOR))
        assert job_model(store).containers == with_extras(plan, after).containers
        before = after


def test_nothing_is_written_when_nothing_changes() -> None:
    """Not even a record that says the same."""
    same: tuple[StreamRecord, ...] = ()
    assert assignment_records(planned(1), frozenset({"0-1"}), frozenset({"0-1"}), AUTHOR) == same
