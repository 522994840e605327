"""The groupers that Samza has deprecated give what they gave there."""

from __future__ import annotations

import pytest

from samza_dagster.assignment import by_container_count, by_container_ids, group
from samza_dagster.errors import InvalidInput
from samza_dagster.model.naming import ANY_HOST
from tests.rig.samza_groupers import recorded
from tests.unit.assignment.groups import at, names, numbered, ran_on, tasks

pytestmark = pytest.mark.unit


def test_they_answer_as_samzas_classes_did() -> None:
    """240 random groups of theirs, string ids among them; recorded from Samza 1.8.0."""
    seen = 0
    for each in recorded():
        given = [task for task in tasks(24) if task.task_name in each.tasks]
        grouped = group(given, each.task_locality, each.processors, each.grouper)
        found = {name: pid for pid, held in names(grouped).items() for name in held}
        assert found == each.answer, each
        seen += 1
    assert seen == 240


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
