"""The groupers that Samza has deprecated give what they gave there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.assignment import (
    Grouper,
    TaskLocality,
    by_container_count,
    by_container_ids,
    group,
)
from samza_dagster.errors import InvalidInput
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import ANY_HOST
from tests.rig.samza_groupers import recorded
from tests.unit.assignment.groups import locality, names, numbered, ran_on, tasks
from tests.unit.assignment.histories import placed

pytestmark = pytest.mark.unit


def test_they_answer_as_samzas_classes_did() -> None:
    """240 random groups of theirs, string ids among them; recorded from Samza 1.8.0.

    Which processor registered first matters only where Samza deals in turn.
    """
    seen = 0
    for each in recorded():
        given = [task for task in tasks(24) if task.task_name in each.tasks]
        is_dealt = len(each.processors) <= len(given) and ANY_HOST in each.processors.values()
        for processors in [list(each.processors), sorted(each.processors, reverse=True)]:
            located = {pid: each.processors[pid] for pid in processors}
            grouped = group(given, each.task_locality, located, each.grouper)
            found = {name: pid for pid, held in names(grouped).items() for name in held}
            assert found == each.answer, each
            if is_dealt:
                break
        seen += 1
    assert seen == 240


@given(st.integers(1, 30), st.integers(0, 30))
def test_a_first_deployment_is_dealt_in_turn_by_the_containers_numbers(
    size: int, more: int
) -> None:
    """Container 10 comes after 9, though tasks are in order of their names."""
    in_turn = sorted(each.task_name for each in tasks(size + more))
    grouped = names(group(tasks(size + more), {}, numbered(size), by_container_count))
    assert grouped == {str(number): in_turn[number::size] for number in range(size)}


@settings(deadline=None)
@given(
    st.sampled_from([by_container_count, by_container_ids]),
    st.lists(st.integers(1, 4), min_size=2, max_size=4),
    st.integers(4, 9),
    st.booleans(),
)
def test_standbys_change_nothing_of_what_they_give(
    grouper: Grouper, sizes: list[int], count: int, is_known: bool
) -> None:
    """Version after version of a job with standbys, whatever is known of where these were."""
    known: dict[str, TaskLocality] = {}
    for size in sizes:
        processors = {each: f"h{each}" if is_known else ANY_HOST for each in numbered(size)}
        found = group(tasks(count, 1), known, processors, grouper)
        of_actives = {name: each for name, each in known.items() if name.startswith("T")}
        alone = group(tasks(count), of_actives, processors, grouper)
        assert placed(found, TaskMode.ACTIVE) == placed(alone, TaskMode.ACTIVE)
        known |= locality(found, processors)


def test_a_container_with_nothing_to_do_is_refused() -> None:
    """Samza aborts; the setting is named."""
    with pytest.raises(InvalidInput, match="of at most 2"):
        group(tasks(2), {}, numbered(3), by_container_count)


@pytest.mark.parametrize(
    ("ran", "grouped"),
    [
        ({"1": "T0 T1 T3", "0": "T2"}, {"0": ["T2"], "1": ["T0", "T1", "T3"]}),
        ({"x": "T0 T1 T3", "y": "T2"}, {"x": ["T0", "T1", "T3"], "y": ["T2"]}),
        ({"x": "T0 T1 T3", "0": "T2"}, {"0": ["T2"], "x": ["T0", "T1", "T3"]}),
        ({"2": "T0 T1 T3", "0": "T2"}, {"0": ["T0", "T2"], "2": ["T1", "T3"]}),
        ({"1": "T0 T1 T3", "0": "", "": "T2"}, {"0": ["T0", "T2"], "1": ["T1", "T3"]}),
    ],
    ids=["numbers", "names", "both", "a number is missing", "a task is nobody's"],
)
def test_an_assignment_is_kept_where_its_containers_are_the_same_and_none_is_missing(
    ran: dict[str, str], grouped: dict[str, list[str]]
) -> None:
    """However uneven it is; another one counts for nothing, and all is dealt anew."""
    found = group(tasks(4), ran_on(ran), dict.fromkeys(grouped, ANY_HOST), by_container_count)
    assert names(found) == grouped
