"""What a client is told: the words say what is so, with the right names in them."""

from __future__ import annotations

import re

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Action,
    AskKind,
    Group,
    JobState,
    PlacementAsk,
    Stage,
)
from samza_dagster.simulation.judges.chronicle import CONTROLS, TERMINAL, Chronicle
from samza_dagster.simulation.judges.kept_down import may_be_down
from samza_dagster.simulation.judges.legality import subject_of, takes_place_on
from samza_dagster.simulation.judges.refusals import refusal
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.turns import first_ready, is_ready, is_swap, waits_for_host
from samza_dagster.simulation.judges.violation import TRUE_WORDS

_REQUESTED = "Preferred Resources requested"
_STOPPING = "Active container stop in progress"
_STANDBY_STOPPING = "Standby container stop in progress"
_NO_PLACE = "there was no taking the place of "
_FAILED = "failed the ContainerPlacement action because "


def judge_words(chronicle: Chronicle, taken: Taken) -> None:
    """Every response of a step, and that each that is due was given."""
    last: dict[str, cmd.WriteResponse] = {}
    for response in taken.every(cmd.WriteResponse):
        chronicle.premises[TRUE_WORDS] += 1
        _judge_response(chronicle, taken, response)
        last[response.uuid] = response
    if isinstance(taken.event, ev.RequestArrived):
        _judge_arrival(chronicle, taken, taken.event, last)
    for old, new in taken.changed:
        _judge_answered(chronicle, taken, old, new, last)


def _judge_response(chronicle: Chronicle, taken: Taken, response: cmd.WriteResponse) -> None:
    asked = chronicle.asked.get(response.uuid)
    if asked is None:
        return
    ask = asked.ask
    if (response.deployment_id, response.request_expiry_ms) != (ask.deployment_id, ask.expiry_ms):
        raise taken.broken(TRUE_WORDS, f"{response} doesn't answer {ask}")
    if not taken.restarted and response.timestamp_ms != taken.now_ms:
        raise taken.broken(TRUE_WORDS, f"{response} was given at {taken.now_ms}")
    if not response.message:
        raise taken.broken(TRUE_WORDS, f"{response} says nothing")
    match response.status:
        case "ACCEPTED":
            _judge_accepted(taken, ask, response.message)
        case "SUCCEEDED":
            _judge_succeeded(taken, ask, response.message)
        case "FAILED" if not taken.restarted:
            if not _is_true_failure(taken, ask, response.message):
                raise taken.broken(TRUE_WORDS, f"{ask.uuid} FAILED: {response.message!r}")
        case "BAD_REQUEST":
            if not re.fullmatch(r"BAD_REQUEST reason: .+", response.message):
                raise taken.broken(TRUE_WORDS, f"{ask.uuid}: {response.message!r}")
        case _:
            pass


def _judge_arrival(
    chronicle: Chronicle,
    taken: Taken,
    event: ev.RequestArrived,
    last: dict[str, cmd.WriteResponse],
) -> None:
    """A request that was taken is answered; it is refused if a rule says so, and only then."""
    ask, said = event.ask, last.get(event.ask.uuid)
    new = ask.uuid in taken.after.uuids and ask.uuid not in taken.before.uuids
    if ask.deployment_id != taken.before.deployment_id or not new:
        return
    if said is None:
        raise taken.broken(TRUE_WORDS, f"{ask.uuid} was taken, and isn't answered")
    words = refusal(taken, event)
    if (said.status == "BAD_REQUEST") != (words is not None):
        raise taken.broken(TRUE_WORDS, f"{ask.uuid} is {said.status}, to be refused for {words}")
    if words is not None and not all(word in said.message for word in words):
        raise taken.broken(TRUE_WORDS, f"{said.message!r} doesn't name {words}")


def _judge_answered(
    chronicle: Chronicle,
    taken: Taken,
    old: Group | None,
    new: Group | None,
    last: dict[str, cmd.WriteResponse],
) -> None:
    """The action's last response is what the state says; one that is over has its outcome."""
    action = None if new is None else new.action
    before = None if old is None else old.action
    if action is not None:
        said = last.get(action.ask.uuid)
        fresh = before is None or before.ask.uuid != action.ask.uuid
        if said is None and fresh:
            raise taken.broken(TRUE_WORDS, f"{action.ask.uuid} began, and nobody was told")
        if said is not None and (said.status, said.message, said.timestamp_ms) != (
            action.status,
            action.message,
            action.response_ms,
        ):
            raise taken.broken(TRUE_WORDS, f"{said}, by the state {action}")
        if (said is None and before is not None and not fresh) and (
            (before.status, before.message, before.response_ms)
            != (
                action.status,
                action.message,
                action.response_ms,
            )
        ):
            raise taken.broken(TRUE_WORDS, f"{action} was told otherwise")
        if action.status == "IN_PROGRESS" and new is not None:
            _judge_progress(taken, before, action)
    known = [] if old is None else [*old.queue, *([old.action.ask] if old.action else ())]
    left = set[str]() if new is None else {ask.uuid for ask in new.queue}
    if action is not None:
        left.add(action.ask.uuid)
    for ask in known:
        asked = chronicle.asked.get(ask.uuid)
        if ask.uuid not in left and asked is not None and asked.terminal not in TERMINAL:
            raise taken.broken(TRUE_WORDS, f"{ask.uuid} is over, and nobody was told")


def _judge_progress(taken: Taken, before: Action | None, action: Action) -> None:
    """Samza's words for each stage."""
    stage, ask = action.stage, action.ask
    expected: tuple[str, ...]
    match stage:
        case Stage.RESERVING | Stage.RESERVING_STANDBY:
            expected = (_REQUESTED,)
        case Stage.STOPPING_STANDBY:
            expected = (_STANDBY_STOPPING,)
        case Stage.STOPPING:
            stops = ask.kind is AskKind.STOP_STANDBY
            expected = (_STANDBY_STOPPING if stops else _STOPPING,)
        case Stage.HELD:
            if before is not None and (before.stage, before.message) == (stage, action.message):
                return  # as it was told, whatever the limits are by now
            limits, held = taken.after.limits, action.reservation
            ms = limits.request_timeout_ms if ask.expiry_ms is None else ask.expiry_ms
            host = None if held is None else held.allocated_host
            expected = (f"Reserved on host {host}, waits for commit, let go in {ms / 1000:g} s",)
        case _:
            expected = (_REQUESTED, _STOPPING, _STANDBY_STOPPING)
            if ask.kind is AskKind.FAIL_OVER and action.message.startswith(_NO_PLACE):
                expected = (action.message,)
    if action.message not in expected:
        raise taken.broken(TRUE_WORDS, f"{ask.uuid} is {stage}: {action.message!r}")


def _judge_accepted(taken: Taken, ask: PlacementAsk, message: str) -> None:
    """For what it waits, as the state has it after the step."""
    state = taken.after
    group = state.groups.get(naming.group_of(ask.processor_id))
    if group is None or ask not in group.queue:
        return
    words = _waits_for(state, group, ask)
    if not message.startswith("Request is accepted; wait") or words not in message:
        raise taken.broken(TRUE_WORDS, f"{ask.uuid} waits for {words}: {message!r}")


def _waits_for(state: JobState, group: Group, ask: PlacementAsk) -> str:
    if group.action is not None:
        busy = group.action.ask
        return f"waits for action {busy.uuid} on {busy.processor_id} of the same group"
    if group.failover is not None:
        return f"until {group.failover.active_id} has failed over"
    if not is_ready(group, ask):
        return f"until {ask.processor_id} runs"
    first = first_ready(group)
    if first is not None and first.uuid != ask.uuid:
        return f"for request {first.uuid} of the same group, which is older"
    acting = sum(
        other.action is not None and other.action.status == "IN_PROGRESS"
        for other in state.groups.values()
    )
    if acting >= state.limits.max_concurrent_actions:
        return "because"
    if is_swap(ask):
        return ""  # which standby's host counts, its turn decides
    if not waits_for_host(state, group, ask):
        return "until the hosts have registered"
    return f"because {state.limits.max_actions_per_host} actions touch "


def _judge_succeeded(taken: Taken, ask: PlacementAsk, message: str) -> None:
    started = [
        both
        for both in taken.both
        if both.was is not None and both.was.phase.value == "starting" and both.was.incarnation
    ]
    hosts = {both.was.incarnation.host for both in started if both.was and both.was.incarnation}
    match ask.kind:
        case AskKind.COMMIT:
            expected = {f"Request {ask.refers_to} goes on"}
        case AskKind.CANCEL:
            expected = {f"Request {ask.refers_to} is cancelled"}
        case AskKind.RELEASE:
            expected = {f"Request {ask.refers_to} is released"}
        case AskKind.STOP_STANDBY:
            expected = {f"Successfully stopped and removed standby container {ask.processor_id}"}
        case AskKind.START_STANDBY:
            expected = {
                f"Successfully started standby container {both.processor_id} on host "
                f"{both.was.incarnation.host}"
                for both in started
                if both.was and both.was.incarnation
            }
        case _:
            if ask.kind is AskKind.FAIL_OVER:
                hosts &= _left_to(taken, ask.processor_id)
            done = "Successfully completed the container placement action started container on host"
            expected = {f"{done} {host}" for host in hosts}
    if message not in expected:
        raise taken.broken(TRUE_WORDS, f"{ask.uuid}: {message!r} instead of {expected}")


def _left_to(taken: Taken, active_id: str) -> set[str]:
    """The hosts that standbys have left to an active, by what led it as it checked in."""
    group = taken.before.groups.get(naming.group_of(active_id))
    host = None if group is None else takes_place_on(group, active_id)
    return set[str]() if host is None else {host}


def _elsewhere(taken: Taken, action: Action) -> set[str]:
    """A fail-over whose active checks in where no standby was: why, and on which host it runs."""
    active_id = action.ask.processor_id
    now = taken.after.groups[naming.group_of(active_id)].processors[active_id].incarnation
    if now is None or now.host in _left_to(taken, active_id):
        return set()
    why = action.message
    return {
        f"{_FAILED}{why}; container {active_id} was started on host {now.host} instead, and runs "
        "there"
    }


def _leaves_out(action: Action, told: str, begun: bool) -> bool:
    """The rest of an expired request's reason: each host that it left out, and why, no other."""
    asked = action.reservation
    if asked is None or asked.allocated_host is not None:
        asked = action.standby_reservation
    hosts = () if asked is None else asked.excluded_hosts
    if not begun or not hosts:
        return begun and not told
    parts = told.removeprefix("; left out: ").split(" | ")
    named = [part.partition(": ")[0] for part in parts if not part.startswith("and ")]
    return (
        told.startswith("; left out: ")
        and named == list(hosts[: len(named)])
        and (len(named) == len(hosts) or parts[-1] == f"and {len(hosts) - len(named)} more")
        and all(part.partition(": ")[2] for part in parts[: len(named)])
    )


def _is_true_failure(taken: Taken, ask: PlacementAsk, message: str) -> bool:
    """Whether this is one of the ways to fail, and names whom and what it should."""
    event = taken.event
    group = taken.before.groups.get(naming.group_of(ask.processor_id))
    action = None if group is None else group.action
    if action is not None and action.ask.uuid != ask.uuid:
        action = None
    if isinstance(event, ev.JobDeployed):
        return message == f"{_FAILED}deployment {event.deployment_id} began"
    if (isinstance(event, ev.RequestArrived) and event.ask.refers_to == ask.uuid) and (
        event.ask.kind.value in CONTROLS
    ):
        return _is_given_up(taken, event.ask, action, message)
    if action is None:
        # It was refused when its turn came, or ended in the step in which it began.
        there = group is not None and ask.processor_id in group.processors
        return bool(message) and (there or _names_who_is_left(taken, ask, message))
    subject = subject_of(action)
    standby, source, target = action.standby_id, action.source_host or "", action.target_host or ""
    held = action.reservation.allocated_host if action.reservation is not None else None
    if message.startswith(f"{_FAILED}request for resources to ClusterManager expired: "):
        why = message.partition("expired: ")[2]
        down = f"; container {subject} is down, it is started again"
        if why.endswith(down) not in may_be_down(taken, subject):
            return False
        why = why.removesuffix(down)
        if isinstance(event, ev.RequestExpired):
            return _leaves_out(action, why.removeprefix(event.why), event.why in why)
        if isinstance(event, ev.TimePassed):
            silent = "the cluster gave no answer in time"
            return _leaves_out(action, why.removeprefix(silent), silent in why)
        return bool(why)
    reached = [
        both.was.incarnation.host
        for both in taken.both
        if both.processor_id == subject and both.was is not None and both.was.incarnation
    ]
    reached += [
        both.was.request.allocated_host or both.was.request.host or ""
        for both in taken.both
        if both.processor_id == subject and both.was is not None and both.was.request
    ]
    reached += [held] if held else []
    reached += [event.host] if isinstance(event, ev.ResourceAllocated) else []
    home = source if taken.after.limits.host_affinity and source else "ANY_HOST"
    alone = "ended by itself"
    fine = {
        f"{_FAILED}host {held} did not confirm its reservation in time; the container runs on "
        "untouched"
        if action.committed
        else f"{_FAILED}the reservation on host {held} was not committed in time; the container "
        "runs on untouched",
        f"{_FAILED}container {subject} {alone} before it was stopped; it is started again",
        f"{_FAILED}standby container {standby} {alone}; the active runs on untouched",
        f"{_FAILED}the standby is needed: active container {naming.group_of(subject)} fails over "
        "to its host",
    }
    fine |= {
        f"{_FAILED}host {host} fell silent"
        for host in (source, target, held)
        if host and (host in taken.lost_now or not taken.after.hosts[host].alive)
    }
    if isinstance(event, ev.StopFailed):
        fine.add(f"failed to stop container on current host {event.host}")
    for host in reached:
        fine |= {
            f"failed to start container on destination host {host}, attempting to start on "
            f"source host {home}",
            f"failed to start standby container {subject} on host {host}; it is given up",
            f"allocated resource on host {host} does not meet standby constraints now, falling "
            "back to source host",
        }
    if ask.kind is AskKind.FAIL_OVER and isinstance(event, ev.ContainerCheckedIn):
        fine |= _elsewhere(taken, action)
    if isinstance(event, ev.HostRegistered | ev.ContainerCheckedIn | ev.ContainerLaunched):
        fine.add(
            f"{_FAILED}host {event.host} came back with the container running; it runs on there"
        )
    return message in fine


def _names_who_is_left(taken: Taken, ask: PlacementAsk, message: str) -> bool:
    """Its processor was removed while it waited: Samza's words, the rule, and whom it may name."""
    # One that this very step takes away, or adds, may be named or not.
    known = sorted(_wanted(taken.before) & _wanted(taken.after))
    rule = f"; processor-known: no processor {ask.processor_id} in this job; "
    return (
        message.startswith("invalid processor id")
        and rule in message
        and all(pid in message for pid in known[:40])
    )


def _wanted(state: JobState) -> set[str]:
    return {
        pid for group in state.groups.values() for pid, p in group.processors.items() if p.wanted
    }


def _is_given_up(taken: Taken, control: PlacementAsk, action: Action | None, message: str) -> bool:
    word = "released" if control.kind is AskKind.RELEASE else "cancelled"
    untouched = (
        "released: what was reserved is given back, the container runs on untouched"
        if control.kind is AskKind.RELEASE
        else "cancelled before anything was stopped; the container runs on untouched"
    )
    if action is None:
        return message == f"{word} before it began; nothing was touched"
    group = taken.before.groups[naming.group_of(action.ask.processor_id)]
    subject = group.processors.get(subject_of(action))
    if subject is not None and subject.incarnation is None:
        name = subject.processor_id
        return message == f"{word}; container {name} had ended by itself, it is started again"
    if action.target_host and action.stage is not Stage.RESERVING_STANDBY:
        gone = f"standby {action.standby_id} gave way; the active runs on untouched"
        return message == f"{word} after {gone}"
    return message == untouched
