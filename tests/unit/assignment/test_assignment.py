"""Assignment gives what Samza's own groupers give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.assignment import (
    by_container_count,
    group,
    group_by_partition,
    replicas_from_config,
    with_standbys,
)
from samza_dagster.errors import InvalidInput
from samza_dagster.model import (
    ContainerModel,
    JobModel,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
)
from samza_dagster.model.naming import ANY_HOST

pytestmark = pytest.mark.unit

WIRE = Path(__file__).parents[2] / "data" / "wire"
ENABLED = "job.hotstandby.enabled"
COUNT = "job.hotstandby.replicationcount"
FACTOR = "job.standbytasks.replication.factor"


def in_containers(tasks: Iterable[TaskModel], count: int) -> Mapping[str, ContainerModel]:
    """As a cluster groups a job's tasks at its first deployment."""
    numbered = {str(number): ANY_HOST for number in range(count)}
    return group(tasks, {}, numbered, by_container_count)


def test_the_recorded_job_model_of_a_running_application_master() -> None:
    """Its config and inputs give exactly the containers that Samza 1.8.0 served."""
    recorded = JobModel.from_json((WIRE / "jobmodel.json").read_text())
    tasks = group_by_partition({"yw-input": 4}, "kafka")
    actives = in_containers(tasks, int(recorded.config["job.container.count"]))
    assert with_standbys(actives, replicas_from_config(recorded.config)) == recorded.containers


def test_a_task_reads_its_partition_of_every_topic_that_has_one() -> None:
    """Topics may differ in size; a short one has nothing for the later tasks."""
    tasks = {t.task_name: t for t in group_by_partition({"b": 1, "a": 2, "none": 0}, "kafka")}
    assert [s.stream for s in tasks["Partition 0"].system_stream_partitions] == ["a", "b"]
    assert [s.stream for s in tasks["Partition 1"].system_stream_partitions] == ["a"]


def test_changelog_partitions_follow_the_order_of_names() -> None:
    """Samza compares names, so `Partition 10` has changelog partition 2 on a first deployment."""
    tasks = group_by_partition({"in": 11}, "kafka")
    assert [t.task_name for t in tasks[:4]] == [
        "Partition 0",
        "Partition 1",
        "Partition 10",
        "Partition 2",
    ]
    assert [t.changelog_partition for t in tasks] == list(range(11))


@given(
    st.dictionaries(st.integers(0, 12), st.integers(0, 40)).filter(
        lambda known: len(set(known.values())) == len(known)
    ),
    st.integers(1, 12),
)
def test_a_changelog_partition_is_one_tasks_for_ever(numbers: dict[int, int], count: int) -> None:
    """Stored state stays where it is, and new tasks go behind, whichever tasks there were and are gone."""
    known = {f"Partition {number}": partition for number, partition in numbers.items()}
    tasks = group_by_partition({"in": count}, "kafka", changelog_partitions=known)
    found = {t.task_name: t.changelog_partition for t in tasks}
    new = [partition for name, partition in found.items() if name not in known]
    first = max(known.values(), default=-1) + 1
    assert new == list(range(first, first + len(new)))
    assert all(found[name] == known[name] for name in found.keys() & known.keys())


@given(partitions=st.integers(1, 40), count=st.integers(1, 12), replicas=st.integers(0, 3))
def test_every_task_is_in_one_active_and_in_each_replica(
    partitions: int, count: int, replicas: int
) -> None:
    """Nothing is lost or doubled, containers are even to one task, standbys mirror actives."""
    tasks = group_by_partition({"in": partitions}, "kafka")
    if count > partitions:
        with pytest.raises(InvalidInput):
            in_containers(tasks, count)
        return
    containers = with_standbys(in_containers(tasks, count), replicas)
    actives = [c for c in containers.values() if c.mode is TaskMode.ACTIVE]
    assert sorted(n for c in actives for n in c.tasks) == sorted(t.task_name for t in tasks)
    sizes = {len(c.tasks) for c in actives}
    assert max(sizes) - min(sizes) <= 1
    for active in actives:
        for replica in range(replicas):
            standby = containers[f"{active.processor_id}-{replica}"]
            assert standby.mode is TaskMode.STANDBY
            for name, task in active.tasks.items():
                shadow = standby.tasks[f"Standby-{name}-{replica}"]
                assert shadow.changelog_partition == task.changelog_partition
                assert shadow.system_stream_partitions == task.system_stream_partitions
    assert len(containers) == len(actives) * (1 + replicas)


def test_fewer_standbys_than_none_are_refused() -> None:
    """Before any container is made."""
    with pytest.raises(InvalidInput, match="-1 standbys"):
        with_standbys({}, -1)


def test_a_task_name_with_a_hyphen_has_no_standby() -> None:
    """Samza would read the wrong active out of the standby's name."""
    task = TaskModel(
        task_name="a-b",
        system_stream_partitions=(SystemStreamPartition(system="k", stream="s", partition=0),),
        changelog_partition=0,
    )
    with pytest.raises(InvalidInput, match="separator"):
        with_standbys(in_containers([task], 1), 1)


@pytest.mark.parametrize(("inputs", "count"), [({}, 1), ({"in": 0}, 1), ({"in": 2}, 0)])
def test_nothing_to_assign_is_refused(inputs: dict[str, int], count: int) -> None:
    """No partition, or no container: it says which."""
    with pytest.raises(InvalidInput, match="no partition in" if count else "processor_locality"):
        in_containers(group_by_partition(inputs, "kafka"), count)


@pytest.mark.parametrize(
    ("config", "replicas"),
    [
        ({}, 0),
        ({ENABLED: "false"}, 0),
        ({ENABLED: "true"}, 1),
        ({ENABLED: "true", COUNT: "2"}, 2),
        ({COUNT: "2"}, 2),
        ({FACTOR: "1"}, 0),
        ({FACTOR: "3"}, 2),
        ({ENABLED: "true", FACTOR: "3"}, 2),
        ({ENABLED: "true", COUNT: "2", FACTOR: "3"}, 2),
        ({ENABLED: "false", FACTOR: "1"}, 0),
        ({ENABLED: " True ", COUNT: " 1 "}, 1),
        ({ENABLED: " ", COUNT: " ", FACTOR: " "}, 0),
    ],
)
def test_the_number_of_standbys(config: dict[str, str], replicas: int) -> None:
    """Each setting alone, and the ones that agree."""
    assert replicas_from_config(config) == replicas


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({COUNT: "1", FACTOR: "3"}, (COUNT, FACTOR)),
        ({ENABLED: "true", COUNT: "2", FACTOR: "2"}, (COUNT, FACTOR)),
        ({ENABLED: "false", COUNT: "1"}, (ENABLED, COUNT)),
        ({ENABLED: "false", FACTOR: "2"}, (ENABLED, FACTOR)),
        ({ENABLED: "true", FACTOR: "1"}, (ENABLED, FACTOR)),
        ({ENABLED: "true", COUNT: "0"}, (ENABLED, COUNT)),
    ],
)
def test_settings_that_disagree_are_both_named(
    config: dict[str, str], named: tuple[str, str]
) -> None:
    """No setting wins silently."""
    with pytest.raises(InvalidInput) as refused:
        replicas_from_config(config)
    assert all(f"{key}={config[key]}" in refused.value.seen for key in named)


@pytest.mark.parametrize(
    "config", [{ENABLED: "yes"}, {COUNT: "-1"}, {COUNT: "two"}, {COUNT: "²"}, {FACTOR: "0"}]
)
def test_a_value_out_of_range_is_refused(config: dict[str, str]) -> None:
    """A typo isn't taken for 'no standby'."""
    with pytest.raises(InvalidInput):
        replicas_from_config(config)
