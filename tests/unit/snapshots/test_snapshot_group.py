"""A standalone group's rows, before Spark has them."""

from __future__ import annotations

import pytest

from samza_dagster.snapshots.group import rows_of
from tests.rig.standalone_job import StandaloneJob

pytestmark = pytest.mark.unit


def test_tasks_stand_beside_the_processors_that_have_them() -> None:
    """A standby has the changelog partition of its active; a processor is where it registered."""
    reader = StandaloneJob().reader()
    tasks, hosts = rows_of(reader.view("j", "1", 0), reader.changelog_partitions())
    assert {tuple(row.values()) for row in tasks} == {
        ("P 0", "a", "Active", 0),
        ("P 1", "b", "Active", 1),
        ("Standby-P 0-0", "b", "Standby", 0),
        ("Standby-P 1-0", "c", "Standby", 1),
    }
    assert [(row["processor_id"], row["host"]) for row in hosts] == [
        ("a", "host-a"),
        ("b", "host-b"),
        ("c", "host-c"),
    ]
