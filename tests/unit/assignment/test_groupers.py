"""One contract of groupers: Samza's own give Samza's results, ours keeps state where it is, others plug in."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from samza_dagster.assignment import (
    Grouper,
    TaskLocality,
    by_container_count,
    by_container_ids,
    by_locality,
    group,
    group_by_partition,
    grouper_of,
    grouping,
    unplaced,
)
from samza_dagster.errors import ActionFailed, InvalidInput
from samza_dagster.model import ContainerModel, SystemStreamPartition, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, active_task_of, standby_task_name

pytestmark = pytest.mark.unit

SETTING = "task.name.grouper.factory"
SAMZA = "org.apache.samza.container.grouper.task."


def tasks(count: int, replicas: int = 0) -> list[TaskModel]:
    """`T0`, `T1`, … and their standbys."""
    return [
        TaskModel(
            task_name=f"T{number}" if replica is None else standby_task_name(f"T{number}", replica),
            system_stream_partitions=(
                SystemStreamPartition(system="k", stream="in", partition=number),
            ),
            changelog_partition=number,
            task_mode=TaskMode.ACTIVE if replica is None else TaskMode.STANDBY,
        )
        for number in range(count)
        for replica in (None, *range(replicas))
    ]


def numbered(count: int) -> dict[str, str]:
    """Containers of a cluster before anything is known of their hosts."""
    return {str(number): ANY_HOST for number in range(count)}


def names(containers: Mapping[str, ContainerModel]) -> dict[str, list[str]]:
    """Processor → its tasks."""
    return {processor: list(container.tasks) for processor, container in containers.items()}


def ran_on(processors: Mapping[str, str | Sequence[str]]) -> dict[str, TaskLocality]:
    """`{"0": "T0 T2"}` as task locality."""
    return {
        name: TaskLocality(processor)
        for processor, held in processors.items()
        for name in (held.split() if isinstance(held, str) else held)
    }


def at(host: str, *names: str) -> dict[str, TaskLocality]:
    """Tasks whose processor is gone from this location, or isn't known."""
    return {name: TaskLocality(location_id=host) for name in names}


class TestByContainerCount:
    """Samza's default in a cluster."""

    def test_tasks_are_dealt_in_order_of_name(self) -> None:
        """As Samza compares names: T10 is before T2."""
        dealt = names(group(tasks(12), {}, numbered(2), by_container_count))
        assert dealt == {
            "0": ["T0", "T10", "T2", "T4", "T6", "T8"],
            "1": ["T1", "T11", "T3", "T5", "T7", "T9"],
        }

    @pytest.mark.parametrize(
        ("before", "count", "after"),
        [
            (
                {"0": "T0 T2 T4 T6 T8", "1": "T1 T3 T5 T7"},
                4,
                {"0": "T0 T2 T4", "1": "T1 T3", "2": "T6 T8", "3": "T5 T7"},
            ),
            (
                {"0": "T0 T4 T8", "1": "T1 T5", "2": "T2 T6", "3": "T3 T7"},
                2,
                {"0": "T0 T2 T4 T6 T8", "1": "T1 T3 T5 T7"},
            ),
            (
                {"0": "T0 T4 T8", "1": "T1 T5", "2": "T2 T6", "3": "T3 T7"},
                3,
                {"0": "T0 T4 T8", "1": "T1 T5 T7", "2": "T2 T3 T6"},
            ),
            ({"0": "T0", "1": "T1 T2 T3 T4 T5"}, 3, {"0": "T0 T5", "1": "T1 T2", "2": "T3 T4"}),
        ],
    )
    def test_another_count_moves_what_is_too_many(
        self, before: dict[str, str], count: int, after: dict[str, str]
    ) -> None:
        """The last of each container that has too many, to those that have too few."""
        known = ran_on(before)
        grouped = group(tasks(len(known)), known, numbered(count), by_container_count)
        assert names(grouped) == {each: held.split() for each, held in after.items()}

    def test_the_same_count_keeps_an_assignment_that_is_deliberately_uneven(self) -> None:
        """Somebody may have written it."""
        known = {"0": "T0 T1 T2 T3 T4 T5", "1": "T6 T7 T8"}
        grouped = group(tasks(9), ran_on(known), numbered(2), by_container_count)
        assert names(grouped) == {each: held.split() for each, held in known.items()}

    @pytest.mark.parametrize(
        "before",
        [
            {"0": "T0 T1 T2 T3"},
            {"0": "T0 T1", "2": "T2 T3"},
            {"0": "T0 T1", "1": "T2"},
            {"0": "T0", "1": "T1", "": "T2 T3"},
        ],
        ids=["one container", "container 1 is missing", "a task is new", "unknown processor"],
    )
    def test_an_assignment_that_is_no_use_is_dealt_anew(self, before: dict[str, str]) -> None:
        """As Samza does when tasks have changed or a container is missing."""
        grouped = group(tasks(4), ran_on(before), numbered(3), by_container_count)
        assert names(grouped) == {"0": ["T0", "T3"], "1": ["T1"], "2": ["T2"]}

    def test_ids_may_be_any_strings(self) -> None:
        """A standalone group has no numbers; the balance is the same."""
        known = ran_on({"ada": "T0 T2 T4", "bob": "T1 T3 T5"})
        processors = {"bob": "h1", "ada": "h1", "cyd": "h2"}
        grouped = group(tasks(6), known, processors, by_container_count)
        assert names(grouped) == {"ada": ["T0", "T2"], "bob": ["T1", "T3"], "cyd": ["T4", "T5"]}

    def test_a_container_with_nothing_to_do_is_refused(self) -> None:
        """Samza aborts; the setting is named."""
        with pytest.raises(InvalidInput, match="of at most 2"):
            group(tasks(2), {}, numbered(3), by_container_count)


class TestByContainerIds:
    """Samza's only grouper for standalone groups."""

    def test_without_locations_tasks_are_dealt_in_turn(self) -> None:
        """To ids in the order in which they are given."""
        grouped = group(tasks(5), {}, {"4": ANY_HOST, "2": ANY_HOST}, by_container_ids)
        assert names(grouped) == {"2": ["T1", "T3"], "4": ["T0", "T2", "T4"]}

    @pytest.mark.parametrize("location", [ANY_HOST, "h"])
    def test_of_more_processors_than_tasks_the_first_have_one(self, location: str) -> None:
        """First by name, whatever numbers they are."""
        processors = dict.fromkeys(("10", "9", "8"), location)
        assert names(group(tasks(2), {}, processors, by_container_ids)) == {
            "10": ["T0"],
            "8": ["T1"],
        }

    def test_tasks_go_to_their_location_up_to_the_share(self) -> None:
        """What is left fills those below it, then goes round."""
        known = at("h1", "T0", "T1", "T2", "T3") | at("h9", "T4")
        processors = {"a": "h1", "b": "h2", "c": "h1"}
        assert names(group(tasks(8), known, processors, by_container_ids)) == {
            "a": ["T0", "T1", "T6"],
            "b": ["T4", "T5", "T7"],
            "c": ["T2", "T3"],
        }

    def test_a_processor_that_left_gives_its_task_to_the_first(self) -> None:
        """The others keep theirs."""
        known = at("h1", "T0") | at("h2", "T1") | at("h3", "T2")
        grouped = group(tasks(3), known, {"p1": "h1", "p2": "h2"}, by_container_ids)
        assert names(grouped) == {"p1": ["T0", "T2"], "p2": ["T1"]}


class TestByLocality:
    """Ours."""

    def test_a_first_deployment_is_dealt_as_samza_deals(self) -> None:
        """Nothing is known, so there is nothing to keep."""
        made = group_by_partition({"in": 25}, "kafka")
        assert group(made, {}, numbered(12)) == group(made, {}, numbered(12), by_container_count)

    def test_what_is_even_stays(self) -> None:
        """Previous processor first."""
        known = ran_on({"a": "T0 T3", "b": "T1 T2"})
        assert names(group(tasks(4), known, {"a": "h1", "b": "h2"})) == {
            "a": ["T0", "T3"],
            "b": ["T1", "T2"],
        }

    def test_a_dead_processors_tasks_go_to_its_neighbour_at_the_location(self) -> None:
        """Their stores lie there; the share of the others isn't touched."""
        known = {
            **{f"T{number}": TaskLocality("a", "h1") for number in (0, 1)},
            "T2": TaskLocality("b", "h1"),
            **{f"T{number}": TaskLocality("c", "h2") for number in (3, 4)},
        }
        assert names(group(tasks(5), known, {"b": "h1", "c": "h2"})) == {
            "b": ["T0", "T1", "T2"],
            "c": ["T3", "T4"],
        }

    def test_a_processor_that_came_up_elsewhere_left_its_state_behind(self) -> None:
        """Its id alone keeps nothing: the task follows the location."""
        known = {"T0": TaskLocality("a", "h1"), "T1": TaskLocality("b", "h2")}
        processors = {"a": "h3", "b": "h2", "c": "h1"}
        grouped = names(group(tasks(2), known, processors))
        assert grouped == {"b": ["T1"], "c": ["T0"]}

    def test_an_active_starts_where_its_standby_was(self) -> None:
        """Even though another processor has less to do."""
        known = {
            "T0": TaskLocality("a", "h1"),
            "Standby-T0-0": TaskLocality("b", "h2"),
            "T1": TaskLocality("a", "h1"),
            "Standby-T1-0": TaskLocality("b", "h2"),
        }
        grouped = names(group(tasks(2, 1), known, {"b": "h2", "c": "h3"}))
        assert grouped == {"b": ["T0", "T1"], "c": ["Standby-T0-0", "Standby-T1-0"]}

    def test_an_active_makes_room_for_another_on_its_own_standby(self) -> None:
        """b may not give to d directly: its task goes to c, whose task goes to d."""
        known = {
            "T0": TaskLocality("b", "hb"),
            "Standby-T0-0": TaskLocality("c", "hc"),
            "T1": TaskLocality("gone", "ha"),
            "Standby-T1-0": TaskLocality("b", "hb"),
            "T2": TaskLocality("c", "hc"),
            "Standby-T2-0": TaskLocality("d", "hd"),
        }
        grouped = group(tasks(3, 1), known, {"b": "hb", "c": "hc", "d": "hd"})
        actives = {
            processor: [name for name in held if name == active_task_of(name)]
            for processor, held in names(grouped).items()
        }
        assert actives == {"b": ["T1"], "c": ["T0"], "d": ["T2"]}

    def test_a_processor_that_joins_gets_standbys_first_and_actives_after(self) -> None:
        """Nobody starts cold for the sake of evenness."""
        made = tasks(6, 1)
        processors = {"a": "h1", "b": "h2"}
        first = group(made, {}, processors)
        processors["c"] = "h3"
        second = group(made, locality(first, processors), processors)
        assert all(name.startswith("Standby-") for name in second["c"].tasks)
        assert {len(each.tasks) for each in second.values()} == {4}
        third = group(made, locality(second, processors), processors)
        assert [name for name in third["c"].tasks if not name.startswith("Standby-")] != []

    def test_a_dead_processors_tasks_start_on_many_others(self) -> None:
        """Its standbys were on all of them, so nobody has much more to do and nothing moves."""
        made = tasks(36, 1)
        processors = {f"p{number}": f"h{number}" for number in range(4)}
        containers = group(made, {}, processors)
        known = locality(containers, processors)
        del processors["p0"]
        after = group(made, known, processors)
        for processor, container in after.items():
            actives = [name for name in container.tasks if not name.startswith("Standby-")]
            assert len(actives) == 12
            assert all(known[name].processor_id in ("p0", processor) for name in actives)

    def test_a_rolling_upgrade_moves_two_tasks_for_each_that_is_down(self) -> None:
        """Each of 5 processors leaves and comes back at its location: 4 tasks out, 4 back home."""
        made = tasks(20)
        processors = {f"p{number}": f"h{number}" for number in range(5)}
        containers = group(made, {}, processors)
        moves = 0
        for processor in sorted(processors):
            for there in ({k: v for k, v in processors.items() if k != processor}, processors):
                known = locality(containers, processors)
                containers = group(made, known, there)
                moves += sum(
                    known[name].processor_id != each
                    for each, container in containers.items()
                    for name in container.tasks
                )
        assert moves == 5 * (4 + 4)

    def test_standbys_without_a_location_are_told(self) -> None:
        """Two locations have room for one standby of each task."""
        made = tasks(3, 2)
        containers = group(made, {}, {"a": "h1", "b": "h2", "c": "h2"})
        assert unplaced(made, containers) == tuple(f"Standby-T{number}-1" for number in range(3))

    def test_weights_count_instead_of_tasks(self) -> None:
        """One heavy task is as much as the others together."""

        def weighed(
            tasks: Sequence[TaskModel],
            task_locality: Mapping[str, TaskLocality],
            processor_locality: Mapping[str, str],
        ) -> Mapping[str, ContainerModel]:
            return by_locality(tasks, task_locality, processor_locality, weights={"T0": 4})

        known = ran_on({"a": "T0 T1 T2", "b": "T3 T4"})
        grouped = names(group(tasks(5), known, {"a": "h1", "b": "h2"}, weighed))
        assert grouped == {"a": ["T0"], "b": ["T1", "T2", "T3", "T4"]}

    @pytest.mark.parametrize("seed", range(20))
    def test_the_order_of_what_is_given_doesnt_matter(self, seed: int) -> None:
        """Leaders differ, and agree."""
        lots = random.Random(seed)
        made = tasks(30, 1)
        processors = {f"p{number}": f"h{number % 4}" for number in range(7)}
        known = {
            each.task_name: TaskLocality(processor, f"h{int(processor[1:]) % 4}")
            for each in made
            for processor in [f"p{lots.randrange(9)}"]
        }
        first = group(made, known, processors)
        shuffled = [lots.sample(list(each), len(each)) for each in (made, known, processors)]
        again = group(
            shuffled[0],
            {name: known[name] for name in shuffled[1]},
            {name: processors[name] for name in shuffled[2]},
        )
        assert list(first.items()) == list(again.items())


def locality(
    containers: Mapping[str, ContainerModel], processors: Mapping[str, str]
) -> dict[str, TaskLocality]:
    """What the containers leave behind."""
    return {
        name: TaskLocality(processor, processors[processor])
        for processor, container in containers.items()
        for name in container.tasks
    }


class TestWhatIsRefused:
    """By name of the field."""

    @pytest.mark.parametrize(
        ("given", "processors", "named"),
        [
            (tasks(1), {}, "processor_locality: processors for the tasks; seen: none"),
            ([], {"a": "h"}, "tasks for the processors; seen: no task"),
            (tasks(1) * 2, {"a": "h"}, "tasks: each name once; seen: T0 twice"),
            (
                tasks(1),
                {"a": ""},
                "processor 'a' at location ''; fix: its location id, or ANY_HOST",
            ),
            (tasks(1), {"": "h"}, "processor '' at location 'h'"),
            (tasks(1, 1)[1:], {"a": "h"}, "the active of each standby; seen: none of Standby-T0-0"),
        ],
    )
    def test_input(self, given: list[TaskModel], processors: dict[str, str], named: str) -> None:
        """Before any grouper sees it."""
        with pytest.raises(InvalidInput) as refused:
            group(given, {}, processors)
        assert named in str(refused.value)

    @pytest.mark.parametrize(
        ("given", "named"),
        [
            ({"z": "T0 T1"}, "processors that there are; seen: z"),
            ({"a": "T0"}, "a container for each active task; seen: none for T1"),
            ({"a": "T0 T1", "b": "T1"}, "each task in one container; seen: T1"),
            ({"a": "T0 T1 T2"}, "tasks that there are; seen: T2"),
            ({"a": "T0 T1 Standby-T0-0"}, "copies of a task at different locations; seen: T0"),
            ({"a": "T0 T1", "c": "Standby-T0-0"}, "different locations; seen: T0"),
        ],
    )
    def test_what_a_grouper_may_not_give(self, given: dict[str, str], named: str) -> None:
        """Whoever wrote it: a task that is lost or has two owners is never published."""
        known = {each.task_name: each for each in tasks(3, 1)}

        def wrong(*_: object) -> Mapping[str, ContainerModel]:
            return {
                processor: ContainerModel(
                    processor_id=processor, tasks={name: known[name] for name in held.split()}
                )
                for processor, held in given.items()
            }

        with pytest.raises(ActionFailed) as refused:
            group(tasks(2, 1), {}, {"a": "h1", "b": "h2", "c": "h1"}, wrong)
        assert named in str(refused.value)

    def test_the_result_is_read_only(self) -> None:
        """A JobModel is agreed on as it is."""
        with pytest.raises(TypeError):
            group(tasks(1), {}, {"a": "h"})["b"] = None  # type: ignore[index]


class TestSetting:
    """`task.name.grouper.factory`."""

    @pytest.mark.parametrize(
        ("value", "grouper"),
        [
            (None, by_container_count),
            ("", by_container_count),
            ("locality", by_locality),
            (f"{SAMZA}GroupByContainerIdsFactory", by_container_ids),
            (f"{SAMZA}GroupByContainerCountFactory", by_container_count),
        ],
    )
    def test_a_grouper_by_its_name(self, value: str | None, grouper: Grouper) -> None:
        """Samza's factories, ours, or the deployment's own without the setting."""
        config = {} if value is None else {SETTING: value}
        assert grouper_of(config, by_container_count) is grouper

    def test_a_package_brings_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By an entry point, in a cluster and standalone alike."""
        point = EntryPoint(
            "everything-on-one", f"{__name__}:everything_on_one", grouping.ENTRY_POINTS
        )
        monkeypatch.setattr(grouping, "entry_points", lambda **_: EntryPoints([point]))
        own = grouper_of({SETTING: "everything-on-one"}, by_container_count)
        assert names(group(tasks(2), {}, numbered(2), own)) == {"0": ["T0", "T1"]}

    def test_an_unknown_one_is_refused(self) -> None:
        """A job that counts on another assignment isn't given this one."""
        with pytest.raises(InvalidInput, match="MyGrouper"):
            grouper_of({SETTING: "com.example.MyGrouper"}, by_container_count)


def everything_on_one(
    tasks: Sequence[TaskModel],
    task_locality: Mapping[str, TaskLocality],
    processor_locality: Mapping[str, str],
) -> dict[str, ContainerModel]:
    """What a user's package would have."""
    first = min(processor_locality)
    return {
        first: ContainerModel(processor_id=first, tasks={each.task_name: each for each in tasks})
    }
