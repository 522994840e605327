"""As `test_invariants`: what a request does to a container, in which order, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    AskKind,
    Limits,
    Phase,
    PlacementAsk,
    Stage,
)
from tests.unit.simulation.histories import (
    History,
    acting,
    execution,
    process,
    requesting,
    respond,
    running,
    violated,
)

pytestmark = pytest.mark.unit

STOP = cmd.StopContainer("0", execution("0", 1), "host-1")
STOPPING = replace(running("0", 1, "host-1"), phase=Phase.STOPPING, deadline_ms=60_000)


@pytest.fixture
def history() -> History:
    return History().settled()


# -- reserve-before-stop -----------------------------------------------------------------


def stop_for_the_move(history: History) -> None:
    history.take(
        ev.ResourceAllocated(2_000, "r-move", "host-3"),
        STOP,
        processors=(STOPPING,),
    )


def starts_at_the_destination(history: History, ask: PlacementAsk, to: str = "host-3") -> None:
    """The move has stopped the container."""
    history.begin(ask)
    stop_for_the_move(history)
    history.dies("0", 1, "host-1")
    history.start("0", 3, to)


def test_a_stop_before_anything_is_held_is_found(history: History) -> None:
    """The container ran, and nothing waits for it."""
    history.begin(history.asks("u-1", "host-3"))
    with violated("reserve-before-stop"):
        history.take(
            ev.TimePassed(2_000),
            STOP,
            processors=(STOPPING,),
        )


# -- failure-leaves-running --------------------------------------------------------------


def test_a_failure_that_stops_the_container_is_found(history: History) -> None:
    """Nothing was held in time, and it is stopped all the same."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    history.take(ev.ResourceAllocated(2_000, "r-move", "host-3"))
    with violated("failure-leaves-running"):
        history.take(
            ev.TimePassed(3_000),
            respond(ask, "FAILED", "expired"),
            STOP,
            processors=(STOPPING,),
            action=None,
        )


def start_fails(history: History, ask: PlacementAsk, back_to: str | None) -> None:
    history.take(
        ev.StartFailed(4_000, execution("0", 3), "host-3", "no memory"),
        cmd.RecordCertificate(history.end_record("0", 3, "host-3", "dead")),
        respond(ask, "FAILED", "start failed"),
        processors=(requesting("0", back_to),),
        action=acting(ask, Stage.FALLBACK_SOURCE),
    )


def fails_at_the_destination(history: History, ask: PlacementAsk, back_to: str | None) -> None:
    """The move stopped the container, and its start on host-3 failed."""
    starts_at_the_destination(history, ask)
    start_fails(history, ask, back_to)
    history.take(
        ev.TimePassed(4_100), cmd.RequestResource("r-back", "0", back_to, (), 384, 1, 5_000)
    )


def test_the_way_back_that_passes_the_source_by_is_found(history: History) -> None:
    """The source host is alive and legal, and any host is asked for."""
    with violated("failure-leaves-running", "host-1"):
        fails_at_the_destination(history, history.asks("u-1", "host-3"), None)


@pytest.mark.parametrize("gives_back_first", [False, True])
def test_what_is_given_back_after_the_way_back_was_asked_for_was_in_its_way(
    history: History, gives_back_first: bool
) -> None:
    """A standby's request for the source host; one that is given back before it is none any more."""
    ask = history.asks("u-1", "host-3")
    starts_at_the_destination(history, ask)
    history.dies("0-0", 2, "host-2")
    standby = requesting("0-0", "host-1")
    assert standby.request is not None
    wanted = replace(standby.request, request_id="r-standby")
    history.take(ev.TimePassed(3_900), processors=(replace(standby, request=wanted),))
    way_back = cmd.RequestResource("r-back", "0", None, (), 384, 1, 5_000)
    given_back = cmd.ReleaseResource("r-standby")
    moves = (given_back, way_back) if gives_back_first else (way_back, given_back)

    with violated("failure-leaves-running", "host-1") if gives_back_first else nullcontext():
        start_fails(history, ask, "host-1")
        history.take(ev.TimePassed(4_100), *moves, processors=(requesting("0"), requesting("0-0")))


def test_a_failure_after_which_nothing_leads_on_is_found(history: History) -> None:
    """FAILED, the container is down, and nobody asks for a resource."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    stop_for_the_move(history)
    with violated("failure-leaves-running"):
        history.take(
            ev.TimePassed(3_000),
            respond(ask, "FAILED", "?"),
            processors=(replace(requesting("0"), request=None),),
            action=None,
        )


# -- one-action --------------------------------------------------------------------------


def test_a_second_action_in_a_group_is_found(history: History) -> None:
    """One lock for an active and all its standbys."""
    history.begin(history.asks("u-1", "host-3"))
    with violated("one-action", "during"):
        history.begin(history.asks("u-2", "host-3", pid="0-0"))


def test_a_younger_request_that_goes_first_is_found(history: History) -> None:
    """The queue is in order of the requests' own timestamps."""
    history.waits(history.asks("u-1", naming.ANY_HOST, at=1))
    with violated("one-action", "older"):
        history.begin(history.asks("u-2", "host-3", at=2))


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (Limits(max_concurrent_actions=0), "one more than 0"),  # over all groups
        (Limits(max_actions_per_host=0), "host-"),  # source and named destination count
    ],
)
def test_more_actions_than_are_allowed_are_found(limits: Limits, what: str) -> None:
    """Of the job, and of a host."""
    history = History(limits=limits).settled()
    with violated("one-action", what):
        history.begin(history.asks("u-1", "host-3"))


def test_an_action_while_the_last_one_falls_back_is_found(history: History) -> None:
    """FAILED isn't the end of the lock: the container has to run first."""
    ask = history.asks("u-1", "host-3")
    fails_at_the_destination(history, ask, "host-1")
    with violated("one-action", "isn't back"):
        history.begin(history.asks("u-2", "host-3"))


# -- acted-once --------------------------------------------------------------------------


def moved(history: History, ask: PlacementAsk, *, to: str, said: str) -> None:
    """The whole move; the container checks in on `to`."""
    starts_at_the_destination(history, ask, to)
    history.truth.live.append(process("0", 3, to))
    history.take(
        ev.ContainerCheckedIn(4_000, execution("0", 3), to),
        respond(ask, "SUCCEEDED", said),
        processors=(running("0", 3, to),),
        action=None,
    )


def test_a_success_on_another_host_is_found(history: History) -> None:
    """Asked was host-3."""
    with violated("acted-once", "on host-1"):
        moved(history, history.asks("u-1", "host-3"), to="host-1", said="runs on host-1")


def test_a_success_that_names_another_host_is_found(history: History) -> None:
    """The text is read by people."""
    with violated("acted-once", "says"):
        moved(history, history.asks("u-1", "host-3"), to="host-3", said="runs on host-7")


def test_a_success_before_the_check_in_is_found(history: History) -> None:
    """A start that was commanded is not a container that runs."""
    ask = history.asks("u-1", "host-3")
    starts_at_the_destination(history, ask)
    with violated("acted-once", "checked in"):
        history.take(
            ev.ContainerLaunched(4_000, execution("0", 3), "host-3"),
            respond(ask, "SUCCEEDED", "host-3"),
            action=None,
        )


def test_a_standby_that_is_said_to_be_gone_and_lives_is_found(history: History) -> None:
    """Stopped means dead."""
    ask = history.asks("u-1", "", pid="0-0", kind=AskKind.STOP_STANDBY)
    history.take(
        ev.RequestArrived(2_000, ask),
        cmd.DeleteRequest("u-1"),
        respond(ask, "IN_PROGRESS"),
        action=acting(ask, Stage.STOPPING),
    )
    with violated("acted-once", "gone"):
        history.take(
            ev.TimePassed(3_000), respond(ask, "SUCCEEDED", "gone"), without="0-0", action=None
        )


def cancelled(history: History, ask: PlacementAsk) -> None:
    """A cancel of the request that says it was in time."""
    cancel = history.asks("u-9", "", kind=AskKind.CANCEL, refers_to=ask.uuid)
    history.take(
        ev.RequestArrived(history.now_ms, cancel),
        cmd.DeleteRequest("u-9"),
        respond(ask, "FAILED", "cancelled"),
        respond(cancel, "SUCCEEDED", "is cancelled"),
        action=None,
    )


def test_a_cancel_once_the_container_was_stopped_for_the_move_is_found(history: History) -> None:
    """Too late, also when it is dead by now."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    stop_for_the_move(history)
    history.dies("0", 1, "host-1")
    with violated("acted-once", "too late"):
        cancelled(history, ask)


def test_a_cancel_is_in_time_when_only_a_dead_container_was_stopped(history: History) -> None:
    """Its host registered before it had forgotten it, and is told again."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    history.dies("0", 1, "host-1")
    history.take(
        ev.HostRegistered(history.now_ms, "host-1", frozenset({execution("0", 1)})),
        STOP,
    )
    cancelled(history, ask)
    assert history.judge.premises["acted-once"] == 2  # both have their outcome


def test_a_second_outcome_is_found(history: History) -> None:
    """The first stands."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    history.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    with violated("acted-once", "follows"):
        history.take(ev.TimePassed(3_000), respond(ask, "FAILED", "expired"))


def test_bad_request_after_accepted_is_found(history: History) -> None:
    """What was accepted ends in SUCCEEDED or FAILED."""
    ask = history.asks("u-1", "host-3")
    history.waits(ask)
    with violated("acted-once", "BAD_REQUEST"):
        history.take(ev.TimePassed(2_000), respond(ask, "BAD_REQUEST"), queue=())


def test_an_answer_to_nobody_is_found(history: History) -> None:
    """No request, no response."""
    with violated("acted-once", "never taken"):
        history.take(ev.TimePassed(2_000), respond(history.asks("u-9", "host-3"), "FAILED"))


def test_an_action_that_begins_twice_is_found(history: History) -> None:
    """Its outcome is written, and the lock is taken for it anew."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    history.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    with violated("acted-once", "second time"):
        history.take(ev.TimePassed(3_000), action=acting(ask, Stage.RESERVING))


# -- other-deployment, and what is known already -----------------------------------------


def stale(history: History) -> PlacementAsk:
    """It belongs to a run that is over."""
    return replace(history.asks("u-1", "host-3"), deployment_id="run-0")


def duplicate(history: History) -> PlacementAsk:
    """The key on the stream is one: an answer would overwrite the first."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    return ask


ONLY_REMOVED = [(duplicate, "acted-once"), (stale, "other-deployment")]


@pytest.mark.parametrize(("asks", "invariant"), ONLY_REMOVED)
def test_a_duplicate_and_a_stale_request_are_only_removed(
    history: History, asks: Callable[[History], PlacementAsk], invariant: str
) -> None:
    """One that is answered is found, and one that stays on the stream."""
    ask = asks(history)
    branches = [history.forked() for _ in range(2)]
    history.take(ev.RequestArrived(2_000, ask), cmd.DeleteRequest("u-1"))
    assert history.judge.premises[invariant] == 1
    with violated(invariant):
        branches[0].take(
            ev.RequestArrived(2_000, ask), cmd.DeleteRequest("u-1"), respond(ask, "BAD_REQUEST")
        )
    with violated(invariant, "isn't removed"):
        branches[1].take(ev.RequestArrived(2_000, ask))
