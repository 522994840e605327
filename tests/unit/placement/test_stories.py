"""Every story of `stories.txt`: how it ends, and what is said in it."""

from __future__ import annotations

import json

import pytest

from samza_dagster.placement.verification import verify
from tests.unit.placement.stories import RECORD, Story, on_record, seen, stories, tell

pytestmark = pytest.mark.unit

STORIES = stories()
ANSWERS: dict[str, list[str]] = json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_a_story_ends_as_it_is_told_and_in_the_words_on_record(story: Story) -> None:
    """Each step is judged by all invariants; scripts and people know the words."""
    world = tell(story)
    assert seen(world) == (story.outcomes, story.stopped, story.places)
    assert on_record(world) == ANSWERS[str(story)]
    assert verify([record.record for record in world.brokers.audit]).ok
    for uuid in world.asks():
        assert sum(s in ("SUCCEEDED", "FAILED", "BAD_REQUEST") for s in world.statuses(uuid)) == 1
    held = world.held_resources().values()
    assert not [host for host in held if world.state.hosts[host].alive]


def test_the_record_has_these_stories_and_no_others() -> None:
    """None is left over, and none is told twice."""
    assert list(ANSWERS) == [str(story) for story in STORIES]
