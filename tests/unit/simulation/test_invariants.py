"""No judge is blind: each invariant has a history that breaks it, and is found.

Here those of processes and their owners. That none is found where nothing is broken is what
thousands of drawn histories show (`tests/simulation`); here only what they seldom come to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    Failover,
    Fencing,
    Limits,
    Phase,
)
from samza_dagster.simulation.judges.violation import INVARIANTS
from tests.unit.simulation.histories import (
    History,
    execution,
    process,
    requesting,
    respond,
    running,
    violated,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def history() -> History:
    return History().settled()


# -- same-host ---------------------------------------------------------------------------


def test_two_of_a_group_on_one_host_are_found(history: History) -> None:
    """The processes alone tell it, whatever the state says."""
    history.truth.live.append(process("0-1", 9, "host-1"))
    with violated("same-host"):
        history.judge.world_changed(history.truth)


def test_a_start_beside_another_of_its_group_is_found_before_it_leaves(history: History) -> None:
    """The command is enough: no process need exist yet."""
    with violated("same-host"):
        history.start("0-1", 9, "host-2")


def tells(history: History, host: str, rack: str) -> None:
    """The host registers with this fault domain."""
    event = ev.HostRegistered(history.now_ms, host, frozenset(), rack)
    history.take_state(event, history.state)


def test_two_of_a_group_in_one_fault_domain_are_found() -> None:
    """Where domains are known, they count as hosts do."""
    history = History()
    tells(history, "host-1", "rack-1")
    tells(history, "host-2", "rack-1")
    history.start("0", 1, "host-1")
    history.truth.live = [process("0", 1, "host-1", fault_domain="rack-1")]
    history.judge.world_changed(history.truth)
    history.start("0-0", 2, "host-2")
    history.truth.live.append(process("0-0", 2, "host-2", fault_domain="rack-1"))
    with violated("same-host", "rack-1"):
        history.judge.world_changed(history.truth)


def test_a_host_may_tell_a_members_fault_domain_once_both_have_started() -> None:
    """Nobody can have known: what runs there isn't stopped for it."""
    history = History()
    tells(history, "host-1", "rack-1")
    tells(history, "host-2", "rack-2")
    history.start("0", 1, "host-1")
    history.truth.live = [process("0", 1, "host-1", fault_domain="rack-1")]
    history.start("0-0", 2, "host-2")
    history.truth.live.append(process("0-0", 2, "host-2", fault_domain="rack-1"))
    tells(history, "host-2", "rack-1")
    history.judge.world_changed(history.truth)


# -- standby-dead-first ------------------------------------------------------------------


def stop_the_standby(history: History) -> None:
    history.truth.live = [replace(p, stopping=p.epoch == 2) for p in history.truth.live]
    history.take(
        ev.TimePassed(2_000),
        cmd.StopContainer("0-0", execution("0-0", 2), "host-2"),
        processors=(replace(running("0-0", 2, "host-2"), phase=Phase.STOPPING, deadline_ms=9),),
        failover=Failover("0", "0-0", "host-2", 2_000, "0 died"),
    )


def test_an_active_where_its_standby_still_dies_is_found(history: History) -> None:
    """The standby was told to stop; its process is alive."""
    history.dies("0", 1, "host-1")
    stop_the_standby(history)
    with violated("standby-dead-first"):
        history.start("0", 3, "host-2")


# -- one-owner ---------------------------------------------------------------------------


def lost_on_host_1(history: History, *, last_grant_ms: int = 1_000) -> None:
    history.take(
        ev.HostLost(2_000, "host-1", last_grant_ms),
        cmd.RequestResource("r-open", "0", None, (), 384, 1, 5_000),
        processors=(requesting("0"),),
    )


def ends(history: History, how: str, *, at_ms: int) -> None:
    history.now_ms = at_ms
    history.take(
        ev.TimePassed(at_ms), cmd.RecordCertificate(history.end_record("0", 1, "host-1", how))
    )


@pytest.mark.parametrize("how", ["dead", "fenced"])
def test_an_end_that_the_world_does_not_show_is_found(history: History, how: str) -> None:
    """The process lives, and its principal still writes."""
    with violated("one-owner", how):
        ends(history, how, at_ms=2_000)


def test_a_lease_taken_for_over_too_early_is_found(history: History) -> None:
    """A lease and its bound after the last grant, and not one millisecond less."""
    lost_on_host_1(history, last_grant_ms=1_500)
    history.truth.live = [replace(p, frozen=True) for p in history.truth.live]
    with violated("one-owner", "lease"):
        ends(history, "lease", at_ms=35_499)


def test_a_lease_that_is_over_frees_the_tasks_of_a_frozen_host(history: History) -> None:
    """The one overlap that fencing by lease can't exclude."""
    lost_on_host_1(history, last_grant_ms=1_500)
    history.truth.live = [replace(p, frozen=p.epoch == 1) for p in history.truth.live]
    ends(history, "lease", at_ms=35_500)
    history.start("0", 3, "host-3")
    history.run("0", 3, "host-3")
    assert history.judge.premises["one-owner"] > 0


def test_a_new_term_counts_leases_from_its_own_begin(history: History) -> None:
    """What the leader before granted, this one doesn't know."""
    lost_on_host_1(history, last_grant_ms=1_500)
    history.truth.live = [replace(p, frozen=True) for p in history.truth.live]
    restarted = step(history.state, ev.CoordinatorRestarted(9_000))
    history.take_state(ev.CoordinatorRestarted(9_000), restarted.state, *restarted.commands)
    with violated("one-owner", "lease"):
        ends(history, "lease", at_ms=42_999)


def test_two_owners_on_hosts_that_both_run_are_found(history: History) -> None:
    """Nobody was frozen, so nothing excuses it."""
    history.truth.live.append(process("0", 9, "host-3"))
    with violated("one-owner"):
        history.judge.world_changed(history.truth)


def test_two_owners_are_found_whatever_was_frozen_where_brokers_fence() -> None:
    """With a fence at the brokers there is no overlap at all."""
    history = History(limits=Limits(fencing=Fencing.BROKER)).settled()
    lost_on_host_1(history)
    history.truth.live = [replace(p, frozen=p.epoch == 1) for p in history.truth.live]
    ends(history, "lease", at_ms=60_000)
    history.start("0", 3, "host-3")
    with violated("one-owner"):
        history.run("0", 3, "host-3")


def test_a_start_while_nothing_says_how_the_one_before_ended_is_found(history: History) -> None:
    """Its predecessor has no end on record."""
    lost_on_host_1(history)
    history.end_record("0", 1, "host-1", "fenced")
    history._last = history._ends["0"]
    with violated("one-owner"):
        history.start("0", 3, "host-3")


def altered(history: History) -> None:
    record = replace(history.start_record("0", 3, "host-3"), why="another reason")
    history.take(ev.TimePassed(2_000), cmd.RecordCertificate(record))


def without_its_neighbours(history: History) -> None:
    record = replace(history._record("0", 3, "host-3"), others=())
    history.take(ev.TimePassed(2_000), cmd.RecordCertificate(history.chained(record)))


def without_its_predecessor(history: History) -> None:
    history._ends.clear()
    history.start("0", 3, "host-3")


def under_an_epoch_that_does_not_grow(history: History) -> None:
    history.start("0", 2, "host-3")


def in_a_broken_chain(history: History) -> None:
    history._last = None
    history.start("0", 3, "host-3")


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (altered, "digest"),  # it covers every field
        (without_its_neighbours, "doesn't say"),  # the group's other live processes
        (without_its_predecessor, "predecessor"),
        (under_an_epoch_that_does_not_grow, "epoch"),  # none of the job comes twice
        (in_a_broken_chain, "doesn't follow"),  # each carries the hash of the one before
    ],
)
def test_a_start_whose_record_is_wrong_is_found(
    history: History, start: Callable[[History], None], what: str
) -> None:
    """After a death that was seen."""
    history.dies("0", 1, "host-1")
    with violated("one-owner", what):
        start(history)


def test_a_start_without_a_record_is_found(history: History) -> None:
    """No certificate, no start."""
    history.dies("0", 1, "host-1")
    with violated("one-owner", "unrecorded"):
        history.take(
            ev.ResourceAllocated(2_000, "r", "host-3"),
            cmd.StartContainer("0", execution("0", 3), "host-3", "r"),
            processors=(replace(running("0", 3, "host-3"), phase=Phase.STARTING, deadline_ms=9),),
        )


# -- the judge itself --------------------------------------------------------------------


def test_a_judge_that_was_forked_forgets_nothing_and_shares_nothing(history: History) -> None:
    """Both branches of a history are judged by what came before."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    twin = history.forked()
    history.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    twin.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    with violated("acted-once"):
        twin.take(ev.TimePassed(3_000), respond(ask, "FAILED", "expired"))


def test_every_invariant_has_a_history_here() -> None:
    """Ten, each broken at least once."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_invariants*.py"))
    assert all(text.count(f'"{name}"') >= 1 for name in INVARIANTS)
