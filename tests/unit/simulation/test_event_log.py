"""A log of events steps the reducer through the same states again, or says where it doesn't."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest

from samza_dagster.coordinator.recording import encode_event
from samza_dagster.errors import MalformedRecord
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import events as ev
from samza_dagster.placement.codec import state_digest
from samza_dagster.placement.state import Lag, Limits, PlacementAsk
from tests.simulation.driver import simulate
from tests.simulation.event_log import decode_event, replay_log
from tests.simulation.script import play

pytestmark = pytest.mark.unit

EVENTS: tuple[ev.Event, ...] = (
    ev.JobDeployed(1, "run-1", {"0": ("0", "0-0")}, {"0": "host-1"}, Limits(lease_ms=7)),
    ev.CoordinatorRestarted(2),
    ev.RequestArrived(
        3, PlacementAsk("u", "run-1", "0", "ANY_HOST", 5, None, RequestKind.CANCEL, True, "v", True)
    ),
    ev.RequestRefused(3, "u"),
    ev.HostRegistered(4, "host-1", frozenset({"b", "a"}), "rack-1"),
    ev.HostLost(5, "host-1", 3),
    ev.ResourceAllocated(6, "r", "host-1"),
    ev.RequestExpired(7, "r", "full"),
    ev.ContainerLaunched(8, "e", "host-1"),
    ev.ContainerCheckedIn(9, "e", "host-1"),
    ev.StartFailed(10, "e", "host-1", "no memory"),
    ev.ContainerStopped(11, "e", "host-1", None),
    ev.StopFailed(12, "e", "host-1", "lives on"),
    ev.PrincipalFenced(13, "e"),
    ev.LagObserved(14, (Lag("0-0", 5, None, 1),)),
    ev.StandbyStalled(14, "e1", "it stands at 3"),
    ev.TimePassed(15),
)


def test_every_kind_of_event_is_known() -> None:
    """A new one needs a line here, and nothing in the codec."""
    assert {type(event) for event in EVENTS} == set(get_args(ev.Event))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_json(event: ev.Event) -> None:
    """Through text, as a log holds it."""
    assert decode_event(json.loads(json.dumps(encode_event(event)))) == event


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"kind": "Nothing"},
        {"kind": "TimePassed"},
        {"kind": "TimePassed", "at_ms": "1"},
        {"kind": "TimePassed", "at_ms": True},
        {"kind": "TimePassed", "at_ms": 1, "more": 1},
        {"kind": "RequestArrived", "at_ms": 1, "ask": {"uuid": 1}},
        {"kind": "HostRegistered", "at_ms": 1, "host": "h", "execution_ids": "e"},
    ],
)
def test_a_malformed_event_is_refused(value: dict[str, object]) -> None:
    """No guess at what it may have meant."""
    with pytest.raises(MalformedRecord):
        decode_event(value)


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "event": 1}'])
def test_a_malformed_line_is_named(line: str) -> None:
    """By its number."""
    with pytest.raises(MalformedRecord, match="line 1"):
        replay_log([line])


def test_a_digest_leaves_out_what_is_derived() -> None:
    """The index can be rebuilt; everything else counts."""
    state = play(simulate(11, 60).script.setup, ()).world.committed
    assert state_digest(state) == state_digest(dataclasses.replace(state))
    assert state_digest(state) != state_digest(dataclasses.replace(state, next_epoch=99))


def test_a_log_without_an_event_is_refused() -> None:
    """It told that every state was the same."""
    with pytest.raises(MalformedRecord, match="no event"):
        replay_log([])
