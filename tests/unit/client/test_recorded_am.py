"""The recorded AM answers every recorded request as the real one did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import BACK_S, FALLS_BACK, LOCALITY, WIRE

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


def test_a_request_that_was_answered_isnt_answered_again() -> None:
    world = AmInMemory()
    first = world.by_others("1-0", "LAST_SEEN")
    world.run(20)
    world.by_others("1-0", "LAST_SEEN", again=first)
    world.run(20)
    assert [status for status, _ in world.statuses(first)][-2:] == ["SUCCEEDED", "BAD_REQUEST"]


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


@pytest.mark.parametrize(
    ("processor", "fields"),
    [("7", {}), ("0", {"statusCode": None}), ("0", {"timestamp": None}), ("0", {"uuid": "no-uuid"})],
)  # fmt: skip
def test_nobody_is_served_behind_a_record_at_which_the_am_throws(
    processor: str, fields: dict[str, Any]
) -> None:
    """Until its key is deleted; an unknown processor stops those that were asked later alone."""
    world = AmInMemory()
    poison = world.by_others(processor, "nm3", **fields)
    good = world.by_others("1-0", "LAST_SEEN", timestamp=2_000_000_000_000)
    world.run(60)
    assert world.statuses(good) == []
    world.store.remove("samza-place-container-v1", f"{poison}.ContainerPlacementRequestMessage")
    world.run(20)
    assert world.statuses(good)[-1][0] == "SUCCEEDED"


@pytest.mark.parametrize("processor", ["0", "7-0"])
def test_a_request_for_what_doesnt_run_waits_without_a_word(processor: str) -> None:
    world = AmInMemory()
    world.am.cluster.down.add("0")
    asked = world.by_others(processor, "nm3")
    world.run(120)
    assert world.statuses(asked) == []


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


def test_a_forced_restart_is_done_before_it_is_and_is_back_later() -> None:
    world = AmInMemory()
    asked = world.by_others("0", "FORCE_RESTART_LAST_SEEN")
    world.run(6)
    assert [status for status, _ in world.statuses(asked)] == ["SUCCEEDED"]
    assert world.am.cluster.down == {"0"}
    world.run(BACK_S)
    assert world.am.cluster.down == set()


def test_without_host_affinity_no_host_is_told_and_any_is_taken() -> None:
    world = AmInMemory(affinity=False)
    world.am.cluster.any_host = "nm4"
    asked = world.by_others("0", "nm3")
    before = len(world.store.written)
    world.run(20)
    assert world.statuses(asked)[-1][0] == "SUCCEEDED"
    assert world.am.cluster.places["0"] == "nm4"
    assert LOCALITY not in {change.namespace for change in world.store.written[before:]}


def test_a_new_attempt_of_the_am_knows_nothing_of_what_was_asked() -> None:
    """What it hadn't taken is deleted, what it had stays without an end; then it serves again."""
    world = AmInMemory()
    taken = world.by_others("0", "nm3")
    world.run(6)
    waiting = world.by_others("0-0", "nm4")
    world.am.replaced("2-new")
    world.run(60)
    assert world.statuses(taken)[-1][0] == "IN_PROGRESS"
    assert world.statuses(waiting) == []
    assert (
        world.store.get("samza-place-container-v1", f"{waiting}.ContainerPlacementRequestMessage")
        is None
    )
    assert world.client.view().deployment_id == "2-new"
    again = world.by_others("0", "nm3")
    world.run(20)
    assert world.statuses(again)[-1][0] == "SUCCEEDED"


def test_the_ninth_stop_in_a_row_ends_the_job() -> None:
    world = AmInMemory()
    for _ in range(8):
        world.by_others("1-0", "LAST_SEEN")
        world.run(15)
    last = world.by_others("1-0", "LAST_SEEN")
    world.run(15)
    assert world.am.failed == "the job has failed: 1-0 failed 9 times in a row"
    assert [status for status, _ in world.statuses(last)] == ["IN_PROGRESS", "IN_PROGRESS"]
