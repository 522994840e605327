"""Commands for what Samza's wire has no form for: help, refusals under Samza's AM, ages, cleaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.cli.gc import seconds
from samza_dagster.cli.output import at
from samza_dagster.errors import InvalidInput
from samza_dagster.model import PlacementRequest
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
ASKS = [
    ("fail-over", "0"),
    ("control-standby", "start", "0", "--to", "host-4"),
    ("control-standby", "stop", "0-0"),
    ("place", "0", "--to", "host-4", "--hold"),
    ("cancel", UUID),
    ("commit", UUID),
    ("release", UUID),
]


@pytest.mark.parametrize("arguments", ASKS, ids=lambda a: " ".join(a[:2]))
def test_samzas_am_is_asked_none_of_them(commands: Any, arguments: tuple[str, ...]) -> None:
    """Exit 2, an error as JSON when asked for, and nothing in the stream."""
    end = commands.store.end_position()
    result = commands.run(*arguments, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["exit_code"] == 2
    assert commands.store.end_position() == end


def test_a_hold_is_of_what_is_legal(commands: Any) -> None:
    """Two options that contradict each other: bad usage."""
    result = commands.run("place", "0", "--to", "host-4", "--hold", "--or-any-legal")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800), ("0.5h", 1_800)],
)
def test_ages(text: str, expected: float) -> None:
    """As people write them."""
    assert seconds(text) == expected


@given(st.text(max_size=10))
def test_any_other_age_is_refused(text: str) -> None:
    """By name, never by a traceback."""
    try:
        assert seconds(text) >= 0
    except InvalidInput as error:
        assert error.asked == "--older-than"  # noqa: PT017


def test_gc_lists_first_and_then_removes_what_is_of_another_deployment(commands: Any) -> None:
    """With Samza's own AM too: the stream is all that it needs."""
    stale = PlacementRequest(
        uuid=UUID,
        deployment_id="run-0",
        processor_id="0",
        destination_host="host-4",
        timestamp=1,
    )
    key = f"{UUID}.{REQUEST}"
    commands.store.put(PLACEMENT_NAMESPACE, key, stale.to_json().encode())
    listed = commands.run("gc", "--dry-run", "--json")
    assert listed.exit_code == 0
    (removal,) = json.loads(listed.stdout)["removed"]
    assert (removal["uuid"], removal["why"]) == (UUID, "of another deployment")
    assert commands.store.get(PLACEMENT_NAMESPACE, key) is not None
    assert commands.run("gc").exit_code == 0
    assert commands.store.get(PLACEMENT_NAMESPACE, key) is None


@pytest.mark.parametrize("ms", [-1, 2**63 - 1])
def test_a_time_that_no_calendar_has_is_shown_as_it_is(ms: int) -> None:
    """A stranger's request may carry any number."""
    assert str(ms) in at(ms)
