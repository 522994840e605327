"""Where a restarted container's own commits begin: once, whatever run of its chain asks."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from samza_dagster.orchestration.requests.verify import MOST_KEPT, OwnCommits
from samza_dagster.orchestration.tags import MOST_TAG_BYTES

pytestmark = pytest.mark.unit
FIRST, SECOND = (str(UUID(int=n)) for n in (1, 2))


def test_a_run_that_goes_on_goes_by_the_boundary_of_the_one_that_was_killed() -> None:
    """Also where that has told a third one of it: the earliest counts."""
    tags: list[object] = []
    killed = OwnCommits(lambda: tags, tags.append)
    assert killed.since(FIRST, lambda: 70) == 70
    assert killed.since(FIRST, lambda: 90) == 70
    tags.append({FIRST: 80})
    again = OwnCommits(lambda: tags, tags.append)
    assert again.since(FIRST, lambda: 95) == 70
    assert again.since(SECOND, lambda: 96) == 96
    assert OwnCommits(lambda: tags).since(SECOND, lambda: 99) == 96


@pytest.mark.parametrize("value", [None, "text", [1], {"a": "b"}])
def test_a_tag_that_somebody_else_wrote_is_passed_over(value: object) -> None:
    """A boundary that can't be read is taken anew, which costs time alone."""
    assert OwnCommits(lambda: [value]).since(FIRST, lambda: 5) == 5


def test_a_long_drain_keeps_the_boundaries_of_its_newest_moves() -> None:
    """They fit into a tag; those of long ago are done."""
    kept: list[dict[str, int]] = []
    commits = OwnCommits(keep=kept.append)
    for n in range(3 * MOST_KEPT):
        commits.since(str(UUID(int=n)), lambda: 10**12)
    memory = {"judged-after": [10**9] * 10, "since": kept[-1]}
    assert len(json.dumps(memory, separators=(",", ":"))) <= MOST_TAG_BYTES
    assert str(UUID(int=3 * MOST_KEPT - 1)) in kept[-1]
