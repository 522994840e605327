"""One processor's restart as part of a bounce: asked once, followed without waiting, verified.

Its place in the bounce is free again when it runs anew, an active processes, and its lag is
back. A standby's lag is in its second report, a minute after its start by Samza's default: until
then it keeps its group, and not its place. What is known of it comes from the requests
themselves, so whoever goes on with a bounce finds it where it stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.bounce.row import Bounced, Lags
from samza_dagster.orchestration.operations.schedule import UNDER_WAY, UnitStatus
from samza_dagster.orchestration.plans.bounce import ACTIVE, Patience
from samza_dagster.orchestration.requests.asking import HeldRequest, write
from samza_dagster.orchestration.requests.step_request import (
    HELD,
    QUEUED,
    RESERVING,
    STARTING,
    STOPPING,
    StepRequest,
    details_of,
    ended_badly,
    stage_named,
)
from samza_dagster.orchestration.requests.verify import (
    Expected,
    LagSeen,
    NewReports,
    OwnCommits,
    Verification,
    not_running,
)

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ProcessorView


AT_WORK = (UnitStatus.STUCK, *UNDER_WAY)
"""Asked, and without an end yet."""


DOING = {
    QUEUED: "its request waits for its turn at the coordinator",
    RESERVING: "a place for it is being reserved",
    HELD: "its place is held",
    STOPPING: "it is being stopped",
    STARTING: "it is being started",
}


def doing(stage: str, told: str) -> str:
    """What the coordinator is at with a restart; what it `told`, at a stage that isn't known."""
    return DOING.get(stage_named(stage), told)


def on_record(client: PlacementClient, view: JobView) -> set[str]:
    """Requests that wait, run, have an answer or were taken: what isn't among them was never asked."""
    waiting = {action.uuid for action in (*view.actions, *view.queued)}
    answered = {response.uuid for response in client.history()}
    return waiting | answered | client.remembered()


class Restart:
    """One processor on its way. `step` looks once and returns; nothing here sleeps.

    `holds` maps what was reserved and isn't committed to the uuid of its release.
    """

    def __init__(
        self,
        client: PlacementClient,
        root: str,
        row: Bounced,
        patience: Patience,
        holds: dict[str, str],
        *,
        former: str | None,
        coordinator: str,
        commits: OwnCommits | None = None,
    ) -> None:
        self.row = row
        self._client = client
        self._root = root
        self._patience = patience
        self._holds = holds
        self._former = former
        self._can = capabilities(coordinator)
        self._hold = self._can.has_own_requests
        self._committed = not self._hold
        self._commits = commits or OwnCommits()
        self._reports = NewReports()
        self._looked_at: Verification | None = None
        self._began_ms = 0
        self._again = False
        self._deployment = ""

    @property
    def _reservation(self) -> HeldRequest:
        row = self.row
        return HeldRequest(
            self._client, self._root, self._holds, row.uuid, row.attempt, row.processor
        )

    @property
    def is_held_only(self) -> bool:
        """Asked, and nothing of it was stopped."""
        return self._reservation.is_held_only

    def begin(self, asked: StepRequest, now_ms: int) -> None:
        """Asks, unless an earlier run did; the request is then taken as it stands.

        Raises what the client raises; `InvalidInput` and `Refused` are a failure of this
        processor alone. After `Unreachable` it is as if it hadn't begun.
        """
        before = self.row
        try:
            self._begin(asked, now_ms)
        except Unreachable:
            self.row = before
            raise

    def _begin(self, asked: StepRequest, now_ms: int) -> None:
        self._began_ms = now_ms
        self.row = replace(
            self.row,
            status=UnitStatus.IN_FLIGHT,
            attempt=asked.attempt,
            uuid=asked.uuid,
            asked_ms=now_ms,
            why=f"asked, request {asked.uuid}",
        )
        if asked.response is not None:
            # When it was asked isn't on record any more; its newest status is later.
            self.row = replace(self.row, asked_ms=asked.response.timestamp)
            self._deployment = asked.response.deployment_id
            begun = bool(details_of(asked.response).stopped)
            if self._hold and not begun and not asked.response.status_code.is_terminal:
                self._reservation.note()
            return
        if asked.by_state and self._restarted():
            self.row = replace(
                self.row, in_ms=0, why="it was restarted; the answer is no longer on record"
            )
            return
        if self._hold:
            self._reservation.note()
        elif self._patience.lag_s and not self._patience.is_shown_by_work(self.row.mode):
            # Samza's AM tells no ids: what reports as another than before is the new one.
            mine = [r for r in self._client.lag() if r.processor_id == self.row.processor]
            self._reports.before = {r.execution_id for r in mine if r.execution_id}
        try:
            made = write(
                self._client,
                RequestKind.PLACE,
                self.row.processor,
                LAST_SEEN,
                uuid=asked.uuid,
                expiry_s=self._patience.request_expiry_s,
                hold=self._hold,
            )
            self.row = replace(self.row, asked_ms=made.timestamp)
            self._deployment = made.deployment_id
        except InvalidInput as error:
            self._reservation.forget()
            self._fail(str(error))

    def leave(self) -> None:
        """The processor has left the job."""
        self.row = replace(self.row, status=UnitStatus.GONE, why="it is no longer in the job")

    def begin_again(self, now_ms: int) -> None:
        """Verifies one that was back and is another process by now; asks nothing.

        Its times stay those of its restart.
        """
        self._began_ms = now_ms
        self._again = True
        self.row = replace(
            self.row,
            status=UnitStatus.IN_FLIGHT,
            in_ms=self.row.in_ms or 0,
            why="it is another process than the one that was back",
        )

    def step(self, view: JobView, lags: Lags | None, now_ms: int) -> bool:
        """Looks at the request or the container once; True when something changed."""
        before = self.row
        if self.row.in_ms is None:
            self._follow(view, now_ms)
        if self.row.in_ms is not None and self.row.status in AT_WORK:
            self._verify(view, lags, now_ms)
        return self.row != before

    def give_back(self) -> str:
        """Releases what is held only; what became of it, or that there was nothing."""
        why = self._reservation.give_back()
        if why:
            self.row = replace(self.row, status=UnitStatus.WAITING, why=why)
        return why

    def _restarted(self) -> bool:
        """By its incarnation: another one runs than the plan was made with."""
        found = self._client.view().processors.get(self.row.processor)
        now = found.execution_id if found is not None else None
        return None not in (self._former, now) and now != self._former

    def _follow(self, view: JobView, now_ms: int) -> None:
        response = self._client.response(self.row.uuid)
        if response is not None:
            self._see(response, now_ms)
        if self.row.status != UnitStatus.IN_FLIGHT or self.row.in_ms is not None:
            return
        action = next((a for a in (*view.actions, *view.queued) if a.uuid == self.row.uuid), None)
        why = self.row.why if action is None else doing(action.stage, self.row.why)
        if action is not None and action.trouble:
            why = f"{why}; {action.trouble}"
        until_ms = self._began_ms + round(self._patience.timeout_s * 1000)
        self.row = replace(self.row, why=why, until_ms=until_ms)
        over = (
            view.why_over(self._deployment)
            if self._deployment and not self._can.answers_late
            else ""
        )
        if over:
            self._fail(f"{over}: a new coordinator knows nothing of it; last: {self.row.why}")
        elif now_ms - self._began_ms > self._patience.timeout_s * 1000:
            self._too_late()

    def _see(self, response: PlacementResponse, now_ms: int) -> None:
        message, details = response.response_message, details_of(response)
        why = doing(details.stage or "", message)
        if ended_badly(response):
            self._reservation.forget()
            if self.row.stop_ms is not None:
                self.row = replace(self.row, failed_ms=response.timestamp)
            self._fail(f"{response.status_code.value}: {message}")
        elif response.status_code is StatusCode.SUCCEEDED:
            self._reservation.forget()
            self._began_ms = now_ms
            stop = self.row.stop_ms
            down = None if stop is None else max(0, response.timestamp - stop) / 1000
            self.row = replace(
                self.row,
                status=UnitStatus.IN_FLIGHT,
                in_ms=response.timestamp,
                down_s=down,
                why="it has checked in",
            )
        elif details.stopped:
            self._reservation.forget()
            self.row = replace(self.row, stop_ms=response.timestamp, why=why)
        else:
            self.row = replace(self.row, why=why)
            if stage_named(details.stage) == HELD and not self._committed:
                self._commit(response.timestamp)

    def _commit(self, at_ms: int) -> None:
        try:
            self._reservation.commit()
        except InvalidInput as error:
            # It has ended since it was read, which the next look tells; or it stays so until the
            # time for it is over.
            self.row = replace(self.row, why=f"held; {error}")
            return
        self._committed = True
        # Until its stop is told: it comes after the hold, so this is no later.
        self.row = replace(self.row, stop_ms=at_ms, why="committed")

    def _too_late(self) -> None:
        limit = f"within {self._patience.timeout_s:g} s"
        if self.is_held_only:
            why = self.give_back()
            self._fail(f"not reserved {limit}, so it runs on untouched; {why}")
        else:
            self.row = replace(
                self.row,
                status=UnitStatus.STUCK,
                why=f"no end {limit}: {self.row.why}; the coordinator goes on with it",
            )

    def _verify(self, view: JobView, lags: Lags | None, now_ms: int) -> None:
        pid, patience = self.row.processor, self._patience
        found = view.processors.get(pid)
        lag = self._lag(lags, found)
        verification = self._verification()
        lacks, committed = verification.look(view, lag.why_not), verification.committed
        self.row = replace(
            self.row,
            lag=lag.records,
            now_on=(found.host if found else "") or "",
            execution=(found.execution_id if found else "") or "",
            committed=self.row.committed if committed is None else committed,
        )
        took_s = max(0, now_ms - (self.row.asked_ms or self._began_ms)) / 1000
        if lacks is None:
            self.row = replace(
                self.row,
                status=UnitStatus.BACK,
                back_ms=now_ms,
                until_ms=None,
                seconds=self.row.seconds if self._again else took_s,
                why=self._verified(lag.records),
            )
            return
        limit = lacks.within_s
        if self._again and not_running(found, self._former):
            limit = max(limit, patience.timeout_s)
        until_ms = self._began_ms + round(max(limit, 1.0) * 1000)
        if now_ms > until_ms:
            since = "since it is looked at again" if self._again else "after it has checked in"
            self._fail(f"{lacks.seen}, {limit:g} s {since}")
        else:
            is_up = lag.is_up and lacks.is_lag
            self.row = replace(
                self.row,
                status=UnitStatus.UP if is_up else UnitStatus.IN_FLIGHT,
                until_ms=until_ms,
                why=lacks.seen,
            )

    def _verification(self) -> Verification:
        if self._looked_at is None:
            pid, patience = self.row.processor, self._patience
            expected = Expected(
                pid,
                self.row.mode == ACTIVE,
                patience.verify_timeout_s,
                self._former,
                lag_s=patience.lag_s,
            )
            self._looked_at = Verification(self._client, expected, self._own_commits_since)
        return self._looked_at

    def _own_commits_since(self) -> int:
        """Its former process is dead: what is committed from now on is its own.

        Of one that is another process by now no earlier run has told.
        """
        end = self._client.checkpoints_end
        return end() if self._again else self._commits.since(self.row.uuid, end)

    def _lag(self, lags: Lags | None, found: ProcessorView | None) -> LagSeen:
        if not self._patience.lag_s:
            return LagSeen()
        if lags is None or lags.at_ms < self._began_ms:
            return LagSeen(why_not="its lag is being read")
        return self._reports.look(
            lags.of.get(self.row.processor, ()),
            (found.execution_id if found else None) or "",
            lags.limit(self.row.processor, self._patience),
            shown_by_work=self._patience.is_shown_by_work(self.row.mode),
        )

    def _verified(self, lag: int | None) -> str:
        parts = ["it runs"]
        if self.row.mode == ACTIVE:
            parts.append(
                "and processes"
                if self._patience.verify_timeout_s
                else "(processing not waited for)"
            )
        if lag is not None:
            parts.append(f"with a lag of {lag:,}")
        return " ".join(parts)

    def _fail(self, why: str) -> None:
        self.row = replace(self.row, status=UnitStatus.FAILED, why=why)
