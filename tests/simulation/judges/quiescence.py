"""What must be so when nothing is under way any more: the rest of invariant 10."""

from __future__ import annotations

from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.state import Group, JobState, Phase, Processor, Stage
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import is_left_behind, is_ready, reserved_by
from tests.simulation.judges.truth import Process, Truth
from tests.simulation.judges.violation import (
    ACTED_ONCE,
    NOTHING_FORGOTTEN,
    InvariantViolated,
)

OUTCOMES = frozenset({"SUCCEEDED", "FAILED", "BAD_REQUEST"})


def judge_quiet(chronicle: Chronicle, state: JobState, truth: Truth) -> None:
    """Everybody runs and nothing is left over: a mended world has room for all."""
    live = list(truth.processes())
    waiting = _judge_processors(state, live)
    _judge_leftovers(state, truth, live, waiting)
    _judge_outcomes(chronicle, truth, _still_asked(state, waiting))
    locality = truth.locality()
    for group in state.groups.values():
        for processor in group.processors.values():
            incarnation = processor.incarnation
            if processor.phase is not Phase.RUNNING or incarnation is None:
                continue
            if locality.get(processor.processor_id) != incarnation.host:
                raise InvariantViolated(
                    NOTHING_FORGOTTEN,
                    f"{processor.processor_id} runs on {incarnation.host}, locality says "
                    f"{locality.get(processor.processor_id)}",
                )


def only_waits(state: JobState) -> bool:
    """Nothing is under way but processors that ask for a host again and again; no lease runs out either."""
    return all(
        group.action is None
        and group.failover is None
        and all(orphan.ended or orphan.lease_ends_ms is None for orphan in group.orphans)
        and all(
            processor.phase is Phase.RUNNING
            or (processor.incarnation is None and processor.attempts > 3)
            for processor in group.processors.values()
        )
        for group in state.groups.values()
    )


def _judge_processors(state: JobState, live: list[Process]) -> frozenset[str]:
    """Every wanted processor runs, or no host is legal and it waits, to be seen."""
    by_id = {process.execution_id: process for process in live}
    waiting: set[str] = set()
    for group in state.groups.values():
        for processor in group.processors.values():
            pid, incarnation = processor.processor_id, processor.incarnation
            if not processor.wanted:
                raise InvariantViolated(NOTHING_FORGOTTEN, f"{pid} isn't wanted and isn't removed")
            process = by_id.get(incarnation.execution_id) if incarnation is not None else None
            if processor.phase is Phase.RUNNING and process is not None and process.checked_in:
                continue
            where = _possible_host(state, group, processor, live)
            if processor.phase is Phase.RUNNING or where is not None:
                raise InvariantViolated(
                    NOTHING_FORGOTTEN,
                    f"{pid} doesn't run at the end ({processor.phase}), {where} could take it",
                )
            if next_deadline_ms(state) is None and all(h.alive for h in state.hosts.values()):
                raise InvariantViolated(NOTHING_FORGOTTEN, f"{pid} waits for nothing")
            waiting.add(pid)
    return frozenset(waiting)


def _possible_host(
    state: JobState, group: Group, processor: Processor, live: list[Process]
) -> str | None:
    if any(g.processor_id == processor.processor_id and g.ended is None for g in group.orphans):
        return None
    taken = {p.host for p in live if p.group_id == group.group_id}
    taken |= {
        orphan.incarnation.host
        for orphan in group.orphans
        if not is_left_behind(state.hosts, orphan)
    }
    domains = {
        p.fault_domain
        for p in live
        if p.group_id == group.group_id and p.processor_id != processor.processor_id
    }
    domains |= {state.hosts[h].fault_domain for h in taken if h in state.hosts}
    domains -= {""}
    for name, host in state.hosts.items():
        if not host.alive or not host.registered or name in taken:
            continue
        if host.fault_domain not in domains:
            return name
    return None


def _judge_leftovers(
    state: JobState, truth: Truth, live: list[Process], waiting: frozenset[str]
) -> None:
    wanted: set[str] = set()
    known: set[str] = set()
    processes = {process.execution_id for process in live}
    for group in state.groups.values():
        action = group.action
        if action is not None:
            if action.stage is not Stage.HELD and action.ask.processor_id not in waiting:
                raise InvariantViolated(
                    NOTHING_FORGOTTEN, f"{action.ask.uuid} is {action.stage} at the end"
                )
            request = reserved_by(action)
            if request is not None:
                wanted.add(request.request_id)
        if group.failover is not None and group.failover.active_id not in waiting:
            raise InvariantViolated(NOTHING_FORGOTTEN, f"{group.failover} never ended")
        for orphan in group.orphans:
            known.add(orphan.incarnation.execution_id)
            host = state.hosts.get(orphan.incarnation.host)
            if is_left_behind(state.hosts, orphan):
                continue
            if host is not None and host.alive and host.registered:
                raise InvariantViolated(
                    NOTHING_FORGOTTEN, f"{orphan} is remembered, and its host answers"
                )
        for processor in group.processors.values():
            if processor.request is not None:
                wanted.add(processor.request.request_id)
            if processor.incarnation is not None:
                known.add(processor.incarnation.execution_id)
                if processor.incarnation.execution_id not in processes:
                    raise InvariantViolated(
                        NOTHING_FORGOTTEN, f"{processor.incarnation} is dead and remembered"
                    )
    for request_id, host in truth.held_resources().items():
        if request_id not in wanted:
            raise InvariantViolated(NOTHING_FORGOTTEN, f"{request_id} is held on {host} for nobody")
    for process in live:
        host = state.hosts.get(process.host)
        if process.execution_id not in known and not process.frozen and host and host.alive:
            raise InvariantViolated(NOTHING_FORGOTTEN, f"{process.execution_id} runs for nobody")


def _still_asked(state: JobState, waiting: frozenset[str]) -> frozenset[str]:
    """Requests that wait for what nobody has to bring: a commit, or a host with room."""
    held = any(g.action is not None and g.action.stage is Stage.HELD for g in state.groups.values())
    found: set[str] = set()
    for group in state.groups.values():
        if group.action is not None:
            found.add(group.action.ask.uuid)  # as it stands, it was judged
        for ask in group.queue:
            blocked = group.action is not None or group.failover is not None
            # A hold counts towards the limits of the whole job.
            if held or blocked or ask.processor_id in waiting or not is_ready(group, ask):
                found.add(ask.uuid)
    return frozenset(found)


def _judge_outcomes(chronicle: Chronicle, truth: Truth, still_asked: frozenset[str]) -> None:
    ended: dict[str, list[str]] = {}
    for response in truth.responses():
        if response.status in OUTCOMES:
            ended.setdefault(response.uuid, []).append(response.status)
    for uuid in chronicle.asked:
        if not ended.get(uuid) and uuid not in still_asked:
            raise InvariantViolated(NOTHING_FORGOTTEN, f"request {uuid} has no outcome")
        if len(set(ended.get(uuid, ()))) > 1 and not chronicle.forgotten:
            raise InvariantViolated(ACTED_ONCE, f"request {uuid} ended {ended[uuid]}")
