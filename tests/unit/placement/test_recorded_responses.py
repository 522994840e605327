"""What people and Samza read of a request, word for word, in every kind of scene."""

from __future__ import annotations

import json

import pytest

from samza_dagster.placement import commands as cmd
from tests.unit.placement.recorded_responses import FILE, SCENES

pytestmark = pytest.mark.unit
RECORDED: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SCENES)
def test_a_request_is_answered_in_the_words_that_are_on_record(name: str) -> None:
    """Scripts and people know them; whoever changes one writes the record anew."""
    answers = SCENES[name]().sent(cmd.WriteResponse)
    assert [f"{r.uuid} {r.status}: {r.message}" for r in answers] == RECORDED[name]


def test_the_record_has_these_scenes_and_no_others() -> None:
    """None is left over."""
    assert list(RECORDED) == list(SCENES)
