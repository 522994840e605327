"""The recorded AM answers every recorded request as the real one did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import WIRE

pytestmark = pytest.mark.unit


def recordings() -> dict[str, dict[str, Any]]:
    """The scenarios of one request that came to an end, by name."""
    found = [json.loads(line) for line in (WIRE / "scenarios.jsonl").open()]
    return {
        each["scenario"]: each
        for each in found
        if each.get("before") and _ends(each) and each["scenario"] != "dup uuid second"
    }


def _ends(scenario: dict[str, Any]) -> bool:
    statuses = {event.get("status") for event in scenario["events"]}
    return isinstance(scenario.get("proc"), str) and bool(
        statuses & {"SUCCEEDED", "FAILED", "BAD_REQUEST"}
    )


RECORDED = recordings()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_request_is_answered_in_the_recorded_words(name: str) -> None:
    """And within the time that the real one took, but for its poll and its allocator's ticks."""
    scenario = RECORDED[name]
    world = AmInMemory()
    cluster = world.am.cluster
    cluster.places = dict(scenario["before"])
    answers = [e for e in scenario["events"] if e.get("kind") == "resp"]
    last = answers[-1]["msg"]
    if "NM dies" in name:
        cluster.hosts.add("nm4")
    elif "expired" in last:
        cluster.hosts.discard(scenario["dest"])
    elif scenario["dest"] == "ANY_HOST":
        cluster.any_host = last.rpartition(" ")[2]
    fields = {"requestExpiry": scenario["opts"]["expiry"]} if scenario.get("opts") else {}
    asked = world.by_others(scenario["proc"], scenario["dest"], **fields)
    if "NM dies" in name:
        world.run(8)
        cluster.hosts.discard("nm4")
    world.run(answers[-1]["t"] + 15)
    assert world.statuses(asked) == [(e["status"], e["msg"]) for e in answers]


def test_the_ninth_stop_in_a_row_ends_the_job() -> None:
    world = AmInMemory()
    for _ in range(8):
        world.by_others("1-0", "LAST_SEEN")
        world.run(15)
    last = world.by_others("1-0", "LAST_SEEN")
    world.run(15)
    assert world.am.failed == "the job has failed: 1-0 failed 9 times in a row"
    assert [status for status, _ in world.statuses(last)] == ["IN_PROGRESS", "IN_PROGRESS"]
