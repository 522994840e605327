"""In which containers a processor runs its tasks, over versions that nobody chose."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.standalone.division import Containers, divided, merged

pytestmark = pytest.mark.unit

WHO = "orders-eu_1"


def task(name: str, partition: int = 0) -> TaskModel:
    """Standby, when its name says so."""
    mode = TaskMode.STANDBY if name.startswith("Standby") else TaskMode.ACTIVE
    return TaskModel(
        task_name=name,
        system_stream_partitions=(),
        changelog_partition=partition,
        task_mode=mode,
    )


NAMES = [f"Partition {n}" for n in range(6)] + [f"Standby-Partition {n}-0" for n in range(6)]
versions = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1)).map(
    lambda chosen: {name: task(name, partition) for name, partition in chosen.items()}
)


def ids(containers: Containers) -> list[str]:
    return [each.processor_id for each in containers]


def actives(containers: Containers) -> Containers:
    return tuple(each for each in containers if each.mode is TaskMode.ACTIVE)


@settings(max_examples=200, deadline=None)
@given(st.lists(versions, min_size=1, max_size=6), st.integers(1, 3), st.data())
def test_each_task_is_in_one_container_and_one_whose_tasks_all_stay_is_untouched(
    given_: list[dict[str, TaskModel]], most: int, data: st.DataObject
) -> None:
    """Version after version, with and without a while between them in which containers become fewer."""
    before: Containers = ()
    for tasks in given_:
        taken = data.draw(st.sets(st.sampled_from(["orders_.eu__1", "orders_.eu__1_1", "x"])))
        after = divided(WHO, before, tasks, taken)
        placed = [(name, each) for container in after for name, each in container.tasks.items()]
        assert dict(placed) == tasks
        assert len(placed) == len(tasks), "each in one container"
        for each in after:
            assert len({found.task_mode for found in each.tasks.values()}) == 1
            assert ("-" in each.processor_id) == (each.mode is TaskMode.STANDBY), "as Samza tells"
        new = [each for each in after if each not in before]
        assert not {*ids(tuple(new))} & {*taken, *ids(before)}
        assert max(Counter(ids(after)).values(), default=0) < 2
        for each in actives(before):
            stays = each.tasks.items() <= tasks.items()
            assert (each in after) == stays
        for each in actives(tuple(new)):
            homes = [b for b in actives(before) if each.tasks.items() & b.tasks.items()]
            assert len(homes) <= 1
            assert all(each.tasks.items() <= home.tasks.items() for home in homes), "none is added"
        assert len(actives(after)) <= len(actives(before)) + 1
        assert sum(each.mode is TaskMode.STANDBY for each in after) <= 1
        before = after
        if data.draw(st.booleans()):
            before = merged(WHO, after, most, taken)
            assert len(actives(before)) <= most
            unchanged = [each for each in actives(after) if each in before]
            assert len(unchanged) >= min(len(actives(after)), most - 1)
            assert {n for c in before for n in c.tasks} == tasks.keys()


def test_those_with_the_fewest_tasks_become_one_container() -> None:
    """A bound that holds ends none."""
    containers = tuple(
        ContainerModel(processor_id=own, tasks={name: task(name) for name in names})
        for own, names in (("a", ("1", "2")), ("a_1", ("3",)), ("a_2", ("4",)))
    )
    assert merged("a", containers, 3, ()) == containers
    first, second = merged("a", containers, 2, {"a_3"})
    assert first == containers[0]
    assert (second.processor_id, set(second.tasks)) == ("a_4", {"3", "4"})
