"""A standalone group, as a snapshot finds it."""

from __future__ import annotations

import pytest

from samza_dagster.snapshots.found import Job
from samza_dagster.snapshots.reading import found_of
from tests.rig.standalone_job import StandaloneJob

pytestmark = pytest.mark.unit


def test_tasks_stand_beside_the_processors_that_have_them() -> None:
    """A standby has the changelog partition of its active; a processor is where it registered."""
    reader = StandaloneJob().reader()
    view, config = reader.view("j", "1", 0), {"app.run.id": "r"}
    job = Job("j", "1", found_of(view, config, reader.changelog_partitions(), 1))
    assert set(job.tasks) == {
        ("P 0", "a", "Active", 0),
        ("P 1", "b", "Active", 1),
        ("Standby-P 0-0", "b", "Standby", 0),
        ("Standby-P 1-0", "c", "Standby", 1),
    }
    assert {name: host for name, (host, _) in job.hosts.items()} == {
        "a": "host-a",
        "b": "host-b",
        "c": "host-c",
    }
    assert job.deployment_id == "r"
