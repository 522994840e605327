"""Where a group lies in ZooKeeper, and what its nodes hold: as Samza 1.8 has it."""

from __future__ import annotations

import pytest

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.standalone import layout
from samza_dagster.standalone.group import Member, Pin, Running
from samza_dagster.standalone.layout import GroupPaths

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("config", "root"),
    [
        ({"job.name": "orders_eu"}, "/app-orders_eu-1/orders_eu-1-2.0-coordinationData"),
        (
            {"job.name": "a", "job.id": "7", "app.name": "shop", "app.id": "x"},
            "/app-shop-x/a-7-2.0-coordinationData",
        ),
    ],
)
def test_a_group_lies_below_its_applications_and_its_jobs_name(
    config: dict[str, str], root: str
) -> None:
    """`_` is kept; what isn't set is the job's name, and 1."""
    paths = GroupPaths.of(config)
    assert paths.root == root
    assert paths.version == f"{root}/jobModelGeneration/jobModelVersion"
    assert paths.barrier_state(3) == (
        f"{root}/jobModelGeneration/jobModelUpgradeBarrier/versionBarriers/barrier_3/barrier_state"
    )


def test_a_job_without_a_name_is_refused() -> None:
    """It names what is missing."""
    with pytest.raises(InvalidInput, match=r"job\.name"):
        GroupPaths.of({})


def test_a_processors_node_names_its_location_and_its_id() -> None:
    """In this order, as Samza's leader reads them."""
    data = layout.member_data("3f0c-11", "host-1")
    assert data == b"host-1 3f0c-11"
    assert layout.member_of("0000000007", data) == Member("0000000007", "3f0c-11", "host-1")
    with pytest.raises(InvalidInput, match="location"):
        layout.member_data("p", "rack 1")
    for bad in (b"", b"alone", b"h p more", b" p"):
        with pytest.raises(MalformedRecord, match="0000000007"):
            layout.member_of("0000000007", bad)


def test_a_version_is_a_number_or_not_there() -> None:
    """Null and the empty string are no version."""
    assert [layout.version_of(data) for data in (None, b"", b"12")] == [0, 0, 12]
    with pytest.raises(MalformedRecord, match="number"):
        layout.version_of(b"1.0")


def test_a_pin_and_a_restart_name_the_request_that_asked_for_them() -> None:
    """So a leader tells what has been taken up before it."""
    data = layout.pin_data(Pin("host-1", "3f0c"))
    assert data == b'{"location": "host-1", "uuid": "3f0c"}'
    assert layout.pin_of("Partition 0", data) == Pin("host-1", "3f0c")
    assert layout.restart_of("p1", layout.restart_data("3f0c")) == "3f0c"
    running = Running(7, "3f0c", 2_300)
    assert layout.running_of("0000000007", layout.running_data(running)) == running
    for bad in (None, b"", b"host-1", b"[]", b'{"uuid": "3f0c"}'):
        with pytest.raises(MalformedRecord, match="Partition 0"):
            layout.pin_of("Partition 0", bad)
