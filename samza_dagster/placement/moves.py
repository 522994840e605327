"""Moves: reserve, stop, start, and the recovery when one of these fails. (SEP-22.)

    destination                  kinds of action, with their stages
    a host, ANY_HOST, LAST_SEEN  Move (reserving, held, stopping), Start (starting)
    FORCE_RESTART_LAST_SEEN      Restart (stopping), Start
    STANDBY                      Swap (reserving-standby, stopping-standby), Move, Start
    a fail-over                  Swap (stopping-standby), Move, Start; Start alone when down

`Start` ends with SUCCEEDED once the container runs. An action that fails with its container down
is FAILED, and a `Fallback` (fallback-source, fallback-any) follows until the container runs.

The container is stopped only once its destination is held, so a failure to reserve leaves it
untouched. STANDBY is SEP-22's phase 2, which takes two client calls there. A fail-over is its
phase 1, and doesn't wait for a new place of the standby.
"""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    containers,
    failover,
    failures,
    host_limit,
    ownership,
    responses,
    rules,
    texts,
)
from samza_dagster.placement.commands import DeleteLocality
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    Fallback,
    Move,
    Moving,
    Phase,
    PlacementAsk,
    Processor,
    Restart,
    SpinUp,
    Stage,
    StandbyPlace,
    Start,
    Swap,
    subject_of,
)


def is_swap(ask: PlacementAsk) -> bool:
    """Return whether the request puts the active in a standby's place."""
    if ask.kind is RequestKind.PLACE:
        return ask.destination_host == naming.STANDBY
    return ask.kind is RequestKind.FAIL_OVER


def place_to_take(step: GroupStep, active_id: str) -> StandbyPlace | None:
    """Return the place of the standby soonest ready that the active could take now, or None."""
    for standby_id in failover.candidates(step, active_id):
        incarnation = step.processor(standby_id).incarnation
        return None if incarnation is None else StandbyPlace(standby_id, incarnation.host)
    return None


def begin(step: GroupStep, ask: PlacementAsk) -> None:
    """Begin a request on a free group and on a processor that runs or is to fail over."""
    processor_id, incarnation = ask.processor_id, step.processor(ask.processor_id).incarnation
    if incarnation is None:
        _fail_over_while_down(step, ask)
    elif is_swap(ask):
        _begin_swap(step, ask, incarnation.host)
    elif ask.destination_host == naming.FORCE_RESTART_LAST_SEEN:
        restart = Restart(ask, incarnation.host, stopped=(processor_id,))
        responses.progress(step, restart, texts.STOP_IN_PROGRESS)
        containers.stop(step, processor_id)
    else:
        _reserve(step, ask, incarnation.host)


def _fail_over_while_down(step: GroupStep, ask: PlacementAsk) -> None:
    """Send an active that is down to its standby's host at once."""
    containers.drop_request(step, ask.processor_id)
    start = Start(ask, step.processor(ask.processor_id).last_seen_host)
    responses.progress(step, start, texts.STANDBY_STOP_IN_PROGRESS)
    begun = failover.begin(step, ask.processor_id, f"asked by {ask.uuid}")
    assert begun, "a fail-over begins only when a standby qualifies"


# The standby gives its place up.


def _begin_swap(step: GroupStep, ask: PlacementAsk, source: str) -> None:
    """Begin with the standby that is soonest ready; the caller has checked that one is."""
    place = place_to_take(step, ask.processor_id)
    assert place is not None, "a swap begins only when a standby qualifies"
    if ask.kind is RequestKind.FAIL_OVER:
        give_way(step, Swap(ask, source, place, None))
        return
    excluded = host_limit.excluded(step, place.standby_id, place.host)
    request = containers.new_request(step, None, excluded, expiry_ms(step, ask))
    responses.progress(step, Swap(ask, source, place, request), texts.RESOURCES_REQUESTED)
    containers.ask(step, place.standby_id, request)


def give_way(step: GroupStep, swap: Swap) -> None:
    """Stop the standby: its new place is held, or none is reserved."""
    standby_id = swap.place.standby_id
    swap = swap.evolve(stopped=(*swap.stopped, standby_id))
    responses.progress(step, swap, texts.STANDBY_STOP_IN_PROGRESS)
    containers.stop(step, standby_id)


def follow_standby_end(step: GroupStep, swap: Swap) -> None:
    """Continue after the standby's end; FAILED if it ended before its stop."""
    standby_id, request = swap.place.standby_id, swap.request
    if swap.stage is Stage.RESERVING_STANDBY:
        responses.give_back(step, swap)
        why = f"standby container {standby_id} ended by itself; the active runs on untouched"
        responses.fail(step, swap, texts.failed(why))
        return
    if request is not None and request.allocated_host is not None:
        containers.hold(step, standby_id, request, request.allocated_host)
    else:
        step.change(standby_id, last_seen_host=None)
        step.emit(DeleteLocality(standby_id))
    _reserve(step, swap.ask, swap.source_host, swap)


def fail_standby_stop(step: GroupStep, swap: Swap) -> None:
    """Fail the swap, because the standby runs on; an active that is down goes to its fallback."""
    standby_id = swap.place.standby_id
    containers.undo_stop(step, standby_id)
    spared = swap.evolve(stopped=without(swap.stopped, standby_id))
    give_up(step, spared, texts.stop_failed(swap.place.host))


# The destination is reserved.


def _reserve(step: GroupStep, ask: PlacementAsk, source: str, swap: Swap | None = None) -> None:
    """Request the destination; after a `swap`, request the place of the displaced standby."""
    host: str | None = ask.destination_host
    excluded: set[str] = set()
    if swap is not None:
        host = swap.place.host
    elif host == naming.LAST_SEEN:
        host = source
    elif host == naming.ANY_HOST:
        host, excluded = None, host_limit.excluded(step, ask.processor_id, source)
    request = containers.new_request(step, host, excluded, _within_ms(step, ask))
    move = Move(ask, source, request)
    if swap is not None:
        move = Move(ask, source, request, swap.place, swap.chosen_host, stopped=swap.stopped)
    responses.progress(step, move, texts.RESOURCES_REQUESTED)
    containers.ask(step, ask.processor_id, request)


def use_reservation(step: GroupStep, move: Move, host: str) -> None:
    """Continue with a held destination: wait for the commit, or stop the container."""
    ask = move.ask
    if step.processor(ask.processor_id).incarnation is None:
        _start(step, move)
    elif ask.hold and not move.committed:
        expiry = expiry_ms(step, ask)
        request = move.request.evolve(deadline_ms=step.now_ms + expiry)
        responses.progress(step, move.evolve(request=request), texts.held(host, expiry))
    else:
        _stop(step, move)


def commit(step: GroupStep, move: Move) -> None:
    """Record the commit; continue at once if the reservation is confirmed, otherwise when it is."""
    move = move.evolve(committed=True)
    step.put_action(move)
    if move.stage is Stage.HELD and move.request.confirmed:
        _stop(step, move)


def confirm(step: GroupStep, move: Move) -> None:
    """Record that the cluster confirmed the reservation again; continue if it is committed."""
    move = move.evolve(request=move.request.evolve(confirmed=True))
    step.put_action(move)
    if move.stage is Stage.HELD and move.committed:
        _stop(step, move)


def expire_hold(step: GroupStep, move: Move) -> None:
    """Fail a move without a commit or confirmation in time; the container is untouched."""
    host = move.request.allocated_host
    why = f"the reservation on host {host} was not committed in time"
    if move.committed:
        why = f"host {host} did not confirm its reservation in time"
    give_up(step, move, texts.failed(f"{why}; the container runs on untouched"))


def give_up(step: GroupStep, action: Swap | Move | SpinUp, message: str) -> None:
    """Fail an action before its stop; a container that ended meanwhile goes to its fallback."""
    responses.give_back(step, action)
    if isinstance(action, SpinUp) or not _is_down(step, action):
        responses.fail(step, action, message)
    else:
        fall_back(step, action, message)


def fail_reservation(step: GroupStep, action: Swap | Move | Start | SpinUp, why: str) -> None:
    """Fail an action without a destination; a container that is down goes to its fallback."""
    message = texts.expired(why)
    if isinstance(action, SpinUp) or not _is_down(step, action):
        responses.fail(step, action, message)
        return
    if isinstance(action, Move):  # it wasn't stopped for this
        processor_id = action.ask.processor_id
        message = f"{message}; container {processor_id} is down, it is started again"
    fall_back(step, action, message)


# The container stops or ends.


def _stop(step: GroupStep, move: Move) -> None:
    processor_id = move.ask.processor_id
    move = move.evolve(stopped=(*move.stopped, processor_id))
    responses.progress(step, move, texts.STOP_IN_PROGRESS)
    containers.stop(step, processor_id)


def fail_stop(step: GroupStep, action: Move | Restart) -> None:
    """Fail the action, because the container survived its stop; release the reservation."""
    processor_id = action.ask.processor_id
    responses.give_back(step, action)
    containers.undo_stop(step, processor_id)
    spared = action.evolve(stopped=without(action.stopped, processor_id))
    responses.fail(step, spared, texts.stop_failed(action.source_host))


def follow_end(step: GroupStep, action: Moving, before: Processor) -> None:
    """Continue after the container's end; `before` is the processor as it was."""
    # A container that ended without a stop starts at its destination as soon as that is held. This
    # holds also while the displaced standby stops, which has the only other copy of its state.
    processor_id = before.processor_id
    match action:
        case Swap() if action.stage is Stage.STOPPING_STANDBY:
            failures.count_death(step, processor_id)
        case Move() if action.stage is Stage.RESERVING and not action.ask.hold:
            failures.count_death(step, processor_id)
            _shorten_wait(step, action)
        case Swap() | Move() if action.stage is not Stage.STOPPING:
            failures.count_death(step, processor_id)
            responses.give_back(step, action)
            why = f"container {processor_id} ended by itself before it was stopped"
            fall_back(step, action, texts.failed(f"{why}; it is started again"))
        case Move():
            _start(step, action)
        case Restart():
            _start_on_its_own_host(step, action)
        case Start():
            if before.phase is Phase.STARTING:
                failures.count_failed_start(step, before)
            assert before.incarnation is not None
            fall_back(step, action, _start_failed(step, action, before.incarnation.host))
        case Swap():
            pass


def _shorten_wait(step: GroupStep, move: Move) -> None:
    """Limit the request's wait to a fallback's, because the container is down from now on."""
    latest_ms = step.now_ms + step.limits.request_timeout_ms + containers.REQUEST_MARGIN_MS
    request = move.request.evolve(deadline_ms=min(move.request.deadline_ms, latest_ms))
    step.put_action(move.evolve(request=request))
    containers.ask(step, move.ask.processor_id, request)


# The container starts.


def _start(step: GroupStep, move: Move) -> None:
    """Start the container on its held host once nothing is in the way."""
    host = move.request.allocated_host
    assert host is not None
    start = Start(
        move.ask,
        move.source_host,
        move.place,
        move.chosen_host,
        stopped=move.stopped,
        message=move.message,
        response_ms=move.response_ms,
    )
    step.put_action(start)
    containers.hold(step, move.ask.processor_id, move.request, host)


def _start_on_its_own_host(step: GroupStep, restart: Restart) -> None:
    ask = restart.ask
    start = Start(ask, restart.source_host, stopped=restart.stopped)
    responses.progress(step, start, texts.RESOURCES_REQUESTED)
    request = containers.new_request(step, restart.source_host, set(), _within_ms(step, ask))
    containers.ask(step, ask.processor_id, request)
    containers.wait_for(step, ask.processor_id, request)


def refuse_host(step: GroupStep, start: Start, broken: rules.Violation) -> None:
    """Go to the fallback, because the held host became illegal before the start."""
    if broken.rule in (rules.SAME_HOST, rules.SAME_DOMAIN):
        fall_back(step, start, texts.constraints_now(broken.host))
    else:
        fall_back(step, start, _start_failed(step, start, broken.host))


def complete(step: GroupStep, start: Start, *, failed_over: bool) -> None:
    """Succeed, because the container runs; a fail-over succeeds only in a standby's place."""
    processor_id = start.ask.processor_id
    incarnation = step.processor(processor_id).incarnation
    assert incarnation is not None
    host = incarnation.host
    in_place = failed_over or (start.place is not None and host == start.place.host)
    if start.ask.kind is RequestKind.FAIL_OVER and not in_place:
        known = start.message.startswith(texts.NO_PLACE)
        why = start.message if known else f"{texts.NO_PLACE} a standby's place"
        where = f"container {processor_id} was started on host {host} instead, and runs there"
        responses.fail(step, start, texts.failed(f"{why}; {where}"), (processor_id, host))
    else:
        responses.succeed(step, start, texts.started(host), (processor_id, host))


def fail_returned(step: GroupStep, start: Start | SpinUp, host: str) -> None:
    """Fail the action, because the lost host returned with the container running."""
    stopped = without(start.stopped, subject_of(start))
    why = f"host {host} came back with the container running; it runs on there"
    responses.fail(step, start.evolve(stopped=stopped), texts.failed(why))


# The action failed with the container down.


def fall_back(step: GroupStep, action: Moving, message: str) -> None:
    """Fail with the container down, and start it on the source host, else as after any failure."""
    source = action.source_host if step.limits.host_affinity else None
    fallback = Fallback(action.ask, action.source_host, bool(source), stopped=action.stopped)
    responses.fall_back(step, fallback, message)
    failover.request_preferred(step, action.ask.processor_id, source, "a placement action failed")
    follow_fallback(step)


def follow_fallback(step: GroupStep) -> None:
    """Keep a fallback's stage true, and end it when the container runs."""
    fallback = step.action
    if not isinstance(fallback, Fallback):
        return
    processor = step.group.processors.get(fallback.ask.processor_id)
    if processor is None or processor.phase is Phase.RUNNING:
        step.put_action(None)
        return
    at_source = step.group.failover is None and (
        processor.incarnation or (processor.request and processor.request.host)
    )
    if fallback.to_source and not at_source:
        step.put_action(fallback.evolve(to_source=False))


def expiry_ms(step: GroupStep, ask: PlacementAsk) -> int:
    """Return how long the request's reservation may take: its own timeout, else the job's."""
    return step.limits.request_timeout_ms if ask.expiry_ms is None else ask.expiry_ms


def renewed_ms(step: GroupStep, action: Swap | Move | SpinUp) -> int:
    """Return how long a coordinator that took over may wait for an action's open request."""
    return (_within_ms if isinstance(action, Move) else expiry_ms)(step, action.ask)


def without(stopped: tuple[str, ...], processor_id: str) -> tuple[str, ...]:
    """Return `stopped` without a processor that runs on."""
    return tuple(pid for pid in stopped if pid != processor_id)


def _within_ms(step: GroupStep, ask: PlacementAsk) -> int:
    """Return how long to wait for a destination; at most a fallback's time while it is down."""
    own = expiry_ms(step, ask)
    down = ownership.is_down(step.group, ask.processor_id)
    return min(own, step.limits.request_timeout_ms) if down else own


def _is_down(step: GroupStep, action: Moving) -> bool:
    return step.processor(action.ask.processor_id).incarnation is None


def _start_failed(step: GroupStep, start: Start, host: str) -> str:
    source = start.source_host if step.limits.host_affinity else None
    return texts.start_failed(host, source or naming.ANY_HOST)
