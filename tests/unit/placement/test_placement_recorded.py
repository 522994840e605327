"""The statuses and texts that a running Samza 1.8.0 Application Master wrote, and ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.placement.scenes import ask, running

pytestmark = pytest.mark.unit

LINES = (Path(__file__).parents[2] / "data" / "wire" / "scenarios.jsonl").read_text().splitlines()
SCENARIOS: dict[str, dict[str, Any]] = {
    scenario["scenario"]: scenario for scenario in map(json.loads, LINES)
}
NODES = ("nm1", "nm2", "nm3", "nm4")
SAME = (
    "move active to free host",
    "move standby to free host",
    "restart active via LAST_SEEN",
    "active to its own current host",
    "standby LAST_SEEN",
    "ANY_HOST active",
    "valid host, requestExpiry=1ms",
    "valid host, requestExpiry=20s",
    "standby to free host (prep)",
    "smoke move",
)


def recorded(scenario: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (event["status"], event["msg"])
        for event in scenario["events"]
        if event["kind"] == "resp" and not event.get("tombstone")
    ]


def replay(scenario: dict[str, Any], *, lost: str | None = None) -> list[tuple[str, str]]:
    world = running(scenario["before"], hosts=NODES)
    if lost is not None:
        world.lose(lost)
    expiry = scenario["opts"].get("expiry")
    world.submit(ask(scenario["proc"], scenario["dest"], expiry_ms=expiry))
    world.until(lambda: world.action("0") is None and world.action("1") is None)
    return world.responses_to("u1")


@pytest.mark.parametrize("name", SAME)
def test_ours_says_what_samza_said(name: str) -> None:
    """The same statuses with the same texts; which host ANY_HOST is, the cluster picks."""
    scenario = SCENARIOS[name]
    expected, ours = recorded(scenario), replay(scenario)
    if scenario["dest"] == "ANY_HOST":
        expected, ours = (
            [(status, re.sub("nm[1-4]", "<host>", text)) for status, text in told]
            for told in (expected, ours)
        )
    assert ours == expected


def test_a_constraint_is_refused_in_samzas_words_and_then_explained() -> None:
    """Ours adds the rule, what was seen, and the smallest change."""
    scenario = SCENARIOS["active to host of its own standby"]
    [(status, text)] = recorded(scenario)
    [(our_status, our_text)] = replay(scenario)
    assert our_status == status
    assert our_text == (
        f"{text}; same-host: 0-0 of the same group is running on nm2; "
        "move 0-0 to another host first"
    )


def test_a_lost_destination_fails_in_samzas_words_and_then_why() -> None:
    """The container is left where it is."""
    scenario = SCENARIOS["move to host whose NM is LOST, default expiry"]
    expected = recorded(scenario)
    ours = replay(scenario, lost="nm4")
    assert [status for status, _ in ours] == [status for status, _ in expected]
    assert ours[-1][1].startswith(expected[-1][1] + ": ")
