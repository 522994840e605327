"""The ops that act: the standby makes room; reserve, stop, move; the end is verified.

With our coordinator the phases are real: a request that holds its destination, then a commit. Samza's
protocol has no hold: the first op asks for everything, and the others observe it. A phase that finds
its request failed asks again only in a re-execution, so a run never does more than it was launched for.

Other ops start an extra standby of an active, wait until it is warm, and give it up for its move.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dagster as dg

from samza_dagster.client import JobView, PlacementClient, ProcessorView
from samza_dagster.errors import ActionFailed, Refused, SamzaDagsterError
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import FORCE_RESTART_LAST_SEEN, STANDBY
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.config import MoveViaNewStandbyConfig
from samza_dagster.orchestration.moves.planning import plan_op
from samza_dagster.orchestration.operations.planning import PLAN
from samza_dagster.orchestration.operations.step import REMOVE, REMOVE_STANDBY, StepOp
from samza_dagster.orchestration.plans import decisions
from samza_dagster.orchestration.plans.move import (
    ACTIVE,
    LOST,
    NEW_RUN,
    RUNNING,
    MovePlan,
    find_processor,
    host_for_standby,
    host_map,
)
from samza_dagster.orchestration.plans.units import NEW, Kind, UnitStep
from samza_dagster.orchestration.requests.follow import (
    Row,
    errors_as_failures,
    first_commit_seconds,
    hosts_for,
    map_metadata,
    outcome_metadata,
    phase_seconds,
    timeline_shown,
    timeline_table,
)
from samza_dagster.orchestration.requests.step_request import (
    HELD,
    RESERVING,
    STOPPING,
    StepRequest,
    has_failed,
    is_of_step,
    last_success,
    newest_starts,
    on_record,
    stage_named,
    started_anew,
)
from samza_dagster.orchestration.requests.verify import not_running
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.text import clock

RELOCATE = "relocate_standby"
MOVE = "move"
SPIN_UP = "spin_up"
HOLDS = "asks: holds the destination until op stop commits"
COMMITS = "asks: commits what op reserve holds"
ALL_IN_ONE = "asks: one request does all phases, the next ops observe it"
NO_HOLD = f"{ALL_IN_ONE}; Samza's wire has no hold"
OBSERVES = "observes the request that op {asker} made"


@dg.op(out=dg.Out(StepRequest, description="The standby's request, or the one of the whole move."))
def move_standby_away(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> StepRequest:
    """Frees the host of the standby, which goes elsewhere.

    On our coordinator it asks for the whole move, or fail-over, as one crash-proof
    action and ends when the standby is down; else it moves the standby by a request of
    its own, to a host away from source and destination.
    """
    return carry_out(context, samza, plan, MoveOp.make_room)


@dg.op(out=dg.Out(StepRequest, description="The request, its destination reserved."))
def reserve(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    samza: SamzaClientResource,
    begun: StepRequest | None = None,
) -> StepRequest:
    """Reserves the destination. On our coordinator it is held and nothing is stopped yet."""
    return carry_out(context, samza, plan, lambda op: op.reserve(begun))


@dg.op(out=dg.Out(StepRequest, description="The request, its container stopped."))
def stop(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    reserved: StepRequest,
    samza: SamzaClientResource,
) -> StepRequest:
    """Commit the hold: the container is stopped, which can't be undone."""
    return carry_out(context, samza, plan, lambda op: op.stop(reserved))


@dg.op(out=dg.Out(StepRequest, description="How the container's request ended."))
def move(
    context: dg.OpExecutionContext, plan: MovePlan, stopped: StepRequest, samza: SamzaClientResource
) -> StepRequest:
    """The container starts on its destination and checks in there."""
    return carry_out(context, samza, plan, lambda op: op.start(stopped))


def carry_out(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: MovePlan,
    work: Callable[["MoveOp"], StepRequest],
) -> StepRequest:
    """Carries out one phase of the plan, and tells it in the op's metadata."""
    with move_op(context, samza, plan) as op:
        outcome = work(op)
    context.add_output_metadata(outcome_metadata(outcome, op.role))
    return outcome


class MoveOp(StepOp):
    """Carries out one op of a move; `role` says whether the op has asked."""

    def __init__(
        self, context: dg.OpExecutionContext, samza: SamzaClientResource, plan: MovePlan
    ) -> None:
        super().__init__(context, samza, plan)
        self.role = ""
        self.plan = plan
        self.is_again = context.run.parent_run_id is not None

    def make_room(self) -> StepRequest:
        """Have the standby leave, or go down so that its host is free for the active."""
        plan, standby = self.plan, self.plan.standby
        if plan.destination == STANDBY:
            return self._move(None, lambda request: request.has_reached(RESERVING))
        assert standby is not None
        asked = self.find(RELOCATE, standby, plan.makes_room)
        view = self.client.view()
        if asked.destination is None:
            host = find_processor(view, standby, NEW_RUN).host
            if host != plan.destination:
                return _nothing(RELOCATE, host)
        self.role = "asks: a request of its own for the standby"
        ends = (plan.source_host, plan.destination, plan.allowed_hosts)
        away = asked.destination or host_for_standby(view, standby, *ends, makes_room=True)
        return self.ask(UnitStep(RELOCATE, Kind.PLACE, standby, away, at_once=True), asked)

    def reserve(self, begun: StepRequest | None) -> StepRequest:
        """Reserve the destination; on our coordinator it is held, and nothing was stopped."""
        asked = begun if begun is not None and begun.step == MOVE else None

        def is_reserved(request: StepRequest) -> bool:
            return request.has_reached(HELD if request.hold else STOPPING)

        self.role = OBSERVES.format(asker="move_standby_away")
        return self._move(asked, is_reserved, commits=False)

    def stop(self, reserved: StepRequest) -> StepRequest:
        """Stop the container; wait until it is dead where the coordinator tells that."""
        tells = capabilities(self.plan.coordinator).tells_what_runs

        def is_dead(request: StepRequest) -> bool:
            if not request.has_reached(STOPPING):
                return False
            actions = self.client.view().actions if tells else ()
            stages = {
                stage_named(action.stage) for action in actions if action.uuid == request.uuid
            }
            return STOPPING not in stages

        stopped = self._move(reserved, is_dead)
        is_committed = stopped.hold and not reserved.ended
        self.role = COMMITS if is_committed else _observes(stopped)
        return stopped

    def start(self, stopped: StepRequest) -> StepRequest:
        """Wait until the container has started and checked in at its destination."""
        ended = self._move(stopped, lambda request: request.ended)
        self.role = _observes(ended)
        if not self.plan.limits.verify_timeout_s or self.plan.of_standby:
            return ended
        # The former process is dead: what is committed from here on is its successor's.
        self.commits.since(self.mover(ended), self.client.checkpoints_end)
        return replace(ended, since_ms=time.time_ns() // 1_000_000)

    def mover(self, ended: StepRequest) -> str:
        """Return the name under which the run remembers where the moved container's commits begin."""
        return ended.uuid or self.plan.processor

    def _move(
        self,
        begun: StepRequest | None,
        until: Callable[[StepRequest], bool],
        *,
        commits: bool = True,
    ) -> StepRequest:
        """Ask the container's own request, or go on with what an earlier op has `begun`."""
        plan = self.plan
        if begun is not None and (begun.ended or not self._has_failed_since(begun)):
            if begun.ended or until(begun):
                return begun
            return self.ask(
                self._step(begun.destination or ""), begun, until=until, commits=commits
            )
        asked, view = self.find(MOVE, plan.processor, plan.means), self.client.view()
        if asked.destination is None:
            host = find_processor(view, plan.processor, NEW_RUN).host
            if plan.standby is not None and host == plan.expected_host:
                self.role = ""
                return _nothing(MOVE, host)
        step = self._step(asked.destination or _destination(plan, view))
        can = capabilities(plan.coordinator).has_own_requests
        self.role = ALL_IN_ONE if can else NO_HOLD
        if step.is_held_by(plan.coordinator):
            self.role = HOLDS
        return self.ask(step, asked, until=until, commits=commits)

    def _has_failed_since(self, begun: StepRequest) -> bool:
        """Return whether the request has failed since an earlier run, so that this run asks again."""
        latest = on_record(self.client, begun.uuid) if self.is_again else None
        return latest is not None and has_failed(self.client, latest)

    def _step(self, destination: str) -> UnitStep:
        plan = self.plan
        of_plan = (plan.kind, plan.processor, destination)
        return UnitStep(MOVE, *of_plan, plan.beyond_budget, plan.execution_id)


def _observes(request: StepRequest) -> str:
    asker = "move_standby_away" if request.destination == STANDBY else "reserve"
    return OBSERVES.format(asker=asker)


def _destination(plan: MovePlan, view: JobView) -> str:
    """Return STANDBY, or its former host by name once the standby has left that host."""
    standby = view.processors.get(plan.standby) if plan.standby is not None else None
    if plan.destination != STANDBY or plan.kind is Kind.FAIL_OVER or standby is None:
        return plan.destination
    return STANDBY if standby.host == plan.standby_host else str(plan.standby_host)


def _nothing(step: str, host: str | None) -> StepRequest:
    """Return the outcome of a step that has nothing to ask."""
    return StepRequest(step, "", 0, "SUCCEEDED", "nothing to ask", host or "")


@contextmanager
def move_op(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: MovePlan,
    standby: str | None = None,
) -> Generator[MoveOp]:
    """Yield the op of a move; turn errors into failures, and settle the plan's extra `standby` then.

    Only a plan with `if_it_fails` settles it. The log and the failure's metadata say what was done.
    Without `standby` it is the one that is being started. It is too late to cancel that one: if it is
    to be removed, its start is awaited for at most the plan's `timeout_s`.
    """
    apart = context.op.name == "move_standby_away" and plan.destination != STANDBY
    about = plan.standby if apart and plan.standby else plan.processor

    def explain() -> Sequence[Row]:
        kind = plan.kind if plan.kind is Kind.START_STANDBY else Kind.PLACE
        return hosts_for(samza.client, about, kind)

    def settle() -> str:
        if not plan.if_it_fails:
            return ""
        try:
            op = MoveOp(context, samza, plan)
            found = standby or plan.standby or _started(op)
        except (SamzaDagsterError, dg.Failure) as error:
            told = f"what became of the new standby isn't known: {error}"
            context.log.warning(told)
            return told
        if found is None:
            return ""
        return op.settle(
            *(found, plan.destination, plan.if_it_fails),
            started_by=SPIN_UP,
            step=REMOVE_STANDBY,
            anew="launch a new run to begin anew",
        )

    try:
        with errors_as_failures(explain if standby is None else None):
            yield MoveOp(context, samza, plan)
    except dg.Failure as failure:
        outcome = settle()
        if not outcome:
            raise
        raise dg.Failure(
            description=f"{failure.description} ({outcome})",
            metadata={**failure.metadata, "extra_standby": outcome},
            allow_retries=False,
        ) from failure
    except dg.DagsterExecutionInterruptedError:
        settle()
        raise


def _started(op: MoveOp) -> str | None:
    """Return the standby that the run's request has started, or starts; None for none."""
    plan = op.plan
    asked = op.find(SPIN_UP, plan.processor, plan.means)
    if asked.destination is None:
        return None
    step = UnitStep(SPIN_UP, Kind.START_STANDBY, plan.processor, asked.destination)
    if not asked.ended and plan.if_it_fails == REMOVE:
        asked = op.ask(step, asked)
    return asked.started if asked.succeeded else None


@dg.op(out=dg.Out(str, description="Where the container runs."))
def verify_placement(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    outcomes: list[StepRequest],
    samza: SamzaClientResource,
) -> Iterator[dg.Output[str]]:
    """Checks that the container runs where it was sent and, an active, that it processes again.

    The pictures of its log come after its output: what a run's page shows first is what came last.
    """
    moved = outcomes[-1]
    with errors_as_failures():
        op, started = MoveOp(context, samza, plan), time.monotonic()
        verified = _verified(op, moved, _there(op.client.view(), plan))
        committed_ms = time.time_ns() // 1_000_000
        view = (
            op.client.view()
        )  # what processes by now may be what somebody else has moved meanwhile
        processor, after = _there(view, plan), host_map(view)
    told = [outcome for outcome in outcomes if outcome is moved or outcome.uuid != moved.uuid]
    moments = [moment for outcome in told for moment in outcome.timeline]
    seconds = {k: v for outcome in told for k, v in phase_seconds(outcome).items()}
    if not op.is_again:  # else the commit may be older than this run
        seconds |= first_commit_seconds(moved, committed_ms)
    yield dg.Output(
        processor.host or "",
        metadata={
            "timeline": timeline_shown(moments),
            **map_metadata(plan.before, after),
            "timeline_table": timeline_table(moments),
            **seconds,
            "verify_seconds": round(time.monotonic() - started, 3),
            "verified": verified,
            "execution_id": processor.execution_id or "-",
            **{f"{outcome.step}_request": outcome.uuid for outcome in told if outcome.uuid},
        },
    )
    context.log.info(f"{plan.processor} runs on {processor.host}; {verified}")


def _there(view: JobView, plan: MovePlan) -> ProcessorView:
    """Return the container; raises `ActionFailed` unless it runs where it was sent."""
    found, wanted = view.processors.get(plan.processor), plan.expected_host
    why = not_running(found)
    if found is None or why:
        raise ActionFailed(
            f"processor {plan.processor} runs after its move",
            seen=why,
            fix="look at the container's log on its host",
        )
    if wanted is not None and found.host != wanted:
        raise ActionFailed(
            f"processor {plan.processor} runs on {wanted}",
            seen=f"it runs on {found.host}",
            fix="something has moved it since: look at placement_history; a new run makes a new plan",
        )
    return found


def _verified(op: MoveOp, moved: StepRequest, there: ProcessorView) -> str:
    """Wait for the sign that the container works; return it, or raise `ActionFailed` without it."""
    plan, tells = op.plan, capabilities(op.plan.coordinator).tells_what_runs
    if not tells and plan.destination == FORCE_RESTART_LAST_SEEN:
        # Its former process may commit, and report, until it is dead.
        return "its stop was issued: whether it is back Samza's AM doesn't tell"
    began = "has checked in" if tells else "was launched"
    is_awaited = plan.limits.verify_timeout_s > 0
    if str(there.mode).lower() == ACTIVE:
        if not is_awaited:
            return f"it {began}; processing wasn't waited for"
        op.wait(UnitStep("", Kind.WAIT_PROCESSING, plan.processor), started_by=op.mover(moved))
        return f"it {began} and processes"
    # Where Samza's AM has launched a standby elsewhere, its own word shows that it is there.
    is_elsewhere = there.host not in (None, plan.source_host) and not plan.any_host
    if not is_awaited or tells or not is_elsewhere:
        return f"a standby: it {began}"
    op.wait(UnitStep("", Kind.WAIT_REPORT, plan.processor, str(there.host)))
    return f"a standby: it was launched and reports from {there.host}"


GIVES_PLACE = "gives_place"
SHOWN_SAMPLES = 200


@dg.op(out=dg.Out(StepRequest, description="How the standby's request ended."))
def spin_up(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> StepRequest:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    return carry_out(context, samza, plan, _spin_up)


def _spin_up(op: MoveOp) -> StepRequest:
    plan = op.plan
    asked = op.find(SPIN_UP, plan.processor, plan.means)
    if asked.destination is None and plan.if_it_fails:
        _refuse_beside_another(op)
    op.role = "asks: a request of our own"
    step = UnitStep(SPIN_UP, Kind.START_STANDBY, plan.processor, plan.destination)
    return op.ask(step, asked)


@dg.op(out=dg.Out(str, description="The standby's processor id."))
def wait_until_warm(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    started: StepRequest,
    samza: SamzaClientResource,
) -> Iterator[dg.Output[Any]]:
    """Wait until the standby's lag has been small and flat for long enough.

    The log has each change, and a line at least every half minute.
    """
    standby = started.started
    with move_op(context, samza, plan, standby) as op:
        if standby is None:
            raise ActionFailed("the new standby's id", seen=started.message)
        if plan.if_it_fails and any(one.destination for one in _leaving(op, standby)):
            context.log.info(f"standby {standby} was warm: it was asked to give its place already")
            yield dg.Output(standby, metadata={"standby": standby})
            return
        _require_own(op, standby)
        warm = op.wait(UnitStep("", Kind.WAIT_WARM, NEW), standby=standby).warm_up
        assert warm is not None
        after = host_map(op.client.view())
    samples = warm.samples
    rows = [
        {"at": clock(at_ms), "seconds": (at_ms - samples[0][0]) / 1000, "records": records}
        for at_ms, records in samples[-SHOWN_SAMPLES:]
    ]
    metadata: dict[str, Any] = {
        "standby": standby,
        "host": started.host or "-",
        "lag_records": samples[-1][1] or 0,
        "steady_seconds": (warm.steady_ms or 0) / 1000,
        "catch_up_seconds": rows[-1]["seconds"] or 0.0,
        "lag_table": table(rows, ("at", "seconds", "records")),
        **map_metadata(plan.before, after),
    }
    yield dg.Output(standby, metadata=metadata)
    context.log.info(f"standby {standby} is warm: {warm.line}")


def _require_own(op: MoveOp, standby: str) -> None:
    """Raises `Refused` when the standby of this id is no longer the one that the chain has started."""
    other = started_anew(op.client, op.root, SPIN_UP, standby)
    if other:
        raise Refused(
            f"{standby} is the standby that this run has started",
            seen=f"that one is gone, and request {other} has started another of its id since",
            fix="launch a new run: it starts a standby of its own",
        )


def _refuse_beside_another(op: MoveOp) -> None:
    """Raise `Refused` while a standby is alive that the chain has started for its move elsewhere.

    Nothing else would remove that standby.
    """
    there = op.client.view().processors
    for standby, start in newest_starts(op.client).items():
        if standby in there and is_of_step(start.uuid, op.root, SPIN_UP):
            raise Refused(
                f"a standby on {op.plan.destination} for the move, the only one that this chain has"
                " started for it",
                seen=f"it has started standby {standby} on {start.destination_host} as well",
                fix=f"destination {start.destination_host} to go on with that one; or a new run, and"
                f" samza-dagster control-standby stop {standby} if it isn't wanted any more",
            )


def _leaving(op: MoveOp, standby: str) -> tuple[StepRequest, StepRequest]:
    """Return the requests by which the chain's own standby is relocated, and removed, as they stand.

    A removal elsewhere was of another standby that had its id.
    """
    relocated = op.find(RELOCATE, standby, op.plan.makes_room)
    hosts = (op.plan.destination, relocated.destination)
    return relocated, op.find(GIVES_PLACE, standby, hosts.__contains__)


plan_move_via_new_standby = plan_op(
    MoveViaNewStandbyConfig,
    decisions.move_via_new_standby,
    "Checks the active, chooses the host if none is named, and what the rules say of each step.",
)


@dg.op(
    out={
        "move_plan": dg.Out(MovePlan, description="The active's own move."),
        "away": dg.Out(StepRequest, description="How the new standby gave way."),
    }
)
def give_place(
    context: dg.OpExecutionContext, plan: MovePlan, standby: str, samza: SamzaClientResource
) -> tuple[MovePlan, StepRequest]:
    """Free the new standby's host: the standby is removed, or relocated if it is kept.

    Its warm store stays there for the active.
    """
    swap = replace(plan, kind=Kind.PLACE, standby=standby, standby_host=plan.destination)
    with move_op(context, samza, swap, standby) as op:
        relocated, removed = _leaving(op, standby)
        if plan.keep_standby and removed.destination is not None:
            raise Refused(
                f"standby {standby} is kept",
                seen=f"request {removed.uuid} of an earlier run removes it from the job",
                fix="the same with keep_standby: false goes on with the move; spin_up_standby starts"
                " one more after it",
            )
        if (relocated if plan.keep_standby else removed).destination is None:
            _require_own(op, standby)
            _refuse_unless_it_may_move(op, standby, relocated.destination)
        if plan.keep_standby:
            outcome = op.make_room()
        else:
            outcome = op.remove_standby(standby, GIVES_PLACE)
            op.role = "asks: a request of our own that removes the standby"
    context.add_output_metadata(outcome_metadata(outcome, op.role), output_name="away")
    return swap, outcome


@dg.op(out=dg.Out(list[str], description="The standbys that the active has in the end."))
def standbys_after(
    context: dg.OpExecutionContext, plan: MovePlan, host: str, samza: SamzaClientResource
) -> list[str]:
    """Tells the standbys before and after, and what the new one cost."""
    with errors_as_failures():
        client = samza.client
        view = client.view()
        found = sorted(
            p.processor_id
            for p in view.processors.values()
            if view.is_standby(p.processor_id) and view.group_of(p.processor_id) == plan.processor
        )
        seconds = _lived_s(client, root_run_id(context))
    memory = view.container_memory_mb
    cost = (
        "not known" if memory is None or seconds is None else f"{memory:,} MiB for {seconds:,.0f} s"
    )
    context.add_output_metadata(
        {
            "standbys": ", ".join(found) or "none",
            "new_standby_cost": "it is kept" if plan.keep_standby else cost,
            "active_on": host,
            **map_metadata(plan.before, host_map(view)),
        }
    )
    return found


def _refuse_unless_it_may_move(op: MoveOp, standby: str, relocated: str | None) -> None:
    """Before a warm standby leaves: what it leaves for must still be possible.

    `relocated`: where an earlier run has sent it, which was to keep it.
    """
    plan, view = op.plan, op.client.view()
    warm = view.processors.get(standby)
    active, host = view.processors.get(plan.processor), view.hosts.get(plan.destination)
    if host is None or host.state == LOST:
        seen = f"{plan.destination} is {'unknown' if host is None else 'lost'}"
    elif active is None or active.state != RUNNING:
        seen = f"{plan.processor} is {'gone' if active is None else active.state}"
    elif warm is None or warm.host not in (plan.destination, relocated):
        seen = f"{standby} is {'gone' if warm is None else f'on {warm.host}'}"
    else:
        return
    raise Refused(
        f"{plan.processor} takes the place of {standby} on {plan.destination}",
        seen=seen,
        fix="re-execute this run from failure once it is well again",
    )


def _lived_s(client: PlacementClient, root: str) -> float | None:
    began = last_success(client, root, SPIN_UP)
    ended = last_success(client, root, GIVES_PLACE)
    if began is None or ended is None:
        return None
    return max(0, ended.timestamp - began.timestamp) / 1000


@dg.graph(name="move_via_new_standby")
def move_via_new_standby_graph() -> None:
    """Moves an active to a host where no warm copy is yet: a new standby warms up there first.

    It is started and waited for; then it gives its place to the active, which starts over the
    warm store. In the end there are as many standbys as before, or one
    more with keep_standby.
    """
    plan = getattr(plan_move_via_new_standby(), PLAN)
    swap, away = give_place(plan, wait_until_warm(plan, spin_up(plan)))
    host = verify_placement(swap, [away, move(swap, stop(swap, reserve(swap)))])
    standbys_after(plan, host)
