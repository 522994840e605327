"""The recorded AM answers every recorded request as the real one did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import FALLS_BACK, LOCALITY, WIRE

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


def test_active_and_standby_go_one_after_another_and_two_groups_at_once() -> None:
    world = AmInMemory()
    active, standby, other = (
        world.by_others(processor, host)
        for processor, host in (("0", "nm3"), ("0-0", "nm4"), ("1", "nm4"))
    )
    world.run(14)
    assert len(world.statuses(active)) == len(world.statuses(other)) == 3
    assert world.statuses(standby) == []
    world.run(20)
    assert len(world.statuses(standby)) == 3


def test_two_standbys_of_one_active_go_at_once() -> None:
    """The AM keeps an active from its standby, and no standby from its sibling."""
    world = AmInMemory()
    world.am.cluster.places["0-1"] = "nm3"
    asked = [world.by_others("0-0", "nm4"), world.by_others("0-1", "LAST_SEEN")]
    world.run(10)
    assert [len(world.statuses(each)) for each in asked] == [2, 2]
    assert world.am.cluster.down >= {"0-0", "0-1"}


def test_any_host_for_a_standby_may_stop_it_for_nothing() -> None:
    """The rule is checked only after the stop."""
    world = AmInMemory()
    world.am.cluster.any_host = world.am.cluster.places["0"]
    asked = world.by_others("0-0", "ANY_HOST")
    world.run(20)
    assert world.statuses(asked)[-1] == ("FAILED", FALLS_BACK.format("nm1"))
    assert [processor for processor, _ in world.am.stops] == ["0-0"]
    assert world.am.cluster.places["0-0"] == "nm2"


def test_a_container_writes_its_host_some_seconds_after_its_success() -> None:
    world = AmInMemory()
    asked = world.by_others("0", "nm3")
    world.run(14)
    written = list(world.store.written)
    assert world.statuses(asked)[-1][0] == "SUCCEEDED"
    assert written[-1].key.startswith(asked), "and nothing behind it yet"
    world.run(5)
    (then,) = world.store.written[len(written) :]
    assert (then.namespace, then.key) == (LOCALITY, "0")
    assert json.loads(then.value or b"")["values"]["host"] == "nm3"


def test_the_ninth_stop_in_a_row_ends_the_job() -> None:
    world = AmInMemory()
    for _ in range(8):
        world.by_others("1-0", "LAST_SEEN")
        world.run(15)
    last = world.by_others("1-0", "LAST_SEEN")
    world.run(15)
    assert world.am.failed == "the job has failed: 1-0 failed 9 times in a row"
    assert [status for status, _ in world.statuses(last)] == ["IN_PROGRESS", "IN_PROGRESS"]
