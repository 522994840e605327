"""Runs units of steps: several at once, each request asked once, none left behind unsaid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import (
    DeadlineExceeded,
    InvalidInput,
    Refused,
    SamzaDagsterError,
    Unreachable,
)
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.moves.spun_up import started_standby
from samza_dagster.orchestration.operations import loop
from samza_dagster.orchestration.operations.loop import CanaryVerdict, Loop, OperationEnded
from samza_dagster.orchestration.operations.progress import (
    ChainRequests,
    Progress,
    progress_text,
    subject,
)
from samza_dagster.orchestration.operations.schedule import Next, Position, UnitStatus
from samza_dagster.orchestration.plans.conditions import Reported, WarmUp
from samza_dagster.orchestration.plans.order import Batch, Schedule
from samza_dagster.orchestration.plans.units import NEW, Kind, State, Unit, UnitLimits, UnitStep
from samza_dagster.orchestration.requests.asking import write
from samza_dagster.orchestration.requests.heartbeat import Heartbeat, seen_now, time_left
from samza_dagster.orchestration.requests.step_request import STOPPING, Outcome, details_of
from samza_dagster.orchestration.requests.verify import Expected, OwnCommits, Verification
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

LAG_EVERY_MS = 2_000
VIEW_LAGS_MS = 5_000  # an answer and the state that it tells of are in two topics
_STATUS_OF = {
    State.WAITING: UnitStatus.WAITING,
    State.RUNNING: UnitStatus.IN_FLIGHT,
    State.DONE: UnitStatus.BACK,
    State.FAILED: UnitStatus.FAILED,
}


class Runner:
    """Units of one run. `prefix` begins the names of their steps, of which uuids are made.

    `tell` gets how far they are, at each look.

    A unit whose request fails has failed: a re-execution of the run asks anew, this run
    doesn't. After a failure nothing begins, and what is asked is followed to its end.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        client: PlacementClient,
        prefix: str,
        limits: UnitLimits,
        *,
        tell: Callable[[str], None] = lambda _: None,
        now_ms: Callable[[], int] = elapsed_ms,
    ) -> None:
        self._context = context
        self._client = client
        self._root = root_run_id(context)
        self._chain = ChainRequests(
            client, self._root, prefix, is_again=context.run.parent_run_id is not None
        )
        self._limits = limits
        self._tell = tell
        self._now_ms = now_ms
        self._commits = OwnCommits.of_run(context)
        self._beats = defaultdict[str, Heartbeat](lambda: Heartbeat(context.log.info, now_ms))
        self._lags = Reported.by(())
        self._lags_at_ms: int | None = None
        self._looks = 0
        self._waited_for: Progress | None = None
        self.goes_on = False
        self.progress: list[Progress] = []

    def run(self, units: Sequence[Unit], at_once: int) -> OperationEnded:
        """Does all of it, as far as it may; `progress` tells how each unit ended.

        A run that is terminated asks that what was only reserved is given back, and says
        what goes on.
        """
        self.progress = [Progress(unit) for unit in units]
        keys = [str(number) for number in range(len(units))]
        return Loop(
            self,
            [Batch(key, (key,)) for key in keys],
            Schedule(at_once=at_once, stop_after=1),
            patience_s=self._limits.timeout_s,
            log=self._context.log.info,
            now_ms=self._now_ms,
        ).run()

    def take_up(self, now_ms: int) -> None:
        """Each is looked for as it is begun."""

    def look(self, now_ms: int) -> None:
        """Looks at each unit that is under way."""
        self.goes_on = False
        running = self._running()
        self._looks += 1
        self._waited_for = running[self._looks % len(running)] if running else None
        for one in running:
            self.goes_on = self._advance(one) or self.goes_on

    def position(self, now_ms: int) -> Position:
        """Where each unit stands."""
        return Position(
            {str(n): _STATUS_OF[one.state] for n, one in enumerate(self.progress)},
            group=lambda key: self.progress[int(key)].unit.group_id,
        )

    def judge(self, now_ms: int) -> CanaryVerdict:
        """There is no canary among units of several steps."""
        return CanaryVerdict(True, "there is no canary")

    def begin(self, key: str, now_ms: int) -> None:
        """Begins a unit where an earlier run of the chain has left it."""
        self.goes_on = True
        one = self.progress[int(key)]
        self._context.log.info(f"{one.unit.processor}: {one.unit.what}: {one.unit.why}")
        if self._root != self._context.run.run_id:
            try:
                self._chain.pass_what_is_done(one, now_ms)
            except Refused as refused:
                self._fail(one, str(refused))
                return
        one.state = State.RUNNING

    def decided(self, todo: Next, now_ms: int) -> None:
        """Lets go of those that run where nothing more begins and all of them only wait for a standby."""
        self._tell(progress_text(self.progress))
        running = self._running()
        only_wait = all(one.warm_up is not None for one in running)
        if running and only_wait and todo.is_over and not self.goes_on:
            self._let_go(running, todo.because)

    def give_back(self) -> None:
        """Ends what was only asked or reserved, and tells the rest."""
        for one in self._running():
            outcome = f"standby {one.standby} runs on" if one.standby else "nothing of it is held"
            uuid = one.request.uuid if one.request is not None else None
            told = outcome if uuid is None else self._chain.cancel(uuid)
            text = f"cancelled: {one.unit.processor}: {told}"
            self._context.log.warning(text, extra={"request": uuid})

    def _running(self) -> list[Progress]:
        return [one for one in self.progress if one.state is State.RUNNING]

    def _advance(self, one: Progress) -> bool:
        """One look at a unit; whether it went on."""
        step = one.step
        if step is None:
            one.state = State.DONE
            self._context.log.info(f"{one.unit.processor}: done")
            return True
        if one.began_ms is None:
            one.began_ms = self._now_ms()
        try:
            if step.kind is Kind.WAIT_WARM:
                return self._warm(one, step)
            if step.kind in (Kind.WAIT_PROCESSING, Kind.WAIT_REPORT):
                return self._works(one, step)
            return self._request(one, step)
        except DeadlineExceeded:
            return False
        except Unreachable:  # the loop waits for who doesn't answer
            raise
        except SamzaDagsterError as error:
            self._fail(one, f"{step.name}: {error}")
            return True

    def _request(self, one: Progress, step: UnitStep) -> bool:
        if one.request is None:
            self._ask(one, step)
        if one.request is None:
            return True

        response = self._answer(one, one.request, step)
        if response is None:
            if self._now_ms() < one.deadline_ms:
                self._still(one, step, f"request {one.request.uuid} is {one.request.said}")
                return False
            self._fail(
                one,
                f"{step.name}: request {one.request.uuid} hasn't ended in {self._limits.timeout_s:g} s;"
                " the coordinator goes on with it: re-execute this run from failure to follow",
            )
            return True
        ended = self._see(one, step, response)
        one.request, at_ms = None, response.timestamp
        one.end(step, at_ms, ended.status, ended.message, ended.uuid)
        if not ended.succeeded:
            self._fail(one, f"{step.name}: {ended.status}: {ended.message}")
            return True
        if step.kind is Kind.START_STANDBY:
            one.standby, one.standby_since_ms = started_standby(response), at_ms
        elif step.kind is Kind.STOP_STANDBY:
            one.standby_until_ms = at_ms
        elif step.processor == one.unit.processor:
            one.moved_at_ms, one.moved_by = at_ms, ended.uuid
            if one.stopped_at_ms is not None:
                one.down_s = max(0, at_ms - one.stopped_at_ms) / 1000
        one.at, one.step_done_ms, one.deadline_ms = one.at + 1, self._now_ms(), 0
        return True

    def _answer(self, one: Progress, request: Outcome, step: UnitStep) -> PlacementResponse | None:
        """The end of a request, if it is there. One of them is waited for at each look, in turn."""
        newest = self._client.response(request.uuid)
        is_news = newest is not None and request.seen(newest) is not request
        if one is not self._waited_for and not is_news:
            return None

        def see(response: PlacementResponse) -> None:
            self._see(one, step, response)

        try:
            return self._client.wait(
                request.uuid,
                timeout_s=min(loop.POLL_S, self._limits.timeout_s),
                on_response=see,
                on_notice=self._context.log.warning,
            )
        except DeadlineExceeded:
            return None

    def _ask(self, one: Progress, step: UnitStep) -> None:
        processor, asked = subject(one, step), self._chain.asked(one, step)
        if asked.by_state and self._chain.is_so(one, step, self._now_ms()):
            one.end(
                step, self._now_ms(), "done", "by the state of the job; the answer is cleaned up"
            )
            one.at, one.step_done_ms = one.at + 1, self._now_ms()
            return
        one.request = Outcome.of(step.name, asked, step.destination)
        self._beats[one.unit.processor].begin(step.name)
        one.deadline_ms = self._now_ms() + round(self._limits.timeout_s * 1000)
        one.stopped_at_ms = None
        if asked.response is not None:
            return
        again = "" if asked.destination is None else " (it was asked before)"
        self._context.log.info(
            f"{one.unit.processor}: {step.name}: asking {processor} → {step.destination or '-'},"
            f" request {asked.uuid}, attempt {asked.attempt + 1}{again}",
            extra={"request": asked.uuid, "group": one.unit.group_id},
        )
        try:
            write(
                self._client,
                RequestKind(step.kind.value),
                processor,
                step.destination,
                uuid=asked.uuid,
                expiry_s=self._limits.request_expiry_s,
            )
        except InvalidInput:
            one.request = None
            if one.at == 0 or self._now_ms() >= one.step_done_ms + VIEW_LAGS_MS:
                raise
            raise DeadlineExceeded("the view", seen="it may not yet show the step before") from None
        except SamzaDagsterError:
            one.request = None
            raise

    def _warm(self, one: Progress, step: UnitStep) -> bool:
        """Looks at the standby's lag; passed as well when what comes after it was asked before."""
        standby, limits, now_ms = subject(one, step), self._limits.catch_up, self._now_ms()
        # A restore may take hours: between two readings of lags there is nothing to be seen.
        if one.warm_up is not None and now_ms - (one.warm_up.at_ms or 0) < LAG_EVERY_MS:
            return False
        following = one.unit.steps[one.at + 1]
        later = self._chain.asked(one, following)
        if later.destination is not None or (
            later.forgotten and self._chain.is_so(one, following, now_ms)
        ):
            one.at, one.warm_up = one.at + 1, None
            return True
        warm = one.warm_up or WarmUp.of(standby, limits, is_new=step.processor == NEW)
        one.warm_up = warm
        if warm.look(self._look(now_ms), now_ms):
            one.end(step, now_ms, "warm", warm.line)
            one.at, one.warm_up = one.at + 1, None
        elif standby not in self._client.view().processors:
            self._fail(one, f"{step.name}: standby {standby} isn't in the job any more")
        elif warm.is_too_late:
            self._fail(one, f"{step.name}: not warm in {limits.timeout_s:g} s: {warm.line}")
        else:
            state = "behind" if warm.steady_ms is None else "steady"
            self._beats[one.unit.processor](f"{step.name}: {state}", warm.line)
            return False
        return True

    def _works(self, one: Progress, step: UnitStep) -> bool:
        """Looks for the sign that a started container works, for `verify_timeout_s` at most."""
        is_active = step.kind is Kind.WAIT_PROCESSING
        if one.verification is None:
            expected = Expected(
                step.processor,
                is_active,
                self._limits.verify_timeout_s,
                reports_from="" if is_active else step.destination,
            )
            mover = one.moved_by or step.processor  # its answer is cleaned up
            end = self._client.checkpoints_end
            one.verification = Verification(
                self._client, expected, lambda: self._commits.since(mover, end)
            )
            one.deadline_ms = self._now_ms() + round(self._limits.verify_timeout_s * 1000)
        expected = one.verification.expected
        if not expected.is_awaited or (is_active and one.moved_at_ms is None):
            one.at, one.verification = one.at + 1, None
        elif one.verification.works():
            one.end(step, self._now_ms(), *expected.sign_seen())
            one.at, one.verification, one.deadline_ms = one.at + 1, None, 0
            if is_active and one.down_s is not None:
                one.first_commit_s = one.down_s + (self._now_ms() - one.step_done_ms) / 1000
        elif self._now_ms() >= one.deadline_ms:
            self._fail(one, f"{step.name}: {expected.failure()}")
        else:
            self._still(one, step, expected.sign_missing())
            return False
        return True

    def _still(self, one: Progress, step: UnitStep, what: str) -> None:
        """The heartbeat of a step that is waited for, until the unit's deadline."""

        def line() -> str:
            uuid = one.request.uuid if one.request else ""
            seen = seen_now(self._client, subject(one, step), uuid)
            left = time_left((one.deadline_ms - self._now_ms()) / 1000)
            return f"{one.unit.processor}: {step.name}: waiting: {what}; {seen}; {left}"

        self._beats[one.unit.processor](step.name, line)

    def _look(self, now_ms: int) -> Reported:
        if self._lags_at_ms is None or now_ms - self._lags_at_ms >= LAG_EVERY_MS:
            self._lags, self._lags_at_ms = Reported.read(self._client), now_ms
        return self._lags

    def _fail(self, one: Progress, why: str) -> None:
        if one.step is not None and one.began_ms is not None:
            one.end(one.step, self._now_ms())
        one.state, one.why_failed, one.warm_up, one.request = State.FAILED, why, None, None
        self._context.log.error(f"{one.unit.processor}: {why}")

    def _let_go(self, running: Sequence[Progress], because: str) -> None:
        if any(one.state is State.FAILED for one in self.progress):
            because = "another one has failed"
        for one in running:
            one.state, one.warm_up, self.goes_on = State.WAITING, None, True
            self._context.log.info(f"{one.unit.processor}: left waiting: {because}")

    def _see(self, one: Progress, step: UnitStep, response: PlacementResponse) -> Outcome:
        """The unit's request with one more status, which is logged when it is new."""
        before = one.request
        assert before is not None
        one.request = after = before.seen(response)
        if after is before:
            return after
        status, message, at_ms = after.status, after.message, response.timestamp
        one.began_ms = min(one.began_ms or at_ms, at_ms)
        one.moments.append((f"{one.unit.processor} {step.name}"[:30], status, at_ms))
        if after.stage == STOPPING and one.unit.processor in details_of(response).stopped:
            one.stopped_at_ms = at_ms
        self._context.log.info(
            f"{one.unit.processor}: {step.name}: {status}: {message}",
            extra={"request": after.uuid, "group": one.unit.group_id},
        )
        return after
