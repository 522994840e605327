"""A unit on its way: each request asked once, followed without waiting, and its effect verified.

The state of a unit is derived from its requests, so a later run of the operation finds each
unit where it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samza_dagster.client.responses import details_of, never_answered
from samza_dagster.errors import ActionFailed, InvalidInput, SamzaDagsterError, Unreachable
from samza_dagster.model import PlacementResponse
from samza_dagster.model.capabilities import Capabilities, capabilities
from samza_dagster.orchestration.operations.schedule import AT_WORK, EndedStep, Progress, UnitStatus
from samza_dagster.orchestration.plans.conditions import Reported, WarmUp
from samza_dagster.orchestration.plans.move import UnitLimits
from samza_dagster.orchestration.plans.units import NEW, Kind, Unit, UnitStep
from samza_dagster.orchestration.requests.step_request import (
    COMMIT,
    HELD,
    QUEUED,
    RELEASE,
    RESERVING,
    STARTING,
    STOPPING,
    StepRequest,
    cancel,
    newest_starts,
    release,
    stage_named,
    standing,
    started_standby,
    write,
)
from samza_dagster.orchestration.requests.verify import (
    Expected,
    LagSeen,
    NewReports,
    OwnCommits,
    not_running,
)

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ProcessorView

ASKS = (Kind.PLACE, Kind.FAIL_OVER, Kind.START_STANDBY, Kind.STOP_STANDBY)
VIEW_LAGS_MS = 5_000  # an answer and the state that it tells of are in two topics
DOING = {
    QUEUED: "its request waits for its turn at the coordinator",
    RESERVING: "a place for it is being reserved",
    HELD: "its place is held",
    STOPPING: "it is being stopped",
    STARTING: "it is being started",
}


@dataclass(frozen=True)
class Chain:
    """The requests of a chain's runs for the units of their plan.

    `holds` maps what was reserved and isn't committed to the uuid of its release. `commits` keeps
    where those of started containers begin. `prefix` begins the names of steps; without one the
    chain has one unit.
    """

    client: PlacementClient
    root_run_id: str
    coordinator: str
    limits: UnitLimits
    holds: dict[str, str]
    commits: OwnCommits
    prefix: str = ""

    @property
    def can(self) -> Capabilities:
        """Capabilities of the coordinator."""
        return capabilities(self.coordinator)

    def name(self, unit: Unit, step: UnitStep, standby_attempt: int = 0) -> str:
        """Return the name of a step; the uuids of its requests derive from it.

        The name of a step about the unit's new standby has the number of the attempt that started it.
        """
        if not self.prefix:
            return step.name
        parts = [self.prefix, unit.processor, step.name]
        if step.processor == NEW and standby_attempt:
            parts.append(str(standby_attempt))
        return "/".join(filter(None, parts))

    def asked(
        self,
        unit: Unit,
        step: UnitStep,
        *,
        standby: str | None = None,
        standby_attempt: int = 0,
        on_record: Collection[str] | None = None,
    ) -> StepRequest:
        """Return the state of the step's request.

        Skips a standby that was started and is gone, or belongs to somebody else by now, and never gave
        its place: another one is started.
        """
        name, processor = self.name(unit, step, standby_attempt), subject(step, standby)

        def fits(destination: str) -> bool:
            return step.kind is Kind.STOP_STANDBY or destination == step.destination

        def newest(first: int = 0) -> StepRequest:
            return standing(
                self.client,
                *(self.root_run_id, name, processor),
                first=first,
                fits=fits,
                asked=on_record,
            )

        asked = newest()
        if step.kind is Kind.START_STANDBY and unit.is_for_a_move:
            while self._is_lost(unit, asked):
                asked = newest(asked.attempt + 1)
        return asked

    def ask(self, step: UnitStep, processor_id: str, asked: StepRequest) -> StepRequest:
        """Write a step's request, unless an earlier run did; then return that one.

        A request that holds its destination is noted before it is written, so that a run that ends
        gives it back. Raises what the client raises.
        """
        hold, made = step.is_held_by(self.coordinator), None
        if hold and not (asked.ended or asked.has_stopped):
            self.holds[asked.uuid] = asked.uuid_of(RELEASE, self.root_run_id)
        if not asked.status:
            try:
                expiry_s = self.limits.request_expiry_s
                made = write(
                    *(self.client, step, processor_id),
                    uuid=asked.uuid,
                    expiry_s=expiry_s,
                    hold=hold,
                )
            except InvalidInput:  # nothing was written, so there is nothing to give back
                self.holds.pop(asked.uuid, None)
                raise
        return replace(
            asked,
            status=asked.status or "CREATED",
            destination=step.destination or asked.destination or "",
            hold=hold,
            asked_ms=asked.asked_ms if made is None else made.timestamp,
            deployment=asked.deployment if made is None else made.deployment_id,
        )

    def is_held(self, request: StepRequest | None) -> bool:
        """Return whether it was asked with a hold, and nothing of it was stopped."""
        return request is not None and request.uuid in self.holds

    def commit(self, request: StepRequest) -> None:
        """Write the commit of a hold; afterwards there is nothing to give back."""
        commit_uuid = request.uuid_of(COMMIT, self.root_run_id)
        self.client.commit(request.uuid, uuid=commit_uuid)
        self.holds.pop(request.uuid, None)

    def _is_lost(self, unit: Unit, asked: StepRequest) -> bool:
        standby = asked.started if asked.succeeded else None
        if standby is None:
            return False
        gives = next(step for step in unit.steps if step.kind is Kind.STOP_STANDBY)
        given = self.asked(unit, gives, standby=standby, standby_attempt=asked.attempt)
        if given.destination is not None:
            return False
        newest = newest_starts(self.client).get(standby)
        there = standby in self.client.view().processors
        return not there or (newest is not None and newest.uuid != asked.uuid)


def subject(step: UnitStep, standby: str | None) -> str:
    """Return the processor that a step is about."""
    return (standby or NEW) if step.processor == NEW else step.processor


class UnitWork:
    """A unit on its way. `look` looks once and returns; nothing here sleeps.

    `moments` are the statuses that were read, with their steps and times; `ended` are the steps that
    ended. `outcome` is its newest request as last seen, `trouble` what holds it up. `error` is the
    reason of its failure, unless its request has failed. `commits`: a held request is committed.
    `started_by` is the request that has started its container.
    """

    def __init__(self, chain: Chain, unit: Unit) -> None:
        self.unit = unit
        self.row: Progress = Progress.of(unit)
        self.moments: list[tuple[str, str, int]] = []
        self.ended: list[EndedStep] = []
        self.standby_attempt = 0
        self.outcome: StepRequest | None = None
        self.trouble = ""
        self.error: SamzaDagsterError | None = None
        self.commits = True
        self.started_by = ""
        self.warm_up: WarmUp | None = None
        self._chain = chain
        self._found: dict[str, StepRequest] = {}
        self._request: StepRequest | None = None
        self._began_ms = self._looked_ms = 0
        self._step_began_ms: int | None = None
        self._reports = NewReports()
        self._since: int | None = None
        self._again = False

    @property
    def step(self) -> UnitStep | None:
        """The current step; None past its last one."""
        steps = self.unit.steps
        return steps[self.row.at] if self.row.at < len(steps) else None

    @property
    def is_held_only(self) -> bool:
        """Asked, and nothing of it was stopped."""
        return self._chain.is_held(self.outcome)

    @property
    def is_asked(self) -> bool:
        """A request of it has no end yet, or is to be made: that is looked at often."""
        step = self.step
        return step is None or step.kind in ASKS

    @property
    def only_waits(self) -> bool:
        """Return whether it only waits until a standby is warm."""
        is_at_it = self.step is not None and self.step.kind is Kind.WAIT_WARM
        return is_at_it and self.row.status in AT_WORK and self.warm_up is not None

    @property
    def needs_lags(self) -> bool:
        """Return whether it waits for something seen in the lags that replicas report."""
        step = self.step
        if self.row.status not in AT_WORK or step is None:
            return False
        waits_for_lag = step.kind is Kind.WAIT_BACK and self._chain.limits.lag_s > 0
        return step.kind is Kind.WAIT_WARM or waits_for_lag

    @property
    def requests(self) -> set[str]:
        """All that were asked for it."""
        return {self.row.uuid, *(ended.request for ended in self.ended)}

    # How it is begun, and left.

    def find(self, on_record: Collection[str]) -> bool:
        """Find what earlier runs of the chain have asked for it; return whether it is under way."""
        for step in self.unit.steps:
            if step.kind in ASKS and step.processor != NEW:
                asked = self._chain.asked(self.unit, step, on_record=on_record)
                if not self._found:
                    self.row = replace(self.row, attempt=asked.attempt, uuid=asked.uuid)
                self._found[step.name] = asked
        return any(asked.destination is not None for asked in self._found.values())

    def take(self, asked: StepRequest) -> None:
        """Take the request of its step as it was found, or as another op of the chain has left it."""
        assert self.step is not None
        self._found[self.step.name] = asked

    def begin(self, now_ms: int) -> None:
        """Begin it, where an earlier run of the chain has left it.

        After `Unreachable`, which is raised, it is as if it hadn't begun. Another error is a failure
        of this unit alone.
        """
        before = self.row
        self.row = replace(before, status=UnitStatus.IN_FLIGHT, asked_ms=now_ms, why=self.unit.why)
        self._began_ms = self._looked_ms = now_ms
        try:
            step = self.step
            if step is not None and step.kind in ASKS and self._request is None:
                self._ask(step, now_ms)
        except Unreachable:
            self.row, self._request = before, None
            raise
        except SamzaDagsterError as error:
            self.fail(str(error), error)

    def begin_again(self, now_ms: int) -> None:
        """Verify one that was back and is another process by now; ask nothing.

        Its times stay those of its restart.
        """
        self._began_ms, self._again = now_ms, True
        self.row = replace(
            self.row,
            status=UnitStatus.IN_FLIGHT,
            at=len(self.unit.steps) - 1,
            why="it is another process than the one that was back",
        )

    def leave(self) -> None:
        """Note that its container has left the job."""
        self.row = replace(self.row, status=UnitStatus.GONE, why="it is no longer in the job")

    def let_go(self, because: str) -> None:
        """Leave it waiting, without a request."""
        self.warm_up = None
        self.row = replace(self.row, status=UnitStatus.WAITING, why=f"left waiting: {because}")

    def give_back(self) -> str:
        """Release or cancel what has stopped nothing yet; return what becomes of the unit, for a log."""
        if self.is_held_only:
            return self._release()
        request = self._request
        if request is None:
            standby = self.row.standby
            return f"standby {standby} runs on" if standby else "nothing of it is held"
        if self.row.stop_ms is None:
            return cancel(self._chain.client, self._chain.root_run_id, request.uuid)
        return f"request {request.uuid} is in flight, the coordinator goes on with it"

    def fail(self, why: str, error: SamzaDagsterError | None = None) -> None:
        """Note that it has failed, and why."""
        step, self.error = self.step, error
        if step is not None and self._step_began_ms is not None:
            self._end(step, self._looked_ms)
        self._request = self.warm_up = None
        self.row = replace(self.row, status=UnitStatus.FAILED, why=self._of_step(why))

    def _release(self) -> str:
        chain, request = self._chain, self.outcome
        assert request is not None
        why = release(chain.client, request.uuid, chain.holds.pop(request.uuid))
        self._request = None
        self.row = replace(self.row, status=UnitStatus.WAITING, why=why)
        return why

    def _of_step(self, why: str) -> str:
        step = self.step
        return f"{step.name}: {why}" if step is not None and step.name else why

    # How it goes on.

    def look(self, view: JobView, reported: Reported | None, now_ms: int) -> bool:
        """Look at its request or its container once; return whether something changed."""
        before, self._looked_ms = self.row, now_ms
        try:
            while self.row.status in AT_WORK and self._goes_on(view, reported, now_ms):
                pass
        except Unreachable:  # the loop waits until the source answers
            raise
        except SamzaDagsterError as error:
            self.fail(str(error), error)
        return self.row != before

    def _goes_on(self, view: JobView, reported: Reported | None, now_ms: int) -> bool:
        step = self.step
        if step is None:
            self._back(now_ms)
            return False
        if self._step_began_ms is None:
            self._step_began_ms = now_ms
        if step.kind in ASKS:
            return self._request_goes_on(step, view, now_ms)
        if step.kind is Kind.WAIT_WARM:
            return self._warms_up(step, view, reported, now_ms)
        return self._is_verified(step, view, reported, now_ms)

    def _next(self, now_ms: int, **changes: object) -> None:
        self._began_ms, self._step_began_ms, self._since = now_ms, None, None
        self.row = replace(
            self.row,
            at=self.row.at + 1,
            status=UnitStatus.IN_FLIGHT,
            until_ms=None,
            **changes,  # pyright: ignore[reportArgumentType]
        )

    def _end(
        self, step: UnitStep, at_ms: int, status: str = "", message: str = "", request: str = ""
    ) -> None:
        begin_ms = min(self._step_began_ms or at_ms, at_ms)
        self.ended.append(EndedStep(step, begin_ms, at_ms, status, message, request))
        self._step_began_ms = None

    def _back(self, now_ms: int) -> None:
        row = self.row
        took_s = max(0, now_ms - (row.asked_ms or self._began_ms)) / 1000
        self.row = replace(
            row,
            status=UnitStatus.BACK,
            back_ms=now_ms,
            until_ms=None,
            seconds=row.seconds if self._again else took_s,
        )

    # Its requests.

    def _request_goes_on(self, step: UnitStep, view: JobView, now_ms: int) -> bool:
        if self._request is None:
            try:
                self._ask(step, now_ms)
            except InvalidInput:
                if self.row.at == 0 or now_ms >= self._began_ms + VIEW_LAGS_MS:
                    raise
                return False  # the view may not yet show the step before
        return self._follow(step, view, now_ms)

    def _ask(self, step: UnitStep, now_ms: int) -> None:
        """Write the request, unless an earlier run did; then use that one."""
        chain, unit = self._chain, self.unit
        asked = self._found.pop(step.name, None) or chain.asked(
            unit, step, standby=self.row.standby, standby_attempt=self.standby_attempt
        )
        if step.kind is Kind.START_STANDBY:
            self.standby_attempt = asked.attempt
        why = self._of_step(f"asked, request {asked.uuid}")
        self.row = replace(self.row, attempt=asked.attempt, uuid=asked.uuid, why=why)
        if not asked.status and not step.is_held_by(chain.coordinator) and self._awaits_lag():
            # Samza's AM tells no ids: what reports as another than before is the new one.
            mine = [r for r in chain.client.lag() if r.processor_id == unit.processor]
            self._reports.before = {r.execution_id for r in mine if r.execution_id}
        self.outcome = asked  # it is held from before it is written
        request = chain.ask(step, subject(step, self.row.standby), asked)
        self._request, self.outcome, self._began_ms = request, request, now_ms
        # When it was asked may not be on record any more; its newest status is later.
        asked_ms = request.answered_ms if request.asked_ms is None else request.asked_ms
        if not any(ended.request for ended in self.ended):
            self.row = replace(self.row, asked_ms=asked_ms)

    def _awaits_lag(self) -> bool:
        limits = self._chain.limits
        by_report = limits.lag_s > 0 and not limits.is_shown_by_work(self.unit.mode)
        return by_report and any(step.kind is Kind.WAIT_BACK for step in self.unit.steps)

    def _follow(self, step: UnitStep, view: JobView, now_ms: int) -> bool:
        request, limits = self._request, self._chain.limits
        assert request is not None
        response = self._chain.client.response(request.uuid)
        if response is not None and self._see(step, response, now_ms):
            return True
        if self.row.status is not UnitStatus.IN_FLIGHT:
            return False
        action = next((a for a in (*view.actions, *view.queued) if a.uuid == request.uuid), None)
        why, self.trouble = self.row.why, action.trouble if action is not None else ""
        if action is not None:
            why = self._doing(action.stage, why)
            why = f"{why}; {self.trouble}" if self.trouble else why
        until_ms = self._began_ms + round(limits.timeout_s * 1000)
        self.row = replace(self.row, why=why, until_ms=until_ms)
        over = ""
        if not self._chain.can.answers_late:
            over = view.why_over(request.deployment)
        if over:
            raise never_answered(request.uuid, over, response)
        if now_ms > until_ms:
            self._too_late()
        return False

    def _see(self, step: UnitStep, response: PlacementResponse, now_ms: int) -> bool:
        """Take a status of its request; return whether that has succeeded."""
        before, details, at_ms = self._request, details_of(response), response.timestamp
        assert before is not None
        self._request = self.outcome = request = before.seen(response)
        if request is not before:
            self._step_began_ms = min(self._step_began_ms or at_ms, at_ms)
            told = f"{self.unit.processor} {step.name}"[:30]
            self.moments.append((told, request.status, at_ms))
        if request.ended:
            self._chain.holds.pop(request.uuid, None)
            self._request = None
            self._end(step, at_ms, request.status, request.message, request.uuid)
            if not request.succeeded:
                failed_ms = at_ms if self.row.stop_ms is not None else None
                self.row = replace(self.row, failed_ms=failed_ms)
                self.fail(f"{request.status}: {request.message}")
                return False
            self._done(step, response, now_ms)
            return True
        self.row = replace(self.row, why=self._doing(details.stage or "", request.message))
        if details.stopped:
            self._chain.holds.pop(request.uuid, None)
        is_stopping = request.stage == STOPPING or self.row.stop_ms is None
        if self.unit.processor in details.stopped and is_stopping:
            self.row = replace(self.row, stop_ms=at_ms)
        elif stage_named(details.stage) == HELD and self.commits and self.is_held_only:
            self._commit(request, at_ms)
        return False

    def _doing(self, stage: str, told: str) -> str:
        doing = DOING.get(stage_named(stage))
        return self._of_step(doing) if doing else told

    def _done(self, step: UnitStep, response: PlacementResponse, now_ms: int) -> None:
        at_ms, row = response.timestamp, self.row
        why = self._of_step(response.response_message)
        if step.kind is Kind.START_STANDBY:
            standby = started_standby(response)
            self._next(now_ms, standby=standby, standby_since_ms=at_ms, why=why)
        elif step.kind is Kind.STOP_STANDBY:
            self._next(now_ms, standby_until_ms=at_ms, why=why)
        elif step.processor == self.unit.processor:
            self.started_by = response.uuid
            down_s = None if row.stop_ms is None else max(0, at_ms - row.stop_ms) / 1000
            self._next(now_ms, in_ms=at_ms, down_s=down_s, why="it has checked in")
        else:
            self._next(now_ms, why=why)

    def _commit(self, request: StepRequest, at_ms: int) -> None:
        try:
            self._chain.commit(request)
        except InvalidInput as error:
            # The request may have ended meanwhile: the next look will see that, or it times out.
            self.row = replace(self.row, why=self._of_step(f"held; {error}"))
            return
        if self.step is not None and self.step.processor == self.unit.processor:
            # Until its stop is told: it comes after the hold, so this is no later.
            self.row = replace(self.row, stop_ms=at_ms)
        self.row = replace(self.row, why=self._of_step("committed"))

    def _too_late(self) -> None:
        limit = f"within {self._chain.limits.timeout_s:g} s"
        if self.is_held_only:
            why = self._release()
            self.fail(f"not reserved {limit}, so it runs on untouched; {why}")
        else:
            why = f"no end {limit}: {self.row.why}; the coordinator goes on with it"
            self.row = replace(self.row, status=UnitStatus.STUCK, why=why)

    # What it waits for.

    def _warms_up(
        self, step: UnitStep, view: JobView, reported: Reported | None, now_ms: int
    ) -> bool:
        """Look at the standby's lag; passed as well when what comes after it was asked before."""
        standby, limits = subject(step, self.row.standby), self._chain.limits.catch_up
        warm = self.warm_up
        if warm is None:
            for following in self.unit.steps[self.row.at + 1 :][:1]:
                later = self._found.get(following.name) or self._chain.asked(
                    *(self.unit, following), standby=standby, standby_attempt=self.standby_attempt
                )
                if later.destination is not None:
                    self._next(now_ms)
                    return True
            warm = self.warm_up = WarmUp.of(standby, limits, is_new=step.processor == NEW)
        if reported is None or reported.at_ms == warm.at_ms:
            return False
        if warm.look(reported, reported.at_ms):
            self._end(step, now_ms, "warm", warm.line)
            self._next(now_ms, why=self._of_step(warm.line))
            return True
        if standby not in view.processors and now_ms >= self._began_ms + VIEW_LAGS_MS:
            raise ActionFailed(
                f"standby {standby} runs",
                seen="it isn't in the job any more",
                fix="launch a new run: it starts another one",
            )
        if warm.is_too_late:
            raise ActionFailed(
                f"standby {standby} is warm within {limits.timeout_s:g} s",
                seen=warm.line,
                fix="re-execute this run from failure to wait on: the standby runs and catches up",
            )
        self.row = replace(self.row, why=self._of_step(warm.line))
        return False

    def _is_verified(
        self, step: UnitStep, view: JobView, reported: Reported | None, now_ms: int
    ) -> bool:
        """Look for the signs that a started container works, each within its time."""
        found, expected = view.processors.get(step.processor), self._expected(step)
        is_own, is_back = step.processor == self.unit.processor, step.kind is Kind.WAIT_BACK
        if not is_back and not expected.is_awaited:
            self._next(now_ms)
            return True
        lag = self._lag(reported, found) if is_back else LagSeen()
        works = not not_running(found, expected.former) and self._works(expected, found)
        lacks = expected.missing(found, works=works, lag=lag.why_not)
        if is_own:
            self.row = replace(
                self.row,
                lag=lag.records,
                now_on=(found.host if found else "") or "",
                execution=(found.execution_id if found else "") or "",
            )
        row = self.row
        if lacks is None:
            why = self._seen_working(expected, lag.records)
            first_s = (now_ms - self._began_ms) / 1000
            if is_own and expected.is_active and row.down_s is not None and not self._again:
                self.row = replace(row, first_commit_s=row.down_s + first_s)
            sign = "processes" if expected.is_active else "reports"
            self._end(step, now_ms, sign if expected.is_awaited else "runs", why)
            self._next(now_ms, why=why)
            return True
        within_s = lacks.within_s
        if self._again and not_running(found, self.unit.former):
            within_s = max(within_s, self._chain.limits.timeout_s)
        until_ms = self._began_ms + round(max(within_s, 1.0) * 1000)
        if now_ms > until_ms:
            what = "processor" if expected.is_active else "standby"
            raise ActionFailed(
                f"{what} {step.processor} {lacks.sign} within {within_s:g} s of its start",
                seen=lacks.seen,
                fix=lacks.fix,
            )
        is_up = lag.is_up and lacks.is_lag
        self.row = replace(
            row,
            status=UnitStatus.UP if is_up else UnitStatus.IN_FLIGHT,
            until_ms=until_ms,
            why=self._of_step(lacks.seen),
        )
        return False

    def _expected(self, step: UnitStep) -> Expected:
        unit, limits, is_back = self.unit, self._chain.limits, step.kind is Kind.WAIT_BACK
        return Expected(
            step.processor,
            unit.stops_active if is_back else step.kind is Kind.WAIT_PROCESSING,
            limits.verify_timeout_s,
            unit.former if is_back else None,
            reports_from=step.destination if step.kind is Kind.WAIT_REPORT else "",
            lag_s=limits.lag_s,
        )

    def _works(self, expected: Expected, found: ProcessorView | None) -> bool:
        """Return whether the sign of its work was seen, if one is expected."""
        if not expected.is_awaited:
            return True
        if not expected.is_active:
            return found is not None and found.last_seen_host == expected.reports_from
        if self._since is None:
            # The former process is dead: what is committed from now on is the new one's. Of one that
            # is another process by now no earlier run has told.
            end = self._chain.client.checkpoints_end
            mover = self.started_by or self.row.uuid
            self._since = end() if self._again else self._chain.commits.since(mover, end)
        progress = self._chain.client.processing(expected.processor, self._since)
        self.row = replace(self.row, committed=progress.end)
        return progress.processing

    def _lag(self, reported: Reported | None, found: ProcessorView | None) -> LagSeen:
        limits, unit = self._chain.limits, self.unit
        if not limits.lag_s:
            return LagSeen()
        if reported is None or reported.at_ms < self._began_ms:
            return LagSeen(why_not="its lag is being read")
        return self._reports.look(
            reported.of.get(unit.processor, ()),
            (found.execution_id if found else None) or "",
            reported.limit(unit.processor, limits.catch_up),
            shown_by_work=limits.is_shown_by_work(unit.mode),
        )

    def _seen_working(self, expected: Expected, lag: int | None) -> str:
        parts = ["it runs"]
        if expected.is_active:
            parts.append("and processes" if expected.verify_s else "(processing not waited for)")
        elif expected.reports_from:
            parts.append(f"and reports from {expected.reports_from}")
        return " ".join([*parts, *([f"with a lag of {lag:,}"] if lag is not None else [])])
