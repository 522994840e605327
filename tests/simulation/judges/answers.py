"""Requests and their answers: invariants 6, 7 and 8, from the responses alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Group, JobState, Phase, PlacementAsk, Stage
from tests.simulation.judges.chronicle import CONTROLS, TERMINAL, Chronicle, SeenRequest
from tests.simulation.judges.legality import subject_of
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.truth import Truth
from tests.simulation.judges.violation import (
    ACTED_ONCE,
    ONE_ACTION,
    OTHER_DEPLOYMENT,
    InvariantViolated,
)

# What a request that changes nothing may come with: the turns that time has brought.
_HARMLESS = (cmd.DeleteRequest, cmd.RequestResource, cmd.CountMetric)


def judge_arrival(chronicle: Chronicle, taken: Taken, event: ev.RequestArrived) -> None:
    """A request is taken off the stream; a stale or known one changes nothing else."""
    ask, before = event.ask, taken.before
    stale = ask.deployment_id != before.deployment_id
    known = _is_known(chronicle, before, ask.uuid)
    if cmd.DeleteRequest(ask.uuid, ask.own) not in taken.commands:
        name = OTHER_DEPLOYMENT if stale else ACTED_ONCE
        raise InvariantViolated(name, f"request {ask.uuid} was read and isn't removed")
    if not stale and not known:
        chronicle.arrived(ask, chronicle.groups.get(ask.processor_id, ""))
        return
    name = OTHER_DEPLOYMENT if stale else ACTED_ONCE
    chronicle.premises[name] += 1
    why = "of another deployment" if stale else "that is known"
    for command in taken.commands:
        if not isinstance(command, _HARMLESS) and command not in _by_time_alone(before, event):
            raise InvariantViolated(name, f"request {ask.uuid} {why} led to {command}")
    if stale and ask.uuid in taken.after.uuids and ask.uuid not in before.uuids:
        raise InvariantViolated(name, f"request {ask.uuid} {why} is remembered")


def take_refusal(chronicle: Chronicle, before: JobState, event: ev.RequestRefused) -> None:
    """It was answered without the reducer: whatever comes under its uuid is a duplicate."""
    if not _is_known(chronicle, before, event.uuid):
        chronicle.was_refused(event.uuid)


def _is_known(chronicle: Chronicle, before: JobState, uuid: str) -> bool:
    return chronicle.remembers(uuid) or any(
        group.action is not None and group.action.ask.uuid == uuid
        for group in before.groups.values()
    )


def _by_time_alone(before: JobState, event: ev.RequestArrived) -> Sequence[cmd.Command]:
    """What the same moment brings without the request: a turn may begin a fail-over."""
    return step(before, ev.TimePassed(event.at_ms)).commands


def judge_response(
    chronicle: Chronicle, response: cmd.WriteResponse, *, again: bool
) -> SeenRequest | None:
    """Each request has one outcome. `again`: a new coordinator says the last one anew.

    Returns the request when this is its outcome, else None.
    """
    asked = chronicle.asked.get(response.uuid)
    if asked is None:
        raise InvariantViolated(
            ACTED_ONCE, f"a response to {response.uuid}, never taken: {response}"
        )
    if (response.processor_id, response.destination_host, response.own) != (
        asked.ask.processor_id,
        asked.ask.destination_host,
        asked.ask.own,
    ):
        raise InvariantViolated(ACTED_ONCE, f"{response} doesn't answer {asked.ask}")
    said = (response.status, response.message)
    if again and asked.last is not None and (said == asked.last or said[0] == "ACCEPTED"):
        return None
    if asked.terminal:
        raise InvariantViolated(
            ACTED_ONCE, f"{response.uuid} ended {asked.terminal}, and {response.status} follows"
        )
    if response.status == "BAD_REQUEST" and asked.last is not None:
        raise InvariantViolated(
            ACTED_ONCE, f"{response.uuid} was {asked.last[0]} and ends BAD_REQUEST"
        )
    ended = response.status in TERMINAL
    asked = replace(asked, last=said, terminal=response.status if ended else "")
    chronicle.asked[response.uuid] = asked
    if ended:
        chronicle.premises[ACTED_ONCE] += 1
    return asked if ended else None


def judge_success(chronicle: Chronicle, asked: SeenRequest, after: JobState, truth: Truth) -> None:
    """SUCCEEDED is true: the container has checked in where it was told to go, or is gone."""
    ask = asked.ask
    if ask.kind in CONTROLS:
        _judge_control(chronicle, asked)
        return
    group = after.groups.get(asked.group_id)
    processor = group.processors.get(asked.subject) if group is not None else None
    live = [p for p in truth.processes() if p.processor_id == asked.subject]
    if ask.kind is RequestKind.STOP_STANDBY:
        # Of a machine that has lost its name one may live on that has lost its tasks.
        live = [p for p in live if not chronicle.is_left_behind(p.execution_id, p.host)]
        if live or processor is not None:
            what = live[0].execution_id if live else "the state"
            raise InvariantViolated(
                ACTED_ONCE, f"{ask.uuid} says that {ask.processor_id} is gone, {what} has it"
            )
        return
    incarnation = processor.incarnation if processor is not None else None
    if incarnation is None or chronicle.checked_in.get(incarnation.execution_id) != (
        incarnation.host
    ):
        raise InvariantViolated(
            ACTED_ONCE, f"{ask.uuid} SUCCEEDED, and {asked.subject} hasn't checked in"
        )
    host = incarnation.host
    if not _is_where_asked(asked, host):
        raise InvariantViolated(
            ACTED_ONCE,
            f"{ask.uuid} SUCCEEDED with {asked.subject} on {host}, asked was "
            f"{ask.destination_host} from {asked.source}",
        )
    if asked.last is not None and host not in asked.last[1]:
        raise InvariantViolated(
            ACTED_ONCE, f"{ask.uuid} SUCCEEDED on {host} and says {asked.last[1]!r}"
        )


def judge_begin(chronicle: Chronicle, before: Group | None, group: Group, after: JobState) -> None:
    """An action that begins is alone in its group, the oldest first, within the job's bounds."""
    was = None if before is None else before.action
    if group.action is None or (was is not None and was.ask.uuid == group.action.ask.uuid):
        return
    uuid = group.action.ask.uuid
    asked = chronicle.begun(uuid, group)
    limits = after.limits
    _judge_incarnation(before, asked.ask)
    if uuid in chronicle.overtaken:
        raise InvariantViolated(
            ACTED_ONCE, f"{uuid} begins, and {asked.ask.processor_id} had failed over by itself"
        )
    rivals = [
        other
        for other in chronicle.asked.values()
        if other.ask.uuid != uuid and not other.terminal and other.ask.kind not in CONTROLS
    ]
    in_flight = [other for other in rivals if other.begun]
    mine = [other for other in rivals if other.group_id == group.group_id]
    chronicle.premises[ONE_ACTION] += 1
    for other in mine:
        if other.begun:
            raise InvariantViolated(
                ONE_ACTION, f"{uuid} begins in group {group.group_id} during {other.ask.uuid}"
            )
        if _goes_first(other.ask, asked.ask) and _could_begin(before, other.ask):
            raise InvariantViolated(
                ONE_ACTION, f"{uuid} begins before {other.ask.uuid}, which is older"
            )
    down = [pid for pid in group.processors if pid in chronicle.falling_back]
    if down:
        raise InvariantViolated(
            ONE_ACTION, f"{uuid} begins while a failed action's {down[0]} isn't back"
        )
    if len(in_flight) >= limits.max_concurrent_actions:
        raise InvariantViolated(
            ONE_ACTION, f"{uuid} is one more than {limits.max_concurrent_actions} in the job"
        )
    for host in _touched(chronicle, asked):
        busy = sum(host in _touched(chronicle, other) for other in in_flight)
        if busy >= limits.max_actions_per_host:
            raise InvariantViolated(
                ONE_ACTION, f"{uuid} is one more than {limits.max_actions_per_host} on {host}"
            )


def take_check_in(chronicle: Chronicle, before: JobState, event: ev.ContainerCheckedIn) -> None:
    """An active that has failed over by itself overtakes each fail-over of it that waits."""
    group = next((g for g in before.groups.values() if _fails_over(g, event.execution_id)), None)
    if group is None or group.failover is None:
        return
    active_id, action = group.failover.active_id, group.action
    if action is not None and action.stage is Stage.STARTING and subject_of(action) == active_id:
        return  # it was asked for
    waiting = {
        uuid
        for uuid, asked in chronicle.asked.items()
        if asked.ask.kind is RequestKind.FAIL_OVER
        and asked.ask.processor_id == active_id
        and not (asked.begun or asked.terminal)
    }
    chronicle.premises[ACTED_ONCE] += len(waiting)
    chronicle.overtaken |= waiting


def _fails_over(group: Group, execution_id: str) -> bool:
    active = None if group.failover is None else group.processors.get(group.failover.active_id)
    if active is None or active.phase is not Phase.STARTING or active.incarnation is None:
        return False
    return active.incarnation.execution_id == execution_id


def _judge_incarnation(before: Group | None, ask: PlacementAsk) -> None:
    """A fail-over takes down the incarnation that it names, and no successor of it."""
    active = before.processors.get(ask.processor_id) if before is not None else None
    runs = active.incarnation if active is not None else None
    if ask.execution_id and runs is not None and runs.execution_id != ask.execution_id:
        raise InvariantViolated(
            ACTED_ONCE, f"{ask.uuid} is of {ask.execution_id}, and begins with {runs.execution_id}"
        )


def _judge_control(chronicle: Chronicle, asked: SeenRequest) -> None:
    ask = asked.ask
    other = chronicle.asked.get(ask.refers_to)
    if other is None:
        raise InvariantViolated(ACTED_ONCE, f"{ask.uuid} SUCCEEDED for {ask.refers_to}, unknown")
    if ask.kind is RequestKind.COMMIT:
        return
    if other.terminal != "FAILED":
        raise InvariantViolated(
            ACTED_ONCE, f"{ask.uuid} ended {other.ask.uuid}, which is {other.terminal or 'open'}"
        )
    # One that was told to stop because its host had been lost is down for no action.
    stopped = chronicle.commanded_to_stop - chronicle.lost
    if other.source is not None and other.source[0] in stopped:
        raise InvariantViolated(
            ACTED_ONCE, f"{ask.uuid} came too late for {other.ask.uuid}, and SUCCEEDED"
        )


def _is_where_asked(asked: SeenRequest, host: str) -> bool:
    ask, source = asked.ask, asked.source[1] if asked.source is not None else None
    if ask.kind is RequestKind.FAIL_OVER:
        return True  # the place of whichever standby it came to be: no host was asked for
    match ask.destination_host:
        case naming.ANY_HOST:
            return host != source
        case naming.LAST_SEEN | naming.FORCE_RESTART_LAST_SEEN:
            return host == source
        case naming.STANDBY:
            return host in asked.standby_hosts
        case named:
            return host == named


def _goes_first(one: PlacementAsk, other: PlacementAsk) -> bool:
    """Older, for the same processor, and for a destination that is never busier."""
    free = one.destination_host in (other.destination_host, *naming.DESTINATION_WORDS)
    return (
        one.processor_id == other.processor_id
        and one.kind is other.kind
        and free
        and (one.timestamp_ms, one.uuid) < (other.timestamp_ms, other.uuid)
    )


def _could_begin(before: Group | None, ask: PlacementAsk) -> bool:
    """Whether it was waiting already, for its turn alone."""
    if before is None or ask not in before.queue:
        return False
    processor = before.processors.get(ask.processor_id)
    return processor is not None and processor.phase is Phase.RUNNING


def _touched(chronicle: Chronicle, asked: SeenRequest) -> frozenset[str]:
    """Where its container ran, and the host that it names."""
    hosts: set[str] = set()
    if asked.source is not None and asked.source[0] in chronicle.checked_in:
        hosts.add(asked.source[1])
    places = asked.ask.kind in {RequestKind.PLACE, RequestKind.START_STANDBY}
    if places and asked.ask.destination_host not in naming.DESTINATION_WORDS:
        hosts.add(asked.ask.destination_host)
    return frozenset(hosts)
