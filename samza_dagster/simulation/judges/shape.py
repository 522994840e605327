"""What a group may look like: each phase and stage has what it needs, and nothing besides."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.model import naming
from samza_dagster.placement.state import (
    Action,
    AskKind,
    Group,
    JobState,
    Phase,
    Processor,
    Role,
    Stage,
)
from samza_dagster.simulation.judges import origins
from samza_dagster.simulation.judges.legality import subject_of
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import WELL_FORMED, InvariantViolated

_WITH_PROCESS = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
_FALLBACK = (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)


def judge_shape(taken: Taken) -> None:
    """Every group that changed, and the job."""
    for old, group in taken.changed:
        if group is not None:
            judge_group_shape(group, taken.after)
            _judge_way_back(taken, old, group)
    _judge_failures(taken)
    # A coordinator that was started with a lower limit forgets when the next one comes.
    kept = len(taken.before.uuids) if taken.before.uuids is taken.after.uuids else 0
    if len(taken.after.uuids) > max(0, taken.after.limits.remembered_uuids, kept):
        raise _wrong("job", f"{len(taken.after.uuids)} requests are remembered")


def _judge_failures(taken: Taken) -> None:
    """As many as tell flapping; under a lower count no more than there were before it."""
    most = taken.after.limits.retry_count + 1
    for both in taken.both:
        kept = 0 if both.was is None else len(both.was.failed_at_ms)
        if both.now is not None and len(both.now.failed_at_ms) > max(most, kept):
            raise _wrong(both.processor_id, f"remembers {len(both.now.failed_at_ms)} failures")


def _judge_way_back(taken: Taken, old: Group | None, group: Group) -> None:
    """It goes back to its source while that is asked for by name; else it says so."""
    action = group.action
    before = None if old is None else old.action
    if action is None or action.stage not in _FALLBACK:
        return
    if before is not None and before.ask.uuid == action.ask.uuid and before.stage in _FALLBACK:
        if before.stage is Stage.FALLBACK_ANY and action.stage is Stage.FALLBACK_SOURCE:
            raise _wrong(group.group_id, f"{action.ask.uuid} tries its source again")
        return
    subject = group.processors[subject_of(action)]
    named = subject.incarnation or (subject.request and subject.request.host)
    home = taken.after.limits.host_affinity and action.source_host and group.failover is None
    if (action.stage is Stage.FALLBACK_SOURCE) != bool(home and named):
        raise _wrong(group.group_id, f"{action.ask.uuid} is {action.stage}: {subject}")


def judge_group_shape(group: Group, state: JobState) -> None:
    """One group."""
    name = group.group_id
    if not (group.processors or group.ghosts or group.action or group.queue):
        raise _wrong(name, "nothing is left of it, and it is kept")
    for pid, processor in group.processors.items():
        if pid != processor.processor_id or naming.group_of(pid) != name:
            raise _wrong(name, f"{processor} is called {pid}")
        if (processor.role is Role.STANDBY) != ("-" in pid):
            raise _wrong(pid, f"has role {processor.role}")
        _judge_processor(group, processor, state)
    if group.action is not None:
        _judge_action(group, group.action)
    _judge_failover(group)
    order = [(ask.timestamp_ms, ask.uuid) for ask in group.queue]
    if order != sorted(set(order)):
        raise _wrong(name, f"its queue isn't in order: {order}")
    seen = [ghost.incarnation.execution_id for ghost in group.ghosts]
    if len(seen) != len(set(seen)):
        raise _wrong(name, f"a ghost twice: {seen}")
    for ghost in group.ghosts:
        if ghost.ended is not None and (ghost.end is None or ghost.ended.value == "dead"):
            raise _wrong(name, f"{ghost} has ended, and how isn't known")
        known = state.hosts.get(ghost.incarnation.host)
        told = known is not None and known.registered
        if told and ghost.elsewhere != origins.is_elsewhere(known, ghost.incarnation):
            raise _wrong(name, f"{ghost} is elsewhere: {ghost.elsewhere}, its host is {known}")
        if ghost.ended is None and ghost.lease_ends_ms is None:
            host = state.hosts.get(ghost.incarnation.host)
            if host is None or not host.alive:
                raise _wrong(name, f"{ghost} waits for no lease, and its host is lost")


def _judge_processor(group: Group, processor: Processor, state: JobState) -> None:
    phase, request = processor.phase, processor.request
    pid, incarnation = processor.processor_id, processor.incarnation
    if (incarnation is not None) != (phase in _WITH_PROCESS):
        raise _wrong(pid, f"is {phase} with {incarnation}")
    if (request is not None) != (phase in (Phase.REQUESTING, Phase.RESERVED)):
        raise _wrong(pid, f"is {phase} with {request}")
    if request is not None:
        if (request.allocated_host is not None) != (phase is Phase.RESERVED):
            raise _wrong(pid, f"is {phase} with {request}")
        if request.host is not None and request.allocated_host not in (None, request.host):
            raise _wrong(pid, f"asked for another host: {request}")
        if request.host is not None and request.excluded_hosts:
            raise _wrong(pid, f"names a host and excludes some: {request}")
    if phase is Phase.RESERVED and request is not None and request.allocated_host is not None:
        _judge_reserved(group, processor, request.allocated_host, state)
    if (processor.deadline_ms is not None) != (phase in (Phase.STARTING, Phase.STOPPING)):
        raise _wrong(pid, f"is {phase} until {processor.deadline_ms}")
    if processor.start_deadline_ms is not None and phase is not Phase.STOPPING:
        raise _wrong(pid, f"is {phase}, and keeps its deadline {processor.start_deadline_ms}")
    if (phase is Phase.RUNNING and incarnation is not None) and (
        processor.last_seen_host != incarnation.host
    ):
        raise _wrong(pid, f"runs on {incarnation.host}, last seen {processor.last_seen_host}")
    if not processor.wanted and phase is not Phase.STOPPING:
        raise _wrong(pid, f"isn't wanted, and is {phase}")
    if processor.extra and processor.role is not Role.STANDBY:
        raise _wrong(pid, "is an active, spun up on request")


def _judge_reserved(group: Group, processor: Processor, host: str, state: JobState) -> None:
    """Whoever has its resource starts, unless a process or a ghost is in its way.

    Or anyone of a deployment that gave the tasks to other groups.
    """
    pid = processor.processor_id
    if any(epoch < state.regrouped_epoch for epoch in _owners(state)):
        return
    if any(ghost.processor_id == pid and ghost.ended is None for ghost in group.ghosts):
        return
    for other in group.processors.values():
        if other.incarnation is not None and other.incarnation.host == host:
            return
    raise _wrong(pid, f"could start on {host}, and waits")


def _owners(state: JobState) -> Iterator[int]:
    """Epochs of all that may own tasks."""
    for group in state.groups.values():
        for processor in group.processors.values():
            if processor.incarnation is not None:
                yield processor.incarnation.epoch
        for ghost in group.ghosts:
            if ghost.ended is None:
                yield ghost.incarnation.epoch


def _judge_action(group: Group, action: Action) -> None:
    name, stage, ask = group.group_id, action.stage, action.ask
    subject = group.processors.get(subject_of(action))
    phase = None if subject is None else subject.phase
    if not action.status or not action.message or action.status in ("SUCCEEDED", "ACCEPTED"):
        raise _wrong(name, f"{ask.uuid} is {action.status!r}: {action.message!r}")
    if (action.status == "FAILED") != (stage in _FALLBACK):
        raise _wrong(name, f"{ask.uuid} is {stage} after {action.status}")
    reservation, place = action.reservation, action.standby_reservation
    open_ = reservation is not None and reservation.allocated_host is None
    if stage is Stage.RESERVING and not open_:
        raise _wrong(name, f"{ask.uuid} reserves {reservation}")
    if stage in (Stage.HELD, Stage.STOPPING) and open_:
        raise _wrong(name, f"{ask.uuid} is {stage} with {reservation}")
    if stage is Stage.STOPPING and ask.hold and not action.committed:
        raise _wrong(name, f"{ask.uuid} is to be held, and nobody said go")
    if stage is Stage.HELD and (reservation is None or not ask.hold):
        raise _wrong(name, f"{ask.uuid} holds {reservation}")
    if stage is Stage.HELD and action.committed and reservation and reservation.confirmed:
        raise _wrong(name, f"{ask.uuid} was committed, and waits")
    if stage in (Stage.STARTING, *_FALLBACK) and (reservation or place):
        raise _wrong(name, f"{ask.uuid} is {stage} with {reservation}, {place}")
    if stage in _FALLBACK and (action.standby_id or action.target_host):
        raise _wrong(name, f"{ask.uuid} goes back, and counts on {action.standby_id}")
    if place is not None and stage not in (Stage.RESERVING_STANDBY, Stage.STOPPING_STANDBY):
        raise _wrong(name, f"{ask.uuid} is {stage} with a place for its standby")
    if stage is Stage.RESERVING_STANDBY and (place is None or place.allocated_host is not None):
        raise _wrong(name, f"{ask.uuid} reserves {place} for its standby")
    swaps = ask.kind is AskKind.FAIL_OVER or ask.destination_host == naming.STANDBY
    if swaps and stage is Stage.STOPPING_STANDBY:
        if (place is not None) != (ask.kind is AskKind.PLACE):
            raise _wrong(name, f"{ask.uuid} is {stage} with {place}")
        standby = group.processors.get(action.standby_id)
        if standby is None or standby.phase is not Phase.STOPPING:
            raise _wrong(name, f"{ask.uuid} is {stage}, {action.standby_id} is {standby}")
    _judge_stage(group, action, phase)


def _judge_stage(group: Group, action: Action, phase: Phase | None) -> None:
    """The container is as far as its action."""
    stage, name, ask = action.stage, group.group_id, action.ask
    if stage is Stage.STOPPING and phase is not Phase.STOPPING:
        raise _wrong(name, f"{ask.uuid} is {stage}, its container {phase}")
    if stage is Stage.HELD and phase is not Phase.RUNNING:
        raise _wrong(name, f"{ask.uuid} is {stage}, its container {phase}")
    if stage is Stage.STARTING and phase in (None, Phase.RUNNING, Phase.WAITING):
        raise _wrong(name, f"{ask.uuid} is {stage}, its container {phase}")
    if stage in _FALLBACK and phase in (None, Phase.RUNNING):
        raise _wrong(name, f"{ask.uuid} is {stage}, its container {phase}")
    if stage is Stage.FALLBACK_SOURCE:
        subject = group.processors[subject_of(action)]
        where = subject.incarnation or (subject.request and subject.request.host)
        if group.failover is not None or not where or not action.source_host:
            raise _wrong(name, f"{ask.uuid} is {stage}, and its container on its way elsewhere")
    adds = ask.kind is AskKind.START_STANDBY
    if adds != (subject_of(action) != ask.processor_id) or (adds and "-" not in action.standby_id):
        raise _wrong(name, f"{ask.uuid} is about {subject_of(action)}")
    if adds and (action.standby_id in group.processors) != (stage is Stage.STARTING):
        raise _wrong(name, f"{ask.uuid} is {stage}, {action.standby_id} is a member or not")
    if action.stopping_already and ask.kind is not AskKind.STOP_STANDBY:
        raise _wrong(name, f"{ask.uuid} stops nothing that is being stopped")
    if action.committed and not ask.hold:
        raise _wrong(name, f"{ask.uuid} was committed, and holds nothing")


def _judge_failover(group: Group) -> None:
    failover = group.failover
    if failover is None:
        return
    active = group.processors.get(failover.active_id)
    if active is None or active.role is not Role.ACTIVE or active.phase is Phase.RUNNING:
        raise _wrong(group.group_id, f"{failover}, and {active}")
    if active.phase is Phase.WAITING:
        raise _wrong(group.group_id, f"{failover}, and its active waits")
    where = (
        active.incarnation.host if active.incarnation else active.request and active.request.host
    )
    if where != failover.host or failover.tried[-1:] != (failover.standby_id,):
        raise _wrong(group.group_id, f"{failover}, and its active goes to {where}")
    if len(set(failover.tried)) != len(failover.tried) or not failover.why:
        raise _wrong(group.group_id, f"{failover} tries one twice, or nobody knows why")


def _wrong(who: str, what: str) -> InvariantViolated:
    return InvariantViolated(WELL_FORMED, f"{who}: {what}")
