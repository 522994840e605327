"""One contract of groupers: ours keeps state where it is, others plug in, and all are checked."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.assignment import (
    Grouper,
    TaskLocality,
    as_before,
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
from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, active_task_of, standby_task_name
from tests.unit.assignment.groups import locality, names, numbered, ran_on, tasks
from tests.unit.assignment.histories import placed

pytestmark = pytest.mark.unit

SETTING = "task.name.grouper.factory"
HOSTS = ("h1", "h2", "h3")
SAMZA = "org.apache.samza.container.grouper.task."


class TestByLocality:
    """Ours."""

    def test_a_first_deployment_is_dealt_as_samza_deals(self) -> None:
        """Nothing is known, so there is nothing to keep."""
        made = group_by_partition({"in": 25}, "kafka")
        assert group(made, {}, numbered(12)) == group(made, {}, numbered(12), by_container_count)

    def test_standbys_without_a_location_are_told(self) -> None:
        """Two locations have room for one standby of each task."""
        made = tasks(3, 2)
        containers = group(made, {}, {"a": "h1", "b": "h2", "c": "h2"})
        assert unplaced(made, containers) == tuple(f"Standby-T{number}-1" for number in range(3))

    @given(st.integers(2, 7), st.integers(1, 8))
    def test_a_processors_death_is_the_work_of_as_many_others_as_have_room(
        self, processors: int, each: int
    ) -> None:
        """The standbys of its actives are with all others, or one with each of so many."""
        made = tasks(processors * each, 1)
        containers = group(made, {}, {f"p{n}": f"h{n}" for n in range(processors)})
        heirs: dict[str, set[str]] = {}
        actives = placed(containers, TaskMode.ACTIVE)
        for name, processor in placed(containers, TaskMode.STANDBY).items():
            heirs.setdefault(actives[active_task_of(name)], set()).add(processor)
        assert {len(its) for its in heirs.values()} == {min(each, processors - 1)}

    @given(st.integers(1, 12), st.sampled_from("abc"))
    def test_where_a_location_is_lost_the_standbys_that_are_warm_are_kept(
        self, count: int, lost: str
    ) -> None:
        """There is one location for two standbys of each task: a new one would begin to restore there."""
        made, processors = tasks(count, 2), {each: f"h{each}" for each in "abc"}
        before = group(made, {}, processors)
        del processors[lost]
        after = group(made, locality(before, {**processors, lost: f"h{lost}"}), processors)
        standbys = placed(after, TaskMode.STANDBY)
        assert len(standbys) == count
        assert standbys.items() <= placed(before, TaskMode.STANDBY).items()

    @settings(deadline=None)
    @given(
        st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=2, max_size=4),
        st.integers(1, 12),
        st.integers(0, 2),
    )
    def test_a_processor_at_an_unknown_location_counts_as_one_at_a_location_of_its_own(
        self, versions: list[set[str]], count: int, replicas: int
    ) -> None:
        """So tasks stay with it over versions, and beside others whose locations are known."""
        made = tasks(count, replicas)
        known: dict[str, TaskLocality] = {}
        unknown: dict[str, TaskLocality] = {}
        for ids in versions:
            told = {each: "host" if each in "ab" else each for each in ids}
            untold = {each: "host" if each in "ab" else ANY_HOST for each in ids}
            first, second = group(made, known, told), group(made, unknown, untold)
            assert names(first) == names(second)
            known |= locality(first, told)
            unknown |= locality(second, untold)

    @settings(deadline=None)
    @given(
        st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from(HOSTS), min_size=1),
        st.integers(1, 6),
        st.integers(1, 2),
        st.dictionaries(
            st.tuples(st.integers(0, 5), st.integers(0, 1)), st.sampled_from(HOSTS), max_size=4
        ),
    )
    def test_a_pin_of_a_standby_moves_no_active(
        self,
        processors: dict[str, str],
        count: int,
        replicas: int,
        pins: dict[tuple[int, int], str],
    ) -> None:
        """Be it to where its active is: then it counts once that is elsewhere."""
        made = tasks(count, replicas)
        known: dict[str, TaskLocality] = {}
        for _ in range(4):
            before = group(made, known, processors)
            known = locality(before, processors)
        for (number, replica), host in pins.items():
            name = standby_task_name(f"T{number}", replica)
            known[name] = replace(known.get(name, TaskLocality()), pinned_to=host)
        after = group(made, known, processors)
        assert placed(after, TaskMode.ACTIVE) == placed(before, TaskMode.ACTIVE)

    @pytest.mark.parametrize("pinned_to", ["", "hb"])
    def test_an_active_whose_host_died_starts_where_its_only_standby_is(
        self, pinned_to: str
    ) -> None:
        """Be that pinned to its host: the active goes before the pin, for there alone its state is."""
        known = ran_on({"gone": "T0", "b": "T1 Standby-T0-0", "c": ""})
        standby = standby_task_name("T0", 0)
        known[standby] = replace(known[standby], location_id="hb", pinned_to=pinned_to)
        containers = group(tasks(2, 1), known, {each: f"h{each}" for each in "bcd"})
        assert placed(containers, TaskMode.ACTIVE)["T0"] == "b"

    @given(st.permutations("abcde"), st.integers(1, 5), st.integers(5, 12))
    def test_a_task_whose_processor_has_left_is_where_it_was_last_before(
        self, former: list[str], had: int, count: int
    ) -> None:
        """Of those that are there the newest, where all the others may be anywhere."""
        known = {"T0": TaskLocality("gone", former=tuple(former[:had]))}
        containers = group(tasks(count), known, {each: f"h{each}" for each in "abcde"})
        assert placed(containers, TaskMode.ACTIVE)["T0"] == former[0]

    @pytest.mark.parametrize("had", ["T0", "T1", "T2", "T3"])
    def test_of_tasks_that_could_move_to_who_is_back_the_one_moves_that_it_had(
        self, had: str
    ) -> None:
        """Any one of them makes it even."""
        known = ran_on({"p0": "T0 T1", "p1": "T2 T3"})
        known[had] = replace(known[had], former=("p2",))
        grouped = names(group(tasks(4), known, {each: f"h{each}" for each in ("p0", "p1", "p2")}))
        assert grouped["p2"] == [had]

    def test_an_exchange_that_saves_moves_brings_no_two_standbys_together(self) -> None:
        """Found among random histories, once in thousands: each of the two could have gone there alone."""
        hosts = "754435532172"
        processors = {f"p{number}": f"host-{host}" for number, host in enumerate(hosts)}
        ran = {
            "p0 host-7": "Standby-T4-1 T0",
            "p1 host-5": "Standby-T2-0 T3",
            "p2 host-5": "T4",
            "p4 host-3": "Standby-T3-1",
            "p5 host-5": "Standby-T0-0",
            "p6 host-7": "T2",
            "p7 host-3": "Standby-T1-1",
            "p10 host-7": "T1",
            "p11 host-2": "Standby-T0-1 Standby-T2-1",
        }
        known = {
            name: TaskLocality(*where.split())
            for where, held in ran.items()
            for name in held.split()
        }
        made = tasks(5, 2)
        assert unplaced(made, group(made, known, processors)) == ()

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

    @given(st.sampled_from((by_locality, by_container_count)), st.integers(1, 12))
    def test_containers_come_in_order_with_their_locations_and_their_tasks_by_name(
        self, grouper: Grouper, count: int
    ) -> None:
        """Numbers by their value; a location that isn't known is none. What runs is grouped again as it is."""
        ids = ["9", "10", "100", "a", "b2", "b10"]
        places = {each: ANY_HOST if each == "10" else f"h{each}" for each in reversed(ids)}
        made = tasks(6 * count)
        found = group(made, {}, places, grouper)
        assert list(found) == ["9", "10", "100", "a", "b10", "b2"]
        for processor, container in found.items():
            assert container.processor_id == processor
            assert container.location_id == (None if processor == "10" else f"h{processor}")
            assert list(container.tasks) == sorted(container.tasks)
        assert group(made, locality(found, places), places, as_before) == found
        assert len(group(tasks(count), {}, places)) == min(count, len(ids)), "none is idle"

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

    def test_a_standby_where_none_may_be(self) -> None:
        """As beside Samza's own, which would take it for an active."""
        known = {"T0": TaskLocality("a"), "Standby-T0-0": TaskLocality("b")}
        places = {"a": "h1", "b": "h2"}
        assert len(group(tasks(1, 1), known, places, as_before)) == 2

        def wrong(*given: Any, **_: object) -> Mapping[str, ContainerModel]:
            return as_before(*given)

        with pytest.raises(ActionFailed, match="may have some; seen: Standby-T0-0"):
            group(tasks(1, 1), known, places, wrong, actives_only={"b"})

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
            (" locality ", by_locality),
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
