"""No judge is blind: each invariant has a history that breaks it and is found, and one that keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    AskKind,
    Failover,
    Fencing,
    Limits,
    Phase,
    PlacementAsk,
    Processor,
    Role,
    Stage,
)
from samza_dagster.simulation.judges import invariants
from samza_dagster.simulation.judges.violation import INVARIANTS, InvariantViolated
from tests.unit.simulation.histories import (
    History,
    acting,
    execution,
    process,
    requesting,
    respond,
    running,
)

pytestmark = pytest.mark.unit


@contextmanager
def violated(invariant: str, what: str | None = None) -> Iterator[None]:
    """Exactly this invariant is found broken."""
    with pytest.raises(InvariantViolated, match=what) as found:
        yield
    assert found.value.invariant == invariant


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


def test_groups_may_share_a_host(history: History) -> None:
    """Two actives of different groups on one host are legal."""
    history.truth.live.append(process("1", 9, "host-1"))
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


def test_an_active_starts_where_its_standby_has_died(history: History) -> None:
    """A failover as it should be."""
    history.dies("0", 1, "host-1")
    stop_the_standby(history)
    history.dies("0-0", 2, "host-2")
    history.start("0", 3, "host-2")
    history.run("0", 3, "host-2")
    assert history.judge.premises["standby-dead-first"] == 1


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


def test_an_end_that_the_world_does_not_show_is_found(history: History) -> None:
    """A record says dead; the process lives."""
    with violated("one-owner", "dead"):
        ends(history, "dead", at_ms=2_000)


def test_a_fence_that_the_brokers_never_made_is_found(history: History) -> None:
    """A record says fenced; the principal still writes."""
    with violated("one-owner", "fenced"):
        ends(history, "fenced", at_ms=2_000)


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


def test_a_start_that_hides_its_predecessor_is_found(history: History) -> None:
    """The certificate names the incarnation before, or lies."""
    history.dies("0", 1, "host-1")
    history._ends.clear()
    with violated("one-owner", "predecessor"):
        history.start("0", 3, "host-3")


def test_a_start_while_nothing_says_how_the_one_before_ended_is_found(history: History) -> None:
    """Its predecessor has no end on record."""
    lost_on_host_1(history)
    history.end_record("0", 1, "host-1", "fenced")
    history._last = history._ends["0"]
    with violated("one-owner"):
        history.start("0", 3, "host-3")


def test_an_epoch_that_does_not_grow_is_found(history: History) -> None:
    """Epochs belong to the job: none comes twice."""
    history.dies("0", 1, "host-1")
    with violated("one-owner", "epoch"):
        history.start("0", 2, "host-3")


def test_a_broken_chain_is_found(history: History) -> None:
    """Each record carries the hash of the one before."""
    history.dies("0", 1, "host-1")
    history._last = None
    with violated("one-owner", "doesn't follow"):
        history.start("0", 3, "host-3")


def test_a_record_that_was_altered_is_found(history: History) -> None:
    """The digest covers every field."""
    history.dies("0", 1, "host-1")
    record = replace(history.start_record("0", 3, "host-3"), why="another reason")
    with violated("one-owner", "digest"):
        history.take(ev.TimePassed(2_000), cmd.RecordCertificate(record))


def test_a_start_that_hides_its_neighbours_is_found(history: History) -> None:
    """The certificate lists the group's other live processes."""
    history.dies("0", 1, "host-1")
    record = replace(history._record("0", 3, "host-3"), others=())
    with violated("one-owner", "doesn't say"):
        history.take(ev.TimePassed(2_000), cmd.RecordCertificate(history.chained(record)))


def test_a_start_without_a_record_is_found(history: History) -> None:
    """No certificate, no start."""
    history.dies("0", 1, "host-1")
    with violated("one-owner", "unrecorded"):
        history.take(
            ev.ResourceAllocated(2_000, "r", "host-3"),
            cmd.StartContainer("0", execution("0", 3), "host-3", "r"),
            processors=(replace(running("0", 3, "host-3"), phase=Phase.STARTING, deadline_ms=9),),
        )


# -- reserve-before-stop -----------------------------------------------------------------


def stop_for_the_move(history: History) -> None:
    history.take(
        ev.ResourceAllocated(2_000, "r-move", "host-3"),
        cmd.StopContainer("0", execution("0", 1), "host-1"),
        processors=(replace(running("0", 1, "host-1"), phase=Phase.STOPPING, deadline_ms=60_000),),
    )


def test_a_stop_before_anything_is_held_is_found(history: History) -> None:
    """The container ran, and nothing waits for it."""
    history.begin(history.asks("u-1", "host-3"))
    with violated("reserve-before-stop"):
        history.take(
            ev.TimePassed(2_000),
            cmd.StopContainer("0", execution("0", 1), "host-1"),
            processors=(
                replace(running("0", 1, "host-1"), phase=Phase.STOPPING, deadline_ms=60_000),
            ),
        )


def test_a_stop_once_the_destination_is_held_is_as_it_should_be(history: History) -> None:
    """Reserve, stop, move."""
    history.begin(history.asks("u-1", "host-3"))
    stop_for_the_move(history)
    assert history.judge.premises["reserve-before-stop"] == 1


def test_a_forced_restart_may_stop_first(history: History) -> None:
    """Its only meaning."""
    history.begin(history.asks("u-1", naming.FORCE_RESTART_LAST_SEEN))
    history.take(
        ev.TimePassed(2_000),
        cmd.StopContainer("0", execution("0", 1), "host-1"),
        processors=(replace(running("0", 1, "host-1"), phase=Phase.STOPPING, deadline_ms=60_000),),
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
            cmd.StopContainer("0", execution("0", 1), "host-1"),
            processors=(
                replace(running("0", 1, "host-1"), phase=Phase.STOPPING, deadline_ms=60_000),
            ),
            action=None,
        )


def fails_at_the_destination(history: History, ask: PlacementAsk, back_to: str | None) -> None:
    """The move stopped the container, and its start on host-3 failed."""
    history.begin(ask)
    stop_for_the_move(history)
    history.dies("0", 1, "host-1")
    history.start("0", 3, "host-3")
    failed = requesting("0", back_to)
    history.take(
        ev.StartFailed(4_000, execution("0", 3), "host-3", "no memory"),
        cmd.RecordCertificate(history.end_record("0", 3, "host-3", "dead")),
        respond(ask, "FAILED", "start failed"),
        processors=(failed,),
        action=acting(ask, Stage.FALLBACK_SOURCE),
    )
    history.take(
        ev.TimePassed(4_100), cmd.RequestResource("r-back", "0", back_to, (), 384, 1, 5_000)
    )


def test_the_way_back_that_passes_the_source_by_is_found(history: History) -> None:
    """The source host is alive and legal, and any host is asked for."""
    with violated("failure-leaves-running", "host-1"):
        fails_at_the_destination(history, history.asks("u-1", "host-3"), None)


def test_the_way_back_leads_to_the_source_host(history: History) -> None:
    """Untouched, or at the source, or anywhere, in this order."""
    fails_at_the_destination(history, history.asks("u-1", "host-3"), "host-1")
    assert history.judge.premises["failure-leaves-running"] == 1


@pytest.mark.parametrize("gives_back_first", [False, True])
def test_what_is_given_back_after_the_way_back_was_asked_for_was_in_its_way(
    history: History, gives_back_first: bool
) -> None:
    """A standby's request for the source host; one that is given back before it is none any more."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    stop_for_the_move(history)
    history.dies("0", 1, "host-1")
    history.start("0", 3, "host-3")
    history.dies("0-0", 2, "host-2")
    standby = requesting("0-0", "host-1")
    assert standby.request is not None
    wanted = replace(standby.request, request_id="r-standby")
    history.take(ev.TimePassed(3_900), processors=(replace(standby, request=wanted),))
    way_back = cmd.RequestResource("r-back", "0", None, (), 384, 1, 5_000)
    given_back = cmd.ReleaseResource("r-standby")
    moves = (given_back, way_back) if gives_back_first else (way_back, given_back)

    with violated("failure-leaves-running", "host-1") if gives_back_first else nullcontext():
        history.take(
            ev.StartFailed(4_000, execution("0", 3), "host-3", "no memory"),
            cmd.RecordCertificate(history.end_record("0", 3, "host-3", "dead")),
            respond(ask, "FAILED", "start failed"),
            processors=(requesting("0", "host-1"),),
            action=acting(ask, Stage.FALLBACK_SOURCE),
        )
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


def test_more_actions_than_the_job_allows_are_found() -> None:
    """The bound counts over all groups."""
    history = History(limits=Limits(max_concurrent_actions=0)).settled()
    with violated("one-action", "one more than 0"):
        history.begin(history.asks("u-1", "host-3"))


def test_more_actions_than_a_host_allows_are_found() -> None:
    """Source and named destination count."""
    history = History(limits=Limits(max_actions_per_host=0)).settled()
    with violated("one-action", "host-"):
        history.begin(history.asks("u-1", "host-3"))


def test_an_action_while_the_last_one_falls_back_is_found(history: History) -> None:
    """FAILED isn't the end of the lock: the container has to run first."""
    ask = history.asks("u-1", "host-3")
    fails_at_the_destination(history, ask, "host-1")
    with violated("one-action", "isn't back"):
        history.begin(history.asks("u-2", "host-3"))


def test_the_next_one_begins_when_the_last_has_ended(history: History) -> None:
    """Both in one step: the end comes first."""
    first, second = history.asks("u-1", "host-3"), history.asks("u-2", "host-3", at=5)
    history.begin(first)
    history.waits(second)
    history.take(
        ev.RequestExpired(2_000, "r-move", "late"),
        respond(first, "FAILED", "expired"),
        respond(second, "IN_PROGRESS", "reserving"),
        queue=(),
        action=acting(second, Stage.RESERVING, "host-3"),
    )
    assert history.judge.premises["one-action"] > 0


# -- acted-once --------------------------------------------------------------------------


def moved(history: History, ask: PlacementAsk, *, to: str, said: str) -> None:
    """The whole move; the container checks in on `to`."""
    history.begin(ask)
    stop_for_the_move(history)
    history.dies("0", 1, "host-1")
    history.start("0", 3, to)
    history.truth.live.append(process("0", 3, to))
    history.take(
        ev.ContainerCheckedIn(4_000, execution("0", 3), to),
        respond(ask, "SUCCEEDED", said),
        processors=(running("0", 3, to),),
        action=None,
    )


def test_a_move_that_succeeds_where_it_was_told_is_as_it_should_be(history: History) -> None:
    """Checked in, there, and the text says so."""
    moved(history, history.asks("u-1", "host-3"), to="host-3", said="runs on host-3")
    assert history.judge.premises["acted-once"] == 1


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
    history.begin(ask)
    stop_for_the_move(history)
    history.dies("0", 1, "host-1")
    history.start("0", 3, "host-3")
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
        cmd.StopContainer("0", execution("0", 1), "host-1"),
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


def test_a_duplicate_that_is_answered_again_is_found(history: History) -> None:
    """The key on the stream is one: an answer would overwrite the first."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    with violated("acted-once", "known"):
        history.take(
            ev.RequestArrived(2_000, ask), cmd.DeleteRequest("u-1"), respond(ask, "BAD_REQUEST")
        )


def test_a_duplicate_that_is_only_removed_is_as_it_should_be(history: History) -> None:
    """Removed, and nothing else."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    history.take(ev.RequestArrived(2_000, ask), cmd.DeleteRequest("u-1"))
    assert history.judge.premises["acted-once"] == 1


def test_a_duplicate_that_stays_on_the_stream_is_found(history: History) -> None:
    """Everything that was read is removed."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    with violated("acted-once", "isn't removed"):
        history.take(ev.RequestArrived(2_000, ask))


def test_an_action_that_begins_twice_is_found(history: History) -> None:
    """Its outcome is written, and the lock is taken for it anew."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    history.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    with violated("acted-once", "second time"):
        history.take(ev.TimePassed(3_000), action=acting(ask, Stage.RESERVING))


# -- other-deployment --------------------------------------------------------------------


def test_a_stale_request_that_is_answered_is_found(history: History) -> None:
    """It belongs to a run that is over."""
    ask = replace(history.asks("u-1", "host-3"), deployment_id="run-0")
    with violated("other-deployment"):
        history.take(
            ev.RequestArrived(2_000, ask), cmd.DeleteRequest("u-1"), respond(ask, "BAD_REQUEST")
        )


def test_a_stale_request_that_stays_on_the_stream_is_found(history: History) -> None:
    """It would be read by every container for ever."""
    ask = replace(history.asks("u-1", "host-3"), deployment_id="run-0")
    with violated("other-deployment", "isn't removed"):
        history.take(ev.RequestArrived(2_000, ask))


def test_a_stale_request_that_is_only_removed_is_as_it_should_be(history: History) -> None:
    """Removed, and nothing else."""
    ask = replace(history.asks("u-1", "host-3"), deployment_id="run-0")
    history.take(ev.RequestArrived(2_000, ask), cmd.DeleteRequest("u-1"))
    assert history.judge.premises["other-deployment"] == 1


# -- recovery-equivalent -----------------------------------------------------------------


def test_a_restart_that_decides_something_is_found(history: History) -> None:
    """It moves a processor on."""
    restarted = step(history.state, ev.CoordinatorRestarted(2_000)).state
    group = restarted.groups["0"]
    changed = replace(group, processors={**group.processors, "0": requesting("0")})
    with violated("recovery-equivalent"):
        history.take_state(
            ev.CoordinatorRestarted(2_000),
            replace(restarted, groups=restarted.groups.set("0", changed)),
        )


def test_a_restart_that_says_something_new_is_found(history: History) -> None:
    """An id that nobody has used before."""
    restarted = step(history.state, ev.CoordinatorRestarted(2_000))
    with violated("recovery-equivalent", "nobody said"):
        history.take_state(
            ev.CoordinatorRestarted(2_000),
            restarted.state,
            *restarted.commands,
            cmd.RequestResource("r-new", "0", None, (), 384, 1, 5_000),
        )


def test_a_restart_that_says_less_than_the_next_one_is_found(history: History) -> None:
    """Twice must be as once, to the last command."""
    history.begin(history.asks("u-1", "host-3"))
    restarted = step(history.state, ev.CoordinatorRestarted(2_000))
    assert restarted.commands
    with violated("recovery-equivalent", "second restart"):
        history.take_state(ev.CoordinatorRestarted(2_000), restarted.state)


def test_a_restart_that_says_everything_again_is_as_it_should_be(history: History) -> None:
    """The heart's own."""
    history.begin(history.asks("u-1", "host-3"))
    restarted = step(history.state, ev.CoordinatorRestarted(2_000))
    history.take_state(ev.CoordinatorRestarted(2_000), restarted.state, *restarted.commands)
    assert history.judge.premises["recovery-equivalent"] == 1


# -- nothing-forgotten -------------------------------------------------------------------


def test_a_processor_for_which_nothing_is_under_way_is_found(history: History) -> None:
    """It asks for a resource, and there is no request."""
    with violated("nothing-forgotten", "nothing leads on"):
        history.take(ev.TimePassed(2_000), processors=(replace(requesting("0"), request=None),))


def test_a_turn_that_nobody_has_is_found(history: History) -> None:
    """Everybody waits for somebody else."""
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING)
    with violated("nothing-forgotten", "turn"):
        history.take(ev.TimePassed(2_000), processors=(waiting,))


def test_a_deadline_that_nothing_wakes_up_for_is_found(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's next deadline is after the group's own."""
    monkeypatch.setattr(invariants, "next_deadline_ms", lambda _state: 9_001)
    with violated("nothing-forgotten", "next deadline"):
        history.take(ev.TimePassed(2_000), processors=(requesting("0", deadline_ms=9_000),))


def test_a_process_that_counts_as_alive_on_a_lost_host_is_found(history: History) -> None:
    """Once the host is lost, the way on begins."""
    hosts = history.state.hosts.set("host-1", replace(history.state.hosts["host-1"], alive=False))
    history.state = replace(history.state, hosts=hosts)
    with violated("nothing-forgotten", "lost"):
        history.take(ev.HostLost(2_000, "host-1", 1_000), processors=(running("0", 1, "host-1"),))


Spoil = Callable[[History], None]


def without_process(history: History) -> None:
    history.truth.live.pop()


def with_a_resource(history: History) -> None:
    history.truth.held["r-9"] = "host-3"


def with_an_orphan(history: History) -> None:
    history.truth.live.append(process("1", 9, "host-3"))


def with_wrong_locality(history: History) -> None:
    history.truth.where["0"] = "host-3"


def with_an_open_request(history: History) -> None:
    history.take(ev.RequestArrived(2_000, history.asks("u-1", "host-3")), cmd.DeleteRequest("u-1"))


def that_does_not_run(history: History) -> None:
    history.dies("0-0", 2, "host-2")


def with_an_action(history: History) -> None:
    history.begin(history.asks("u-1", "host-3"))


@pytest.mark.parametrize(
    "spoil",
    [
        without_process,
        with_a_resource,
        with_an_orphan,
        with_wrong_locality,
        with_an_open_request,
        that_does_not_run,
        with_an_action,
    ],
)
def test_a_job_that_is_quiet_and_not_done_is_found(history: History, spoil: Spoil) -> None:
    """At the end everybody runs, once, and nothing is left over."""
    spoil(history)
    with violated("nothing-forgotten"):
        history.judge.quiesced(history.state, history.truth)


def test_a_job_that_is_quiet_and_done_is_as_it_should_be(history: History) -> None:
    """Everybody runs where locality says."""
    history.judge.quiesced(history.state, history.truth)


def test_a_processor_that_no_host_can_take_may_wait(history: History) -> None:
    """It is shown as waiting, and asked for again."""
    that_does_not_run(history)
    history.judge.quiesced(history.state, history.truth, {"host-1": 3, "host-2": 0, "host-3": 0})


# -- the judge itself --------------------------------------------------------------------


def test_a_judge_that_was_forked_forgets_nothing_and_shares_nothing(history: History) -> None:
    """Both branches of a history are judged by what came before."""
    ask = history.asks("u-1", "host-3")
    history.begin(ask)
    twin = History()
    twin.judge, twin.state, twin.truth = history.judge.fork(), history.state, history.truth
    history.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    twin.take(ev.TimePassed(2_000), respond(ask, "FAILED", "expired"), action=None)
    with violated("acted-once"):
        twin.take(ev.TimePassed(3_000), respond(ask, "FAILED", "expired"))


def test_every_invariant_has_a_history_here() -> None:
    """Ten, each broken at least once above and kept at least once."""
    text = __import__("pathlib").Path(__file__).read_text()
    assert all(text.count(f'"{name}"') >= 1 for name in INVARIANTS)
