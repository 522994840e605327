"""Reserve, stop, move: each phase of one request, carried out once whichever run gets there.

On our coordinator the phases are real: a request that holds its destination, then a
commit. Samza's wire has no hold: there the first op asks for everything and the others
observe it. A phase that finds its request failed asks anew only in a re-execution, so a
run never does more than it was launched for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import DeadlineExceeded
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import STANDBY
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.moves.spun_up import refuse_beside_another
from samza_dagster.orchestration.plans.move import (
    FAIL_OVER,
    NEW_RUN,
    MovePlan,
    find_processor,
    host_for_standby,
)
from samza_dagster.orchestration.requests.asking import HeldRequest, ask, cancel
from samza_dagster.orchestration.requests.follow import (
    failed,
    followed,
    request_metadata,
    waiting_line,
)
from samza_dagster.orchestration.requests.heartbeat import wait_for
from samza_dagster.orchestration.requests.step_request import (
    ENDED,
    HELD,
    RESERVING,
    STOPPING,
    Outcome,
    StepRequest,
    has_failed,
    on_record,
    stage_named,
    standing,
)
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.resource import SamzaClientResource

if TYPE_CHECKING:
    from samza_dagster.client import JobView

RELOCATE = "relocate_standby"
MOVE = "move"
SPIN_UP = "spin_up"
HOLDS = "asks: holds the destination until op stop commits"
COMMITS = "asks: commits what op reserve holds"
ALL_IN_ONE = "asks: one request does all phases, the next ops observe it"
NO_HOLD = f"{ALL_IN_ONE}; Samza's wire has no hold"
OBSERVES = "observes the request that op {asker} made"


class MovePhases:
    """The phases of one plan in one run, which its ops carry out, each one of them.

    What the run holds and hasn't committed is given back by its resource when it ends.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        samza: SamzaClientResource,
        plan: MovePlan,
    ) -> None:
        self._context = context
        self._samza = samza
        self._plan = plan
        self._op = context.op.name
        self._root = root_run_id(context)
        self._client = samza.client
        self._can = capabilities(plan.coordinator)
        self.role = ""

    def make_room(self) -> Outcome:
        """Have the standby leave, or go down so that its host is free for the active."""
        plan = self._plan
        if plan.destination == STANDBY:
            return self._follow(self._ask_move(), RESERVING)
        standby = plan.standby
        assert standby is not None
        asked = self._find(RELOCATE, standby, plan.makes_room)
        view = self._client.view()
        if asked.destination is None:
            host = find_processor(view, standby, NEW_RUN).host
            if host != plan.destination:
                self._context.log.info(
                    f"standby {standby} isn't on {plan.destination}: nothing to ask"
                )
                return nothing(RELOCATE, host)
        self.role = "asks: a request of its own for the standby"
        destination = asked.destination or host_for_standby(
            view,
            standby,
            plan.source_host,
            plan.destination,
            plan.allowed_hosts,
            makes_room=True,
        )
        return self._follow(self._ask(RELOCATE, standby, destination, asked), ENDED)

    def spin_up(self) -> Outcome:
        """Start one more standby of the plan's active."""
        plan, client = self._plan, self._client
        asked = self._find(SPIN_UP, plan.processor, plan.means)
        if asked.destination is None and plan.if_it_fails:
            refuse_beside_another(client, self._root, SPIN_UP, plan.destination)
        self.role = "asks: a request of our own"
        return self._follow(self._ask(SPIN_UP, plan.processor, plan.destination, asked), ENDED)

    def reserve(self, begun: Outcome | None) -> Outcome:
        """Reserve the destination; on our coordinator it is held, and nothing was stopped."""
        request = self._current(begun) if begun is not None and begun.step == MOVE else None
        if request is not None:
            self.role = OBSERVES.format(asker="move_standby_away")
        else:
            request = self._ask_move()
        return self._follow(request, HELD if request.hold else STOPPING)

    def stop(self, begun: Outcome) -> Outcome:
        """Stop the container; wait until it is dead where the coordinator tells that."""
        request = self._current(begun) or self.reserve(None)
        if not request.hold or request.ended:
            self.role = OBSERVES.format(asker=_asker(request))
            return self._wait_until_dead(self._follow(request, STOPPING))
        self.role = COMMITS
        self._commit(request)
        return self._wait_until_dead(self._follow(request, STOPPING))

    def start(self, begun: Outcome) -> Outcome:
        """Wait until the container has started and checked in at its destination."""
        request = self._current(begun) or self.stop(self.reserve(None))
        self.role = OBSERVES.format(asker=_asker(request))
        ended = self._follow(request, ENDED)
        if not self._plan.verify_timeout_s or self._plan.of_standby:
            return ended
        commits = OwnCommits.of_run(self._context)
        mover = ended.uuid or self._plan.processor
        since = commits.since(mover, self._client.checkpoints_end)
        return replace(ended, since=since, since_ms=time.time_ns() // 1_000_000)

    def _current(self, begun: Outcome) -> Outcome | None:
        """What an earlier op handed on; None when it failed since and this run is to ask anew."""
        if begun.ended or self._context.run.parent_run_id is None:
            return begun
        latest = on_record(self._client, begun.uuid)
        if latest is None or not has_failed(self._client, latest):
            return begun
        self._context.log.info(
            f"{self._op}: request {begun.uuid} of an earlier run has failed: asking anew",
            extra={"request": begun.uuid},
        )
        return None

    def _ask_move(self) -> Outcome:
        plan = self._plan
        view = self._client.view()
        asked = self._find(MOVE, plan.processor, plan.means)
        if asked.destination is None:
            host = find_processor(view, plan.processor, NEW_RUN).host
            swapped = plan.standby is not None and host == plan.expected_host
            if swapped:
                self._context.log.info(f"{plan.processor} is on {host} already: nothing to ask")
                return nothing(MOVE, host)
        destination = asked.destination or _destination(plan, view)
        if plan.holds(destination):
            self.role = HOLDS
        else:
            self.role = ALL_IN_ONE if self._can.has_own_requests else NO_HOLD
        return self._ask(MOVE, plan.processor, destination, asked)

    def _find(self, step: str, processor_id: str, fits: Callable[[str], bool]) -> StepRequest:
        return standing(self._client, self._root, step, processor_id, fits=fits)

    def _ask(self, step: str, processor_id: str, destination: str, asked: StepRequest) -> Outcome:
        """The request of a step as it stands; written now unless it was before."""
        plan, uuid = self._plan, asked.uuid
        again = "" if asked.destination is None else " (it was asked before)"
        told = (
            f"asking processor {processor_id} → {destination}, request {uuid},"
            f" attempt {asked.attempt + 1}{again}"
            if asked.response is None
            else f"request {uuid} was asked before ({asked.response.status_code.value}): following it"
        )
        self._context.log.info(f"{self._op}: {told}", extra={"request": uuid})
        holds = step == MOVE and plan.holds(destination)
        return ask(
            self._client,
            RequestKind(plan.kind),
            processor_id,
            destination,
            step=step,
            asked=asked,
            hold=self._reservation(uuid, asked.attempt) if holds else None,
            expiry_s=plan.request_expiry_s,
            beyond_budget=plan.beyond_budget,
            execution_id=plan.execution_id,
        )

    def _commit(self, request: Outcome) -> None:
        """Writes the commit, once; from then on there is nothing to give back."""
        response = self._client.response(request.uuid)
        if response is not None and response.status_code.is_terminal:
            return  # following it tells how it ended
        reservation = self._reservation(request.uuid, request.attempt)
        reservation.note()  # an earlier run may have reserved it
        self._context.log.info(
            f"{self._op}: commit {reservation.commit_uuid} of request {request.uuid}",
            extra={"request": request.uuid},
        )
        reservation.commit()

    def _follow(self, request: Outcome, until: str) -> Outcome:
        """Follows a request to a stage; raises `dg.Failure` when it ends badly or takes too long."""
        plan = self._plan
        if not request.uuid:
            return request
        whom = (plan.standby if request.step == RELOCATE else None) or plan.processor
        try:
            result = followed(
                self._context,
                self._client,
                whom,
                request,
                until=until,
                timeout_s=plan.timeout_s,
            )
        except DeadlineExceeded as error:
            ends = (
                "what it reserved is given back and the container runs on untouched"
                if request.uuid in self._samza.holds
                else cancel(self._client, self._root, request.uuid)
            )
            raise dg.Failure(
                description=f"{self._op}: request {request.uuid} hasn't reached {until} in"
                f" {plan.timeout_s:g} s; {ends} ({error})",
                metadata=request_metadata(request.uuid, request.timeline),
                allow_retries=False,
            ) from error
        except dg.DagsterExecutionInterruptedError:
            if request.uuid not in self._samza.holds:
                outcome = cancel(self._client, self._root, request.uuid)
                self._context.log.warning(
                    f"{self._op}: cancelled while request {request.uuid}"
                    f" (→ {request.destination}) is in flight. {outcome[0].upper()}{outcome[1:]}",
                    extra={"request": request.uuid},
                )
            raise
        if result.has_reached(STOPPING):
            self._samza.holds.pop(request.uuid, None)
        if result.ended and not result.succeeded:
            raise failed(self._op, result, plan.before, self._client)
        return result

    def _wait_until_dead(self, request: Outcome) -> Outcome:
        """Waits until our coordinator says that the action is past its stop, or has ended."""
        if request.ended or not self._can.tells_what_runs:
            return request

        def line(left_s: float) -> str:
            at = f"{request.status}: {request.message}"
            seen = waiting_line(self._client, self._plan.processor, request.uuid, at, left_s)
            return f"{self._op}: {seen}"

        wait_for(
            lambda: self._stage(request.uuid) != STOPPING,
            timeout_s=self._plan.timeout_s,
            log=self._context.log.info,
            line=line,
        )
        return request

    def _stage(self, uuid: str) -> str:
        actions = self._client.view().actions
        stage = next((action.stage for action in actions if action.uuid == uuid), "")
        return stage_named(stage)

    def _reservation(self, uuid: str, attempt: int) -> HeldRequest:
        return HeldRequest(self._client, self._root, self._samza.holds, uuid, attempt)


def _asker(request: Outcome) -> str:
    return "move_standby_away" if request.destination == STANDBY else "reserve"


def _destination(plan: MovePlan, view: JobView) -> str:
    """STANDBY, or the host that was meant by it when that standby has left it since."""
    standby = view.processors.get(plan.standby) if plan.standby is not None else None
    if plan.destination != STANDBY or plan.kind == FAIL_OVER or standby is None:
        return plan.destination
    return STANDBY if standby.host == plan.standby_host else str(plan.standby_host)


def nothing(step: str, host: str | None) -> Outcome:
    """The outcome of a step whose end is there already."""
    return Outcome(
        step=step,
        uuid="",
        attempt=0,
        status="SUCCEEDED",
        message="nothing to ask",
        destination=host or "",
    )
