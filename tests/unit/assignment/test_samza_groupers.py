"""The groupers that Samza has deprecated give what they gave there."""

from __future__ import annotations

import pytest

from samza_dagster.assignment import by_container_count, group
from samza_dagster.errors import InvalidInput
from tests.rig.samza_groupers import recorded
from tests.unit.assignment.groups import names, numbered, tasks

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


def test_a_container_with_nothing_to_do_is_refused() -> None:
    """Samza aborts; the setting is named."""
    with pytest.raises(InvalidInput, match="of at most 2"):
        group(tasks(2), {}, numbered(3), by_container_count)
