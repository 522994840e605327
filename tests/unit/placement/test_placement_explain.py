"""Dry runs: what a destination would meet, per host."""

from __future__ import annotations

import pytest

from samza_dagster.placement import events as ev
from samza_dagster.placement import rules
from samza_dagster.placement.explain import explain
from samza_dagster.placement.state import Phase
from samza_dagster.simulation.steps import handle
from tests.unit.placement.scenes import ask, running

pytestmark = pytest.mark.unit


def test_a_free_host_is_legal() -> None:
    """Whether it has room only the cluster knows."""
    explanation = explain(running().state, "0", "host-3")
    assert explanation.legal
    assert str(explanation) == "host-3: legal"


def test_a_refusal_has_rule_sight_and_change() -> None:
    """The text of the response is made of these."""
    explanation = explain(running().state, "0", "host-2")
    [candidate] = explanation.candidates
    assert not explanation.legal
    assert candidate.rule == rules.SAME_HOST
    assert candidate.seen == "0-0 of the same group is running on host-2"
    assert candidate.change == "move 0-0 to another host first"


def test_any_host_lists_every_host() -> None:
    """Where it is and where its group is are out; two are left."""
    explanation = explain(running().state, "0", "ANY_HOST")
    told = {candidate.host: candidate.rule for candidate in explanation.candidates}
    assert told == {
        "host-1": rules.ANOTHER_HOST,
        "host-2": rules.SAME_HOST,
        "host-3": "",
        "host-4": "",
    }


@pytest.mark.parametrize("word", ["LAST_SEEN", "FORCE_RESTART_LAST_SEEN"])
def test_a_restart_is_about_the_host_where_it_is(word: str) -> None:
    """One candidate."""
    [candidate] = explain(running().state, "0", word).candidates
    assert (candidate.host, candidate.legal) == ("host-1", True)


@pytest.mark.parametrize(
    ("processor_id", "destination", "seen"),
    [
        ("7", "host-1", "no processor 7 in this job"),
        ("0", "nm9", "unknown destination host nm9; known hosts: host-1, host-2, host-3, host-4"),
    ],
)
def test_what_is_unknown_is_said(processor_id: str, destination: str, seen: str) -> None:
    """With what would do instead."""
    explanation = explain(running().state, processor_id, destination)
    assert not explanation.legal
    assert explanation.candidates[0].seen == seen
    assert explanation.candidates[0].change


def test_standby_as_a_destination_is_about_the_hosts_of_its_standbys() -> None:
    """Those that run; what another one lacks is said."""
    world = running()
    [candidate] = explain(world.state, "0", "STANDBY").candidates
    assert (candidate.host, candidate.legal) == ("host-2", True)
    world.crash("0-0")
    world.until(lambda: world.phases()["0-0"] is Phase.STARTING)
    [candidate] = explain(world.state, "0", "STANDBY").candidates
    assert candidate.seen == "0-0 on host-2 is starting"
    assert candidate.change == "wait until 0-0 runs"


def test_a_lost_host_is_named_as_lost() -> None:
    """It may be back before the request expires, so it isn't a bad request."""
    world = running()
    handle(world, ev.HostLost(world.now_ms, "host-3", world.now_ms))
    [candidate] = explain(world.state, "0", "host-3").candidates
    assert candidate.rule == rules.HOST_ALIVE


def test_a_pending_move_takes_its_destination_already() -> None:
    """Two members can't be promised one host."""
    world = running()
    world.submit(ask("0", "host-3"))
    [candidate] = explain(world.state, "0-0", "host-3").candidates
    assert candidate.seen == "0 of the same group has requested host-3"
