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


@pytest.mark.parametrize(
    ("name", "started", "stopped"),
    [
        ("moved to a host", ("0", "host-3"), ("0",)),
        ("restarted by force", ("0", "host-1"), ("0",)),
        ("changed places with its standby", ("0", "host-2"), ("0-0", "0")),
        ("no resource in time", ("", ""), ()),
        ("its stop failed", ("", ""), ()),
        ("its start failed", ("", ""), ("0",)),
        ("it died and started at its destination", ("0", "host-3"), ()),
        ("another deployment began meanwhile", ("", ""), ("0",)),
        ("another coordinator took over on the way back", ("", ""), ("0-0", "0")),
        ("the standby survived its stop", ("", ""), ()),
        ("the active survived its stop after the standby gave way", ("", ""), ("0-0",)),
        ("the standby died before it was stopped", ("", ""), ()),
        ("given up after the standby gave way", ("", ""), ("0-0",)),
        ("failed over while it was down", ("0", "host-2"), ("0-0",)),
        ("failed over to another place than its standbys", ("0", "host-3"), ()),
        ("its host came back with it", ("", ""), ("0-0",)),
        ("a standby started", ("0-1", "host-3"), ()),
        ("a standby stopped", ("", ""), ("0-0",)),
        ("a standby stopped that had no process", ("", ""), ()),
        ("a standby that survived its stop", ("", ""), ()),
        ("held too long", ("", ""), ()),
    ],
)
def test_the_outcome_says_who_was_started_and_who_was_stopped(
    name: str, started: tuple[str, str], stopped: tuple[str, ...]
) -> None:
    """In fields: nobody has to read that out of its words."""
    outcome = [r for r in SCENES[name]().sent(cmd.WriteResponse) if r.uuid == "u1"][-1]
    assert ((outcome.started, outcome.host), outcome.stopped) == (started, stopped)
    assert outcome.stage == ""


def test_each_response_says_where_the_action_stands() -> None:
    """The two requests for a resource in one swap have the same words."""
    answers = SCENES["changed places with its standby"]().sent(cmd.WriteResponse)
    stages = [response.stage for response in answers]
    assert stages == ["reserving-standby", "stopping-standby", "reserving", "stopping", ""]


def test_what_is_held_says_where() -> None:
    """A commit's own answer says what it is about."""
    answers = SCENES["held and committed"]().sent(cmd.WriteResponse)
    [place] = [r.host for r in answers if r.stage == "held"]
    assert (place, {r.refers_to for r in answers if r.uuid == "c1"}) == ("host-3", {"u1"})
