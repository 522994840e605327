"""What a run shows: maps, timelines, seconds."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.requests.follow import phase_seconds
from samza_dagster.orchestration.requests.step_request import Moment, StepRequest
from samza_dagster.orchestration.show.tables import map_table, table

pytestmark = pytest.mark.unit
BEFORE = (HostRow("a", "alive", ("0 active",)), HostRow("b", "alive", ()))
AFTER = (HostRow("b", "alive", ("0 active",)), HostRow("c", "alive", ()))


def moment(message: str, ms: int, stage: str = "") -> Moment:
    return Moment("move", "IN_PROGRESS", message, 0, ms, stage)


def outcome(*moments: Moment) -> StepRequest:
    return StepRequest("move", "u", 0, "SUCCEEDED", "", "b", moments)


def test_the_map_marks_what_changed() -> None:
    """A host that came or went is a row too."""
    rows = [tuple(r.data.values()) for r in map_table(BEFORE, AFTER).records]
    assert rows == [
        ("a", "0 active", "-", True),
        ("b", "-", "0 active", True),
        ("c", "-", "-", False),
    ]


def test_phases_split_where_the_stop_begins() -> None:
    """Seconds without a container count from there."""
    seconds = phase_seconds(
        outcome(
            moment("Preferred Resources requested", 100, "RESERVING_STANDBY"),
            moment("Standby container stop in progress", 700, "STOPPING_STANDBY"),
            moment("Active container stop in progress", 1500, "STOPPING"),
            moment("Successfully completed", 9000),
        )
    )
    assert seconds == {
        "move_seconds": 9.0,
        "move_reserve_seconds": 1.5,
        "move_stop_and_start_seconds": 7.5,
    }


def test_a_request_without_a_stop_has_one_phase() -> None:
    """BAD_REQUEST, or an expired reservation: the container was untouched."""
    assert phase_seconds(outcome(moment("expired", 500))) == {"move_seconds": 0.5}
    assert phase_seconds(outcome()) == {}


def test_table_columns_have_the_type_of_their_values() -> None:
    """Numbers are sorted as numbers in the UI."""
    made = table(
        [{"a": 1, "b": None, "c": True, "d": [1]}, {"a": 2, "b": 0.5, "c": False}],
        ("a", "b", "c", "d"),
    )
    assert [c.type for c in made.schema.columns] == ["int", "float", "bool", "string"]
    assert made.records[0].data["d"] == "[1]"
