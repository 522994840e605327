"""What must hold before a request of our own is written. Pure.

Samza's AM knows none of them: nothing is written where it coordinates.
"""

from __future__ import annotations

from samza_dagster.client.checks import find_processor, legal_destination
from samza_dagster.client.verdicts import judge_all, peers_of
from samza_dagster.client.views import ActionView, JobView, ProcessorView
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.model import PlacementResponse, TaskMode
from samza_dagster.model.naming import ANY_HOST, group_of, standby_container_id
from samza_dagster.model.own_requests import RequestKind

_TOO_LATE = ("stopping", "starting", "stopping-standby", "fallback-source", "fallback-any")


_HOW_MANY = (
    "job.standbytasks.replication.factor in its config, and deploy it anew; `place` moves a standby"
)
_ON_AN_AM = {
    RequestKind.START_STANDBY: _HOW_MANY,
    RequestKind.STOP_STANDBY: _HOW_MANY,
    RequestKind.FAIL_OVER: "the job move_with_standby, or `place` twice: the standby away, the active "
    "onto its host",
    RequestKind.PLACE: "`place` without it: its AM reserves before it stops, too",
    RequestKind.CANCEL: "wait for its end, and give the next one a --request-expiry",
}
"""What does the same, or the nearest, where Samza's own AM coordinates."""


def require_our_coordinator(view: JobView, asked: str, kind: RequestKind) -> None:
    """Raises `Refused` where Samza's own AM coordinates, with what it can do instead."""
    if view.coordinator != "samza_dagster":
        nearest = _ON_AN_AM.get(kind, "nothing: it holds no request back")
        raise Refused(
            f"{asked}: only samza_dagster's coordinator knows such requests",
            seen="no state of ours for this deployment: Samza's AM coordinates it",
            fix=nearest,
        )


def standbys_of(view: JobView, active: ProcessorView) -> tuple[ProcessorView, ...]:
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


def check_start_standby(
    view: JobView, processor_id: str, destination: str
) -> tuple[ProcessorView, ProcessorView, tuple[str, ...]]:
    """The active, the standby to come, and notices; raises `InvalidInput` or `Refused`."""
    asked = f"control-standby start {processor_id}"
    require_our_coordinator(view, asked, RequestKind.START_STANDBY)
    active = find_processor(view, processor_id)
    if active.mode is not TaskMode.ACTIVE:
        raise InvalidInput(
            f"{asked}: an active's id",
            seen=f"{processor_id} is a standby",
            fix=f"control-standby start {group_of(processor_id)}",
        )
    if any("-" in task for task in active.tasks):
        raise InvalidInput(
            asked,
            seen=f"a task name with '-': {next(t for t in active.tasks if '-' in t)}",
            fix="Samza can't keep standbys of such tasks: another partition grouper",
        )
    has = len(standbys_of(view, active))
    if view.max_standbys is not None and has >= view.max_standbys:
        raise Refused(
            f"{asked}: at most {view.max_standbys} standbys of one active",
            seen=f"{has}",
            fix="stop one first, or raise samza.dagster.max.standbys",
        )
    standby = new_standby(view, active)
    if destination == ANY_HOST:
        verdicts = judge_all(view, standby)
        if not any(v.legal for v in verdicts):
            raise Refused(
                f"{asked}: no host is legal",
                seen="; ".join(f"{v.host}: {v.seen}" for v in verdicts) or "no host",
                fix="start an agent on another host",
            )
        return active, standby, ()
    return active, standby, legal_destination(view, standby, destination).notices


def check_stop_standby(view: JobView, processor_id: str) -> ProcessorView:
    """The standby to stop; an active's id stands for its only standby."""
    asked = f"control-standby stop {processor_id}"
    require_our_coordinator(view, asked, RequestKind.STOP_STANDBY)
    processor = find_processor(view, processor_id)
    if processor.mode is TaskMode.STANDBY:
        return processor
    standbys = standbys_of(view, processor)
    if len(standbys) != 1:
        raise InvalidInput(
            f"{asked}: a standby's id",
            seen=f"{processor_id} is an active with standbys "
            + (", ".join(s.processor_id for s in standbys) or "none"),
            fix=f"control-standby stop {standbys[0].processor_id}"
            if standbys
            else "nothing to stop",
        )
    return standbys[0]


def check_fail_over(
    view: JobView, processor_id: str, execution_id: str | None = None
) -> tuple[ProcessorView, tuple[str, ...]]:
    """The active, and notices; raises `InvalidInput` for a standby or an active without one.

    Also for one that runs as another incarnation than `execution_id`.
    """
    asked = f"fail-over {processor_id}"
    require_our_coordinator(view, asked, RequestKind.FAIL_OVER)
    active = find_processor(view, processor_id)
    if active.mode is not TaskMode.ACTIVE:
        raise InvalidInput(
            f"{asked}: an active's id",
            seen=f"{processor_id} is a standby",
            fix=f"fail-over {group_of(processor_id)}",
        )
    if execution_id is not None and active.execution_id not in (None, execution_id):
        raise Refused(
            f"{asked}: of incarnation {execution_id}",
            seen=f"{processor_id} is {active.execution_id} by now, on {active.host}",
            fix=f"ask again if {processor_id} is still to move",
        )
    standbys = standbys_of(view, active)
    if not standbys:
        raise Refused(
            f"{asked}: onto a standby",
            seen="it has none",
            fix=f"control-standby start {processor_id}, or place {processor_id} --to ANY_HOST",
        )
    ready = [s for s in standbys if s.is_running]
    if not ready:
        states = ", ".join(f"{s.processor_id} {s.state}" for s in standbys)
        raise Refused(f"{asked}: onto a standby that runs", seen=states, fix="wait until one runs")
    return active, (
        f"the coordinator takes the standby soonest ready, of {', '.join(s.processor_id for s in ready)}",
    )


def check_about(
    view: JobView,
    kind: RequestKind,
    uuid: str,
    *,
    action: ActionView | None,
    response: PlacementResponse | None,
) -> ActionView:
    """The action that a commit, release or cancel of request `uuid` can still do something about.

    Raises `InvalidInput` for a request that nobody knows, `Refused` for one that ended or
    whose container is being stopped.
    """
    require_our_coordinator(view, f"{kind.value} {uuid}", kind)
    if response is not None and response.status_code.is_terminal:
        raise Refused(
            f"{kind.value} request {uuid}: one that is in flight",
            seen=f"it ended: {response.status_code.value}, {response.response_message}",
            fix="nothing is left to do",
        )
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
