"""What a message claims is so: what runs on, what is started again, which host, what is waited for."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Group, PlacementAsk, SpinUp, Stage
from tests.simulation.judges.legality import group_with, is_down, requests_of
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.turns import first_ready, is_acting, is_ready
from tests.simulation.judges.violation import TRUE_WORDS

_MOVES = (RequestKind.PLACE, RequestKind.FAIL_OVER)
_RUNS_ON = ("runs on untouched", "it runs on there")
_STARTS_AGAIN = "is started again"
_NOTHING_STOPPED = "before anything was stopped"
_GAVE_WAY = "gave way"
_BLAMED = (
    "failed to stop container on current host {}",
    "because host {} came back",
    "because host {} fell silent",
)


def judge_claims(taken: Taken, ask: PlacementAsk, response: cmd.WriteResponse) -> None:
    """Of a response that is said for the first time; one that waits says anew for what."""
    if response.status == "ACCEPTED":
        _judge_wait(taken, ask, response)
    if response.status == "FAILED" and not taken.restarted:
        _judge_what_runs(taken, ask, response)
        _judge_what_was_stopped(taken, response)
        _judge_blamed(taken, response)
        _judge_way_back(taken, ask, response)


def judge_evidence(taken: Taken) -> None:
    """Of who was seen dead it is recorded how: with which exit status, or why it never ran."""
    event = taken.event
    if not isinstance(event, ev.ContainerStopped | ev.StartFailed):
        return
    for said in taken.every(cmd.RecordCertificate):
        end = said.record
        if end.kind != "end" or end.execution_id != event.execution_id:
            continue
        if isinstance(event, ev.StartFailed):
            fine = event.why in end.evidence
        elif event.exit_status is None:
            fine = event.host in end.evidence and "exit status" not in end.evidence
        else:
            fine = end.evidence.endswith(f", exit status {event.exit_status}")
        if not fine:
            raise taken.broken(TRUE_WORDS, f"{end} doesn't tell what was seen")


def _judge_wait(taken: Taken, ask: PlacementAsk, response: cmd.WriteResponse) -> None:
    """It names what its turn waits for."""
    state = taken.before if taken.restarted else taken.after
    group = next((group for group in state.groups.values() if ask in group.queue), None)
    if group is None:
        return
    words = _waits_for(group, ask)
    if words:
        fine = all(word in response.message for word in words)
    else:
        acting = sum(map(is_acting, state.groups.values()))
        so = {
            "actions touch ": True,
            "actions are in flight": acting >= state.limits.max_concurrent_actions,
            "hosts have registered": taken.restarted,
        }
        fine = any(claim in response.message and true for claim, true in so.items())
    if not fine:
        raise taken.broken(TRUE_WORDS, f"{response} waits for {words or 'its turn'}")


def _waits_for(group: Group, ask: PlacementAsk) -> tuple[str, ...]:
    """What in its group keeps a request from its turn; nothing where only the job does."""
    if group.action is not None:
        return ("waits for action", group.action.ask.uuid, group.action.ask.processor_id)
    if group.failover is not None:
        return (f"until {group.failover.active_id} has failed over",)
    if not is_ready(group, ask):
        return (f"until {ask.processor_id} runs",)
    first = first_ready(group)
    return () if first is None or first == ask else (first.uuid, "which is older")


def _judge_what_runs(taken: Taken, ask: PlacementAsk, response: cmd.WriteResponse) -> None:
    """Of a move: what is said to run on has a process, what is started again has none."""
    group = group_with(taken.after, ask.processor_id)
    if ask.kind not in _MOVES or group is None:
        return
    down = is_down(group, ask.processor_id)
    false = _RUNS_ON if down else (_STARTS_AGAIN,)
    if any(words in response.message for words in false):
        raise taken.broken(TRUE_WORDS, f"{response}, and it is {'down' if down else 'up'}")
    old = group_with(taken.before, ask.processor_id)
    was = None if old is None else old.action
    if was is None or was.ask.uuid != ask.uuid or was.stage is not Stage.RESERVING:
        return
    untold = _STARTS_AGAIN not in response.message and ask.processor_id not in response.stopped
    if down and untold and not taken.redeployed and "is needed" not in response.message:
        raise taken.broken(TRUE_WORDS, f"{response} doesn't say that its container is down")


def _judge_what_was_stopped(taken: Taken, response: cmd.WriteResponse) -> None:
    """Where nothing was stopped nobody is named, and a standby that gave way is."""
    said = response.message
    nothing = _NOTHING_STOPPED in said and response.stopped
    nobody = _GAVE_WAY in said and not any(
        f"standby {name} {_GAVE_WAY}" in said for name in response.stopped
    )
    if nothing or nobody:
        raise taken.broken(TRUE_WORDS, f"{response} has stopped {response.stopped}")


def _judge_blamed(taken: Taken, response: cmd.WriteResponse) -> None:
    """A host that couldn't stop, fell silent or came back is one that the step is about."""
    event, about = taken.event, set(taken.lost_now)
    if isinstance(
        event,
        ev.StopFailed
        | ev.HostRegistered
        | ev.HostLost
        | ev.ContainerLaunched
        | ev.ContainerCheckedIn,
    ):
        about.add(event.host)
    for words in _BLAMED:
        before, after = words.split("{}")
        blames = before in response.message and after in response.message
        if blames and not any(words.format(host) in response.message for host in about):
            raise taken.broken(TRUE_WORDS, f"{response}, it is about {sorted(about)}")


def _judge_way_back(taken: Taken, ask: PlacementAsk, response: cmd.WriteResponse) -> None:
    """Of a start that failed: where it was to be, and where the container goes now."""
    old = group_with(taken.before, ask.processor_id)
    action = None if old is None else old.action
    if (
        old is None
        or action is None
        or "attempting to start on source host" not in response.message
    ):
        return
    source = None if isinstance(action, SpinUp) else action.source_host
    source = source if taken.after.limits.host_affinity else None
    back = response.message.endswith(f" on source host {source or naming.ANY_HOST}")
    runs = old.processors[ask.processor_id].incarnation
    places = {request.allocated_host or request.host for _, request in requests_of(old)}
    places |= set[str | None]() if runs is None else {runs.host}
    if not back or not any(f" on destination host {host}," in response.message for host in places):
        raise taken.broken(TRUE_WORDS, f"{response}: from {places}, back to {source or 'any'}")
