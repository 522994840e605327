"""Carries out units of steps: several at once, each request asked once, none left behind unsaid."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import DeadlineExceeded, InvalidInput, Refused, SamzaDagsterError
from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.follow import root_run_id
from samza_dagster.orchestration.moves import OURS, has_reported_from, not_reported
from samza_dagster.orchestration.own_commits import OwnCommits
from samza_dagster.orchestration.pictures import clock
from samza_dagster.orchestration.requests import (
    STOPPING,
    Moment,
    StepRequest,
    details_of,
    request_uuid,
    stage_named,
    standing,
)
from samza_dagster.orchestration.spun_up import newest_starts, note_spin_up, started_standby
from samza_dagster.orchestration.ticks import elapsed_ms
from samza_dagster.orchestration.units.by_state import is_so, pass_what_is_done
from samza_dagster.orchestration.units.order import NEW, Kind, State, Step, Unit, may_begin
from samza_dagster.orchestration.units.progress import (
    Limits,
    Progress,
    Span,
    any_of,
    named,
    subject,
)
from samza_dagster.orchestration.waits.conditions import (
    Met,
    Reported,
    Wait,
    look,
    told,
)
from samza_dagster.orchestration.waits.continuation import seen_before
from samza_dagster.orchestration.waits.heartbeat import Heartbeats, seen_now, time_left

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

POLL_S = 0.3
LAG_EVERY_MS = 2_000
VIEW_LAGS_MS = 5_000  # an answer and the state that it tells of are in two topics


class Carrier:
    """Units of one run. `prefix` begins the names of their steps, of which uuids are made.

    A unit whose request fails has failed: a re-execution of the run asks anew, this run
    doesn't. After a failure nothing begins, and what is asked is followed to its end; where
    groups are `apart`, so it is for the group of what has failed.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        client: PlacementClient,
        prefix: str,
        limits: Limits,
        *,
        apart: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = elapsed_ms,
    ) -> None:
        self._context = context
        self._client = client
        self._root = root_run_id(context)
        self._prefix = prefix
        self._limits = limits
        self._apart = apart
        self._sleep, self._monotonic, self._now_ms = sleep, monotonic, now_ms
        self._seen: Met | None = seen_before(context)
        self._commits = OwnCommits.of_run(context)
        self._beats = Heartbeats(context.log.info, now_ms)
        self._lags = Reported.by(())
        self._lags_at_ms: int | None = None
        self._told: set[tuple[str, str, int]] = set()
        self.progress: list[Progress] = []

    def carry(self, units: Sequence[Unit], at_once: int) -> Wait | None:
        """Does all of it; returns what is waited for when the run is to end with a wait.

        `progress` tells how each unit ended. A cancelled run asks that what was only
        reserved is given back, and says what goes on.
        """
        self.progress = [Progress(unit) for unit in units]
        quiet_since = self._monotonic()
        try:
            while True:
                moved = self._begin(at_once)
                running = [one for one in self.progress if one.state is State.RUNNING]
                if not running:
                    return None
                for one in running:
                    moved = self._advance(one) or moved
                if moved:
                    quiet_since = self._monotonic()
                    continue
                waits = [one.rest for one in running if one.rest is not None]
                if len(waits) == len(running):
                    failed = any(one.state is State.FAILED for one in self.progress)
                    if failed and not self._apart:
                        self._let_go(running)
                        return None
                    if self._monotonic() - quiet_since >= self._limits.in_run_s:
                        return any_of(waits)
                self._sleep(POLL_S)
        except dg.DagsterExecutionInterruptedError:
            self._hand_back()
            raise

    def _begin(self, at_once: int) -> bool:
        states = {number: one.state for number, one in enumerate(self.progress)}
        units = [one.unit for one in self.progress]
        chosen = may_begin(units, states, at_once, apart=self._apart)
        for number in chosen:
            one = self.progress[number]
            one.state = State.RUNNING
            self._context.log.info(f"{one.unit.processor}: {one.unit.what}: {one.unit.why}")
            if self._root != self._context.run.run_id:
                try:
                    pass_what_is_done(self._client, one, self._asked, self._now_ms())
                except Refused as refused:
                    self._fail(one, str(refused))
        return bool(chosen)

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
            if step.kind is Kind.WAIT_PROCESSING:
                return self._processing(one, step)
            if step.kind is Kind.WAIT_REPORT:
                return self._reports(one, step)
            return self._request(one, step)
        except DeadlineExceeded:
            return False
        except SamzaDagsterError as error:
            self._fail(one, f"{step.name}: {error}")
            return True

    def _request(self, one: Progress, step: Step) -> bool:
        if not one.uuid:
            self._ask(one, step)
            if not one.uuid:
                return True
        wait_s = min(POLL_S, self._limits.timeout_s)
        try:
            response = self._client.wait(
                one.uuid,
                timeout_s=wait_s,
                on_response=lambda r: self._tell(one, step, r),
                on_notice=self._context.log.warning,
            )
        except DeadlineExceeded:
            if self._monotonic() >= one.deadline:
                self._fail(
                    one,
                    f"{step.name}: request {one.uuid} hasn't ended in {self._limits.timeout_s:g} s;"
                    " the coordinator goes on with it: re-execute this run from failure to follow",
                )
                return True
            self._still(one, step, f"request {one.uuid} is {one.said or 'not answered yet'}")
            raise
        self._tell(one, step, response)
        uuid, one.uuid = one.uuid, ""
        status, told_ms = response.status_code.value, response.timestamp
        self._row(one, step, status, response.response_message, uuid, at_ms=told_ms)
        if response.status_code.value != "SUCCEEDED":
            self._fail(
                one, f"{step.name}: {response.status_code.value}: {response.response_message}"
            )
            return True
        if step.kind is Kind.START_STANDBY:
            one.standby = started_standby(response)
            one.standby_since_ms = response.timestamp
        elif step.kind is Kind.STOP_STANDBY:
            one.standby_until_ms = response.timestamp
        elif step.processor == one.unit.processor:
            one.moved_at_ms, one.moved_by = response.timestamp, uuid
            if one.stopped_at_ms is not None:
                one.down_s = max(0, response.timestamp - one.stopped_at_ms) / 1000
        one.at, one.step_done_ms, one.deadline = one.at + 1, self._now_ms(), 0.0
        return True

    def _ask(self, one: Progress, step: Step) -> None:
        client, processor = self._client, subject(one, step)
        asked = self._asked(one, step)
        if asked.by_state and is_so(client, one, step, self._now_ms()):
            self._row(one, step, "done", "by the state of the job; the answer is cleaned up")
            one.at, one.step_done_ms = one.at + 1, self._now_ms()
            return
        one.uuid = asked.uuid
        one.said = ""
        self._beats.of(one.unit.processor).begin(step.name)
        one.deadline, one.stopped_at_ms = self._monotonic() + self._limits.timeout_s, None
        if step.kind is Kind.START_STANDBY and one.unit.is_for_a_move:
            note_spin_up(self._context, asked.uuid)
        if asked.response is not None:
            return
        again = "" if asked.destination is None else " (it was asked before)"
        self._context.log.info(
            f"{one.unit.processor}: {step.name}: asking {processor} → {step.destination or '-'},"
            f" request {asked.uuid}, attempt {asked.attempt + 1}{again}"
        )
        expiry = self._limits.request_expiry_s
        try:
            if step.kind is Kind.START_STANDBY:
                client.start_standby(
                    processor, step.destination, request_expiry_s=expiry, uuid=asked.uuid
                )
            elif step.kind is Kind.STOP_STANDBY:
                client.stop_standby(processor, uuid=asked.uuid)
            else:
                client.place(
                    processor,
                    step.destination,
                    request_expiry_s=expiry,
                    uuid=asked.uuid,
                    allow_unknown_host=True,  # the plan knew it; the last may have left it since
                )
        except InvalidInput:
            one.uuid = ""
            if one.at == 0 or self._now_ms() >= one.step_done_ms + VIEW_LAGS_MS:
                raise
            raise DeadlineExceeded("the view", seen="it may not yet show the step before") from None
        except SamzaDagsterError:
            one.uuid = ""
            raise

    def _warm(self, one: Progress, step: Step) -> bool:
        """Looks at the standby's lag; passed as well when what comes after it was asked before."""
        standby, limits, now_ms = subject(one, step), self._limits.catch_up, self._now_ms()
        following = one.unit.steps[one.at + 1]
        later = self._asked(one, following)
        if later.destination is not None or (
            later.forgotten and is_so(self._client, one, following, now_ms)
        ):
            one.at, one.wait = one.at + 1, None
            return True
        if one.wait is None:
            left_ms = {standby: self._catch_up_ms(standby)}
            steady_s = limits.steady_s if step.processor == NEW else 0.0
            one.wait = Wait(left_ms, limits.lag_limit, steady_s, 0, "")
        lags = self._look(now_ms)
        one.watched = look(one.wait, one.watched, lags, now_ms)
        held_ms = one.watched.steady_ms(standby)
        steady = held_ms is not None and held_ms >= one.wait.steady_s * 1000
        if steady or (held_ms is not None and self._was_steady(standby)):
            self._row(one, step, "warm", told(one.wait, one.watched, lags))
            one.at, one.wait, one.watched = one.at + 1, None, None
            return True
        line = told(one.wait, one.watched, lags)
        if standby not in self._client.view().processors:
            self._fail(one, f"{step.name}: standby {standby} isn't in the job any more")
            return True
        if not one.watched.left_ms(one.wait)[standby]:
            self._fail(one, f"{step.name}: not warm in {limits.timeout_s:g} s: {line}")
            return True
        state = "behind" if held_ms is None else "steady"
        self._beats.of(one.unit.processor)(f"{step.name}: {state}", line)
        return False

    def _processing(self, one: Progress, step: Step) -> bool:
        limit_s = self._limits.verify_timeout_s
        if not limit_s or one.moved_at_ms is None:
            one.at += 1
            return True
        mover = one.moved_by or step.processor  # its answer is cleaned up
        since = self._commits.since(mover, self._client.checkpoints_end)
        goes_on = self._awaited(
            one,
            step,
            self._client.processing(step.processor, since).processing,
            told=("processes", "an input offset grew in a commit since its start"),
            still="no input offset grew in a commit yet",
            failed=f"{step.processor} doesn't process within {limit_s:g} s: look at its log; if its"
            " input is idle, re-execute the whole run with verify_timeout_s 0",
        )
        if goes_on and one.state is not State.FAILED and one.down_s is not None:
            one.first_commit_s = one.down_s + (self._now_ms() - one.step_done_ms) / 1000
        return goes_on

    def _reports(self, one: Progress, step: Step) -> bool:
        """Looks for the word of a standby that Samza's AM has launched, from where it was launched."""
        limit_s, standby, host = self._limits.verify_timeout_s, step.processor, step.destination
        if not limit_s:
            one.at += 1
            return True
        return self._awaited(
            one,
            step,
            has_reported_from(self._client.view(), standby, host),
            told=("reports", f"{standby} has written that it is on {host}"),
            still=f"no word of {standby} from {host} yet",
            failed=str(not_reported(standby, host, limit_s)),
        )

    def _awaited(
        self,
        one: Progress,
        step: Step,
        there: bool,
        *,
        told: tuple[str, str],
        still: str,
        failed: str,
    ) -> bool:
        """One look at a sign that is waited for, `verify_timeout_s` at most; whether the unit went on."""
        one.deadline = one.deadline or self._monotonic() + self._limits.verify_timeout_s
        if there:
            self._row(one, step, *told)
            one.at, one.deadline = one.at + 1, 0.0
        elif self._monotonic() >= one.deadline:
            self._fail(one, f"{step.name}: {failed}")
        else:
            self._still(one, step, still)
            return False
        return True

    def _still(self, one: Progress, step: Step, what: str) -> None:
        """The heartbeat of a step that is waited for, until the unit's deadline."""

        def line() -> str:
            seen = seen_now(self._client, subject(one, step), one.uuid)
            left = time_left(one.deadline - self._monotonic())
            return f"{one.unit.processor}: {step.name}: waiting: {what}; {seen}; {left}"

        self._beats.of(one.unit.processor)(step.name, line)

    def _catch_up_ms(self, standby: str) -> int:
        """How long it may still take; a re-execution is there to wait on, and has all of it anew."""
        left = self._seen.left_ms.get(standby) if self._seen is not None else None
        return round(self._limits.catch_up.timeout_s * 1000) if left is None else left

    def _was_steady(self, standby: str) -> bool:
        return self._seen is not None and standby in self._seen.steady_ms

    def _look(self, now_ms: int) -> Reported:
        if self._lags_at_ms is None or now_ms - self._lags_at_ms >= LAG_EVERY_MS:
            self._lags, self._lags_at_ms = Reported.by(self._client.lag()), now_ms
        return self._lags

    def _fail(self, one: Progress, why: str) -> None:
        if one.step is not None and one.began_ms is not None:
            self._span(one, one.step, self._now_ms(), failed=True)
        one.state, one.why_failed, one.wait, one.uuid = State.FAILED, why, None, ""
        self._context.log.error(f"{one.unit.processor}: {why}")

    def _let_go(self, running: Sequence[Progress]) -> None:
        for one in running:
            one.state, one.wait = State.WAITING, None
            self._context.log.info(f"{one.unit.processor}: left waiting: another one has failed")

    def _hand_back(self) -> None:
        """Of a cancelled run: ends what was only asked or reserved, and tells the rest."""
        for one in self.progress:
            if one.state is not State.RUNNING:
                continue
            told_of = f"standby {one.standby} runs on" if one.standby else "nothing of it is held"
            if one.uuid:
                told_of = self._cancel(one.uuid)
            self._context.log.warning(f"cancelled: {one.unit.processor}: {told_of}")

    def _cancel(self, uuid: str) -> str:
        try:
            if self._client.view().coordinator != OURS:
                return f"request {uuid} goes on: Samza's wire has no cancel"
            self._client.cancel(uuid, uuid=request_uuid(self._root, f"cancel/{uuid}", 0))
        except SamzaDagsterError as error:
            return f"request {uuid} goes on: {error}"
        return f"asked that request {uuid} ends: nothing of it was stopped yet"

    def _asked(self, one: Progress, step: Step) -> StepRequest:
        """Where the step's request stands.

        A re-execution passes over a standby that was started, is gone or somebody else's by
        now, and never gave its place: it starts another one.
        """
        name, processor = f"{self._prefix}/{one.unit.processor}/{step.name}", subject(one, step)
        if step.processor == NEW:
            name = named(name, one)

        def fits(destination: str) -> bool:
            return step.kind is Kind.STOP_STANDBY or destination == step.destination

        asked = standing(self._client, self._root, name, processor, fits=fits)
        if step.kind is Kind.START_STANDBY and one.unit.is_for_a_move:
            while self._context.run.parent_run_id is not None and self._is_lost(one, asked):
                asked = standing(
                    self._client, self._root, name, processor, first=asked.attempt + 1, fits=fits
                )
            one.attempt = asked.attempt
        return asked

    def _is_lost(self, one: Progress, asked: StepRequest) -> bool:
        standby = started_standby(asked.response)
        if standby is None:
            return False
        started = replace(one, standby=standby, attempt=asked.attempt)
        gives = next(step for step in one.unit.steps if step.kind is Kind.STOP_STANDBY)
        given = self._asked(started, gives)
        if given.destination is not None or given.forgotten:
            return False
        newest = newest_starts(self._client).get(standby)
        there = standby in self._client.view().processors
        return not there or (newest is not None and newest.uuid != asked.uuid)

    def _tell(self, one: Progress, step: Step, response: PlacementResponse) -> None:
        said = (response.uuid, response.response_message, response.timestamp)
        if said in self._told:
            return
        self._told.add(said)
        one.said = f"{response.status_code.value}: {response.response_message}"
        one.began_ms = min(one.began_ms or response.timestamp, response.timestamp)
        one.moments.append(
            Moment(
                f"{one.unit.processor} {step.name}",
                response.uuid,
                response.status_code.value,
                response.response_message,
                response.timestamp,
                response.timestamp - one.began_ms,
                stage=f"{one.unit.processor} {step.name}"[:30],
            )
        )
        details = details_of(response)
        if stage_named(details.stage) == STOPPING and one.unit.processor in details.stopped:
            one.stopped_at_ms = response.timestamp
        self._context.log.info(
            f"{one.unit.processor}: {step.name}: {response.status_code.value}:"
            f" {response.response_message}"
        )

    def _span(self, one: Progress, step: Step, end_ms: int, *, failed: bool = False) -> float:
        begin_ms = min(one.began_ms or end_ms, end_ms)
        one.spans.append(Span(step.kind, begin_ms, end_ms, failed))
        one.began_ms = None
        return (end_ms - begin_ms) / 1000

    def _row(
        self,
        one: Progress,
        step: Step,
        status: str,
        text: str,
        uuid: str = "",
        *,
        at_ms: int | None = None,
    ) -> None:
        at_ms = self._now_ms() if at_ms is None else at_ms
        seconds = self._span(one, step, at_ms, failed=status in ("FAILED", "BAD_REQUEST"))
        one.rows.append(
            {
                "at": clock(at_ms),
                "seconds": seconds,
                "container": one.unit.processor,
                "step": step.name,
                "what": step.told(),
                "status": status,
                "message": text,
                "request": uuid or None,
            }
        )
