"""Where a group lies in ZooKeeper, and what its nodes hold: as Samza 1.8 has it."""

from __future__ import annotations

import pytest

from samza_dagster.assignment import group_by_partition, standby_container
from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.model import ContainerModel, JobModel
from samza_dagster.standalone import layout
from samza_dagster.standalone.group import LocalStores, Member, Pin, Running
from samza_dagster.standalone.layout import GroupPaths

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("config", "root"),
    [
        ({"job.name": "orders_eu"}, "/app-orders_eu-1/orders_eu-1-2.0-coordinationData"),
        ({"job.name": "orders", "job.id": "2"}, "/app-orders-2/orders-2-2.0-coordinationData"),
        (
            {"job.name": "a", "job.id": "7", "app.name": "shop", "app.id": "x"},
            "/app-shop-x/a-7-2.0-coordinationData",
        ),
    ],
)
def test_a_group_lies_below_its_applications_and_its_jobs_name(
    config: dict[str, str], root: str
) -> None:
    """`_` is kept; what isn't set is the job's name and id, and 1."""
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


def test_a_processor_of_ours_announces_itself_and_its_stores() -> None:
    """In a node that Samza doesn't look at."""
    stores = LocalStores(("j-1/s/Partition_0",), ())
    data = layout.announcement_data("3f0c-11", stores)
    assert layout.announcement_of(data) == ("3f0c-11", stores)
    for bad in (b"", b"p1", b'{"processor_id": "p1"}'):
        with pytest.raises(MalformedRecord, match="says of itself"):
            layout.announcement_of(bad)


def test_a_version_is_a_number_or_not_there() -> None:
    """Null and the empty string are no version."""
    assert [layout.version_of(data) for data in (None, b"", b"12")] == [0, 0, 12]
    with pytest.raises(MalformedRecord, match="number"):
        layout.version_of(b"1.0")


def test_a_published_model_has_each_partition_once_and_reads_back_whole() -> None:
    """Samza's leader counts those of the last version (SEP-5): with a standby's there too it ended."""
    tasks = {task.task_name: task for task in group_by_partition({"in": 2}, "kafka")}
    active = ContainerModel(processor_id="p1", tasks=tasks)
    standbys = standby_container(active, 0).model_copy(update={"processor_id": "p2"})
    model = JobModel(config={}, containers={"p1": active, "p2": standbys})
    written = JobModel.from_json(layout.model_data(model))
    partitions = [
        (each.stream, each.partition)
        for container in written.containers.values()
        for task in container.tasks.values()
        for each in task.system_stream_partitions
    ]
    assert sorted(partitions) == [("in", 0), ("in", 1)]
    assert layout.model_of(layout.model_data(model)) == model
    assert layout.model_of(model.to_json().encode()) == model


def test_a_pin_and_a_restart_name_the_request_that_asked_for_them() -> None:
    """So a leader tells what has been taken up before it."""
    data = layout.document_data(Pin("host-1", "3f0c")._asdict())
    assert data == b'{"location": "host-1", "uuid": "3f0c"}'
    assert layout.pin_of("Partition 0", data) == Pin("host-1", "3f0c")
    assert layout.restart_of("p1", layout.document_data({"uuid": "3f0c"})) == "3f0c"
    running = Running(7, "3f0c", 2_300)
    assert layout.running_of("0000000007", layout.document_data(running._asdict())) == running
    for bad in (None, b"", b"host-1", b"[]", b'{"uuid": "3f0c"}'):
        with pytest.raises(MalformedRecord, match="Partition 0"):
            layout.pin_of("Partition 0", bad)
