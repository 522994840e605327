"""Checks before a request of our own is written. Pure.

Neither Samza's AM nor a standalone group knows any of them: nothing is written there.
"""

from __future__ import annotations

from samza_dagster.client.checks import find_processor, legal_destination
from samza_dagster.client.requests import Wanted
from samza_dagster.client.verdicts import judge_all, peers_of
from samza_dagster.client.views import ActionView, JobView, ProcessorView
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.model import PlacementResponse, TaskMode
from samza_dagster.model.capabilities import Capabilities
from samza_dagster.model.naming import ANY_HOST, STANDBY, standby_container_id
from samza_dagster.model.own_requests import RequestKind

_TOO_LATE = ("stopping", "starting", "stopping-standby", "fallback-source", "fallback-any")
_HOW_MANY = (
    "job.standbytasks.replication.factor in its config, and deploy it anew; `place` moves a standby"
)
_WHOSE = {
    "samza": "no state of ours for this deployment: Samza's AM coordinates it",
    "standalone": "a standalone group: its leader coordinates it, over ZooKeeper",
}


def require_our_coordinator(view: JobView, asked: str, kind: RequestKind) -> None:
    """Raises `Refused` where another than our coordinator leads, with what that can do instead."""
    if not view.capabilities.has_own_requests:
        raise Refused(
            f"{asked}: only samza_dagster's coordinator knows such requests",
            seen=_WHOSE.get(view.coordinator, f"the coordinator is {view.coordinator}"),
            fix=_instead(view.capabilities, kind),
        )


def _instead(can: Capabilities, kind: RequestKind) -> str:
    """Return what has the same effect where there are no such requests, or the nearest."""
    match kind:
        case RequestKind.START_STANDBY | RequestKind.STOP_STANDBY:
            return _HOW_MANY
        case RequestKind.FAIL_OVER if can.has_standby_destination:
            return "`place` --to STANDBY, or the job move_with_standby: the two swap places"
        case RequestKind.FAIL_OVER:
            return (
                "the job move_with_standby, or `place` twice: the standby away, the active onto"
                " its host"
            )
        case RequestKind.PLACE if can.places_tasks:
            return "`place` without it: a task stops only once a version of the group moves it"
        case RequestKind.PLACE:
            return "`place` without it: its AM reserves before it stops, too"
        case RequestKind.CANCEL if can.places_tasks:
            return "place it where it was: of one task the newest request counts"
        case RequestKind.CANCEL:
            return "wait for its end, and give the next one a --request-expiry"
        case _:
            return "nothing: it holds no request back"


def _standbys_of(view: JobView, active: ProcessorView) -> tuple[ProcessorView, ...]:
    """The standbys of an active's group, in order of their ids."""
    return tuple(p for p in peers_of(view, active) if p.mode is TaskMode.STANDBY)


def new_standby(view: JobView, active: ProcessorView) -> ProcessorView:
    """The standby that a `start-standby` would make, as far as a client can tell."""
    taken = {p.processor_id for p in view.processors.values()}
    replica = next(
        n
        for n in range(len(taken) + 1)
        if standby_container_id(active.processor_id, n) not in taken
    )
    return ProcessorView(
        processor_id=standby_container_id(active.processor_id, replica),
        mode=TaskMode.STANDBY,
        state="planned",
        host=None,
    )


def _active(view: JobView, processor_id: str, asked: str) -> ProcessorView:
    """The processor; raises `InvalidInput` unless it is an active. `asked` is the command."""
    active = find_processor(view, processor_id)
    if active.mode is not TaskMode.ACTIVE:
        raise InvalidInput(
            f"{asked} {processor_id}: an active's id",
            seen=f"{processor_id} is a standby",
            fix=f"{asked} {view.group_of(processor_id)}",
        )
    return active


def check_reserve(view: JobView, processor_id: str, destination: str) -> Wanted:
    """A placement that waits for its commit; raises as `legal_destination` does."""
    require_our_coordinator(view, f"place {processor_id} --hold", RequestKind.PLACE)
    legal_destination(view, find_processor(view, processor_id), destination)
    return Wanted(processor_id, destination, hold=True)


def check_start_standby(view: JobView, processor_id: str, destination: str) -> Wanted:
    """Check a request for another standby of an active; raises `InvalidInput` or `Refused`."""
    asked = f"control-standby start {processor_id}"
    require_our_coordinator(view, asked, RequestKind.START_STANDBY)
    active = _active(view, processor_id, "control-standby start")
    if any("-" in task for task in active.tasks):
        raise InvalidInput(
            asked,
            seen=f"a task name with '-': {next(t for t in active.tasks if '-' in t)}",
            fix="Samza can't keep standbys of such tasks: another partition grouper",
        )
    has = len(_standbys_of(view, active))
    if view.max_standbys is not None and has >= view.max_standbys:
        raise Refused(
            f"{asked}: at most {view.max_standbys} standbys of one active",
            seen=f"{has}",
            fix="stop one first, or raise samza.dagster.max.standbys",
        )
    standby, notices = new_standby(view, active), ()
    where = destination
    if destination == ANY_HOST:
        where = "a host that it chooses"
        verdicts = judge_all(view, standby)
        if not any(v.legal for v in verdicts):
            raise Refused(
                f"{asked}: no host is legal",
                seen="; ".join(f"{v.host}: {v.seen}" for v in verdicts) or "no host",
                fix="start an agent on another host",
            )
    else:
        notices = legal_destination(view, standby, destination).notices
    steps = (
        f"the coordinator reserves memory and cores on {where}; if it can't, nothing was changed",
        f"it starts {standby.processor_id}, which restores what {processor_id} has written",
    )
    return Wanted(processor_id, destination, subject=standby, steps=steps, notices=notices)


def check_stop_standby(view: JobView, processor_id: str) -> Wanted:
    """Return the standby to stop; an active's id means its only standby."""
    asked = f"control-standby stop {processor_id}"
    require_our_coordinator(view, asked, RequestKind.STOP_STANDBY)
    standby = find_processor(view, processor_id)
    if standby.mode is not TaskMode.STANDBY:
        standbys = _standbys_of(view, standby)
        if len(standbys) != 1:
            raise InvalidInput(
                f"{asked}: a standby's id",
                seen=f"{processor_id} is an active with standbys "
                + (", ".join(s.processor_id for s in standbys) or "none"),
                fix=f"control-standby stop {standbys[0].processor_id}"
                if standbys
                else "nothing to stop",
            )
        standby = standbys[0]
    pid = standby.processor_id
    steps = (
        f"it stops {pid} on {standby.host or 'no host'}",
        f"{pid} is removed from the job once it is seen dead",
    )
    return Wanted(pid, standby.host or ANY_HOST, subject=standby, steps=steps)


def check_fail_over(view: JobView, processor_id: str, execution_id: str | None = None) -> Wanted:
    """An active onto a standby's host; raises `InvalidInput` for a standby.

    Raises `Refused` for an active without a standby that runs, and for one that runs as another
    incarnation than `execution_id`.
    """
    asked = f"fail-over {processor_id}"
    require_our_coordinator(view, asked, RequestKind.FAIL_OVER)
    active = _active(view, processor_id, "fail-over")
    if execution_id is not None and active.execution_id not in (None, execution_id):
        raise Refused(
            f"{asked}: of incarnation {execution_id}",
            seen=f"{processor_id} is {active.execution_id} by now, on {active.host}",
            fix=f"ask again if {processor_id} is still to move",
        )
    standbys = _standbys_of(view, active)
    if not standbys:
        raise Refused(
            f"{asked}: onto a standby",
            seen="it has none",
            fix=f"control-standby start {processor_id}, or place {processor_id} --to ANY_HOST",
        )
    ready = ", ".join(s.processor_id for s in standbys if s.is_running)
    if not ready:
        states = ", ".join(f"{s.processor_id} {s.state}" for s in standbys)
        raise Refused(f"{asked}: onto a standby that runs", seen=states, fix="wait until one runs")
    places = ", ".join(f"{s.processor_id} on {s.host}" for s in standbys if s.host)
    return Wanted(
        processor_id,
        STANDBY,
        execution_id=execution_id,
        subject=active,
        steps=(
            f"the coordinator stops the standby soonest ready, of {places}",
            f"it reserves its host for {processor_id}, stops {processor_id} on"
            f" {active.host or 'no host'}, starts it there",
            "the standby starts on any other legal host",
        ),
        notices=(f"the coordinator takes the standby soonest ready, of {ready}",),
    )


def check_about(
    view: JobView,
    kind: RequestKind,
    uuid: str,
    response: PlacementResponse | None,
) -> ActionView:
    """The action that a commit, release or cancel of request `uuid` can still do something about.

    `response` is the newest one to that request. Raises `InvalidInput` for an unknown request, `Refused` for one that ended or
    whose container is being stopped.
    """
    require_our_coordinator(view, f"{kind.value} {uuid}", kind)
    if response is not None and response.status_code.is_terminal:
        raise Refused(
            f"{kind.value} request {uuid}: one that is in flight",
            seen=f"it ended: {response.status_code.value}, {response.response_message}",
            fix="nothing is left to do",
        )
    action = next((a for a in (*view.actions, *view.queued) if a.uuid == uuid), None)
    if action is None:
        raise InvalidInput(
            f"{kind.value} request {uuid}",
            seen="no such request waits or is acted on in this job",
            fix="samza-dagster status shows those that are in flight",
        )
    if action.stage in _TOO_LATE:
        raise Refused(
            f"{kind.value} request {uuid}: before its container is stopped",
            seen=f"stage {action.stage}",
            fix=f"wait for its end: samza-dagster status {uuid}",
        )
    return action
