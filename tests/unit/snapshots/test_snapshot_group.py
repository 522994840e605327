"""A standalone group's facts, before Spark has them."""

from __future__ import annotations

import pytest

from samza_dagster.snapshots.group import facts_of
from samza_dagster.snapshots.job import Job
from samza_dagster.snapshots.reading import Found
from tests.rig.standalone_job import StandaloneJob

pytestmark = pytest.mark.unit


def test_tasks_stand_beside_the_processors_that_have_them() -> None:
    """A standby has the changelog partition of its active; a processor is where it registered."""
    reader = StandaloneJob().reader()
    told = facts_of(reader.view("j", "1", 0), {"app.run.id": "r"}, reader.changelog_partitions())
    found = Found()
    for fact in told:
        found.state(fact, 1)
    job = Job.of("j", "1", [found])
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
