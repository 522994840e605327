"""A rolling bounce as it goes: looks, decides, asks, until nothing is left or it is told to end.

All that it does is asked under ids of its root, so a killed bounce is begun again from
what the requests and the record of those that are back tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.bounce.back import BackWatch, Since, not_itself, until_settled
from samza_dagster.orchestration.bounce.canary import CanaryWatch
from samza_dagster.orchestration.bounce.down import Down
from samza_dagster.orchestration.bounce.order import (
    UNDER_WAY,
    Next,
    Phase,
    Position,
    Stand,
    busy_groups,
    not_running,
    paced,
    what_next,
)
from samza_dagster.orchestration.bounce.plan import BouncePlan
from samza_dagster.orchestration.bounce.progress import Ledger, ProgressLog
from samza_dagster.orchestration.bounce.restart import Restart, on_record
from samza_dagster.orchestration.bounce.row import Bounced, End, Lags, Result
from samza_dagster.orchestration.own_commits import OwnCommits
from samza_dagster.orchestration.requests import StepRequest, standing
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ReplicaLag

POLL_S = 0.25
LOOK_MS = 1_000
LAG_MS = 2_000
PAUSE, ABORT = "pause", "abort"


class Bounce:
    """One run's part of a bounce.

    `known` are those that an earlier run of the chain saw back, `failed` those whose
    failure this run isn't to try again, `commits` where those of whom it restarts begin.
    """

    def __init__(
        self,
        client: PlacementClient,
        plan: BouncePlan,
        root: str,
        ledger: Ledger,
        holds: dict[str, str],
        *,
        known: Mapping[str, Bounced] | None = None,
        failed: Mapping[str, Bounced] | None = None,
        commits: OwnCommits | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = elapsed_ms,
    ) -> None:
        self._client = client
        self._plan = plan
        self._root = root
        self._ledger = ledger
        self._holds = holds
        self._known = known or {}
        self._failed = failed or {}
        self._commits = commits or OwnCommits()
        self._sleep = sleep
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._rows: dict[str, Bounced] = {}
        self._asked: dict[str, StepRequest] = {}
        self._restarts: dict[str, Restart] = {}
        self._lags: Lags | None = None
        self._view: JobView | None = None
        self._progress = ProgressLog(ledger, plan, now_ms)
        self._due: dict[str, int] = {}
        self._down = Down(client)
        self._back = BackWatch(client)
        self._canary = CanaryWatch(client, plan, ledger.check_passed)
        self._idle_since: int | None = None
        self._away_since: int | None = None

    def run(self) -> Result:
        """Goes on until the end; what is only held is given back however that comes."""
        try:
            return self._run()
        except BaseException:
            self.give_back()
            raise

    def result(self, end: End, because: str) -> Result:
        """All rows in the order of the plan, as they are now."""
        return Result(
            end, because, tuple(self._rows.get(p, self._plan.row(p)) for p in self._plan.processors)
        )

    def give_back(self) -> None:
        """Releases what was asked and hasn't stopped anything."""
        held = [r for r in self._restarts.values() if r.is_held_only]
        mine = {r.row.uuid: self._holds.pop(r.row.uuid) for r in held}
        for restart in held:
            self._holds[restart.row.uuid] = mine[restart.row.uuid]
            self._ledger.log(f"{restart.row.processor}: {restart.give_back()}")
            self._rows[restart.row.processor] = restart.row

    def _run(self) -> Result:
        while True:
            try:
                if not self._rows:
                    self._rows = self._taken_up()
                ended = self._turn()
                self._away_since = None
            except Unreachable as error:
                ended = None
                self._away(error)
            if ended is not None:
                self._progress.tell(self._rows)
                return ended
            self._sleep(POLL_S)

    def _taken_up(self) -> dict[str, Bounced]:
        """Each processor where its requests say that it stands."""
        view = self._client.view()
        there = on_record(self._client, view)
        rows = {p: self._plan.row(p) for p in self._plan.processors}
        for p, row in rows.items():
            known, failed = self._known.get(p), self._failed.get(p)
            if p not in view.processors:
                rows[p] = replace(row, stand=Stand.GONE, why="it is no longer in the job")
            elif known is not None:
                rows[p] = self._still_back(known, view)
            else:
                asked = standing(self._client, self._root, f"bounce/{p}", p, on_record=there)
                self._asked[p] = asked
                rows[p] = failed or replace(row, attempt=asked.attempt, uuid=asked.uuid)
        for p, asked in self._asked.items():
            if asked.destination is not None and rows[p].stand is Stand.WAITING:
                self._ledger.log(f"{p}: request {asked.uuid} was asked before: following it")
                rows[p] = self._restart(p, rows[p])
        return rows

    def _still_back(self, known: Bounced, view: JobView) -> Bounced:
        """Who isn't the process that an earlier run saw is verified again, and not restarted."""
        p = known.processor
        why = not_itself(known, view.processors[p], not_running(view))
        if not why:
            return known
        self._ledger.log(f"{p} was back, and now {why}: it is verified again")
        restart = self._restarts[p] = self._made(p, known)
        restart.begin_again(self._now_ms())
        return restart.row

    def _turn(self) -> Result | None:
        now = self._now_ms()
        order = self._ledger.control()
        if order == ABORT:
            return self._abort()
        view = self._step(now)
        since = self._since_back(view, now)
        position = self._position(view, order, since, now)
        todo = what_next(self._plan.units, self._plan.limits, position, now)
        if todo.phase is Phase.JUDGING:
            verdict = self._canary.judge(view, self._rows, now)
            if verdict.passed is not None:
                self._ledger.log(f"canary: {verdict.why}")
            todo = replace(todo, because=verdict.why)
            position = replace(position, judged=verdict.passed)
            if verdict.passed is not None:
                todo = what_next(self._plan.units, self._plan.limits, position, now)
            if verdict.passed is False:
                todo = replace(todo, because=f"{todo.because}: {verdict.why}")
        todo = until_settled(todo, since)
        for p in todo.ask:
            # Unreachable leaves it waiting, asked or not: the same id is asked again.
            self._rows[p] = self._restart(p, self._rows[p])
            self._progress.changed(self._rows[p], self._rows)
        self._progress.heartbeat(todo, self._rows, now)
        if todo.phase is Phase.ENDED:
            return self._ended(order, todo.because)
        return self._too_idle(todo, now)

    def _since_back(self, view: JobView, now: int) -> Since:
        """Who died after it was back has failed, who was restarted by somebody else has not."""
        since = self._back.look(view, self._rows, self._ours(), now)
        for p, found in since.renewed.items():
            host, execution = found.host or "", found.execution_id or ""
            self._rows[p] = replace(self._rows[p], now_on=host, execution=execution)
            self._ledger.log(f"{p} runs as {execution} on {host}: somebody else has asked for that")
        for p, seen in since.died.items():
            why = f"it was back and died since: {seen}"
            self._rows[p] = replace(self._rows[p], stand=Stand.FAILED, why=why)
            self._progress.changed(self._rows[p], self._rows)
        return since

    def _ours(self) -> set[str]:
        return {row.uuid for row in self._rows.values()}

    def _position(self, view: JobView, order: str, since: Since, now: int) -> Position:
        stands = {p: self._rows[p].stand for p in self._plan.processors}
        waiting = {p: b for p, b in paced(view).items() if stands.get(p) is Stand.WAITING}
        self._progress.waits_until_ms = {p: b.free_at_ms or now for p, b in waiting.items()}
        return Position(
            stands=stands,
            back_at_ms=self._back_at_ms(),
            judged=self._canary.passed,
            busy=busy_groups(view, self._ours()),
            down={**self._down.among(view, self._rows, now), **since.unsettled},
            paced=waiting,
            halt="it is paused" if order == PAUSE else "",
        )

    def _back_at_ms(self) -> dict[str, int]:
        """By this run's clock: who was back before counts as back since it began to watch."""
        told = {p: r.back_ms for p, r in self._rows.items() if r.back_ms is not None}
        before = {p: known.back_ms for p, known in self._known.items()}
        return {p: self._began_ms if before.get(p) == at else at for p, at in told.items()}

    def _made(self, p: str, row: Bounced) -> Restart:
        return Restart(
            self._client,
            self._root,
            row,
            self._plan.patience,
            self._holds,
            former=self._plan.executions.get(p),
            coordinator=self._plan.coordinator,
            commits=self._commits,
        )

    def _restart(self, p: str, row: Bounced) -> Bounced:
        restart = self._restarts[p] = self._made(p, row)
        restart.begin(self._asked[p], self._now_ms())
        return restart.row

    def _step(self, now: int) -> JobView:
        """Looks at each request, and once a second at what runs; the job as it is after that."""
        look = self._is_due("look", LOOK_MS, now)
        if look or self._view is None:
            self._view = self._client.view()
        view, changed = self._view, False
        for p, restart in self._restarts.items():
            row = restart.row
            if row.stand not in (Stand.STUCK, *UNDER_WAY):
                continue
            if p not in view.processors:
                restart.row = replace(row, stand=Stand.GONE, why="it is no longer in the job")
                self._changed(p, restart)
                continue
            if row.in_ms is not None:
                if not look:
                    continue
                self._read_lags(now)
            if restart.step(view, self._lags, now):
                self._changed(p, restart)
                changed = changed or restart.row.stand is not row.stand
        if changed:  # a place is free: what is decided now goes by the job as it is now
            view = self._view = self._client.view()
        return view

    def _changed(self, p: str, restart: Restart) -> None:
        self._rows[p] = restart.row
        self._progress.changed(restart.row, self._rows)

    def _read_lags(self, now: int) -> None:
        if not self._plan.patience.lag_s or not self._is_due("lag", LAG_MS, now):
            return
        of: dict[str, list[ReplicaLag]] = {}
        for replica in self._client.lag():
            of.setdefault(replica.processor_id, []).append(replica)
        self._lags = Lags(now, of)

    def _is_due(self, what: str, every_ms: int, now: int) -> bool:
        if now < self._due.get(what, 0):
            return False
        self._due[what] = now + every_ms
        return True

    def _abort(self) -> Result:
        self.give_back()
        for row in self._rows.values():
            if row.stand in (Stand.STUCK, *UNDER_WAY):
                self._ledger.log(
                    f"{row.processor}: request {row.uuid} is in flight, the coordinator goes on with it"
                )
        return self.result(End.ABORTED, "it was aborted")

    def _ended(self, order: str, because: str) -> Result:
        rest = [r for r in self._rows.values() if r.stand not in (Stand.BACK, Stand.GONE)]
        if not rest:
            return self.result(End.DONE, "all are back")
        if order == PAUSE:
            return self.result(End.PAUSED, "it was paused")
        return self.result(End.STOPPED, because)

    def _too_idle(self, todo: Next, now: int) -> Result | None:
        """The end of a bounce that may touch nobody for too long."""
        flying = any(row.stand in UNDER_WAY for row in self._rows.values())
        if todo.phase is not Phase.BOUNCING or todo.ask or flying or todo.until_ms is not None:
            self._idle_since = None
            return None
        self._idle_since = self._idle_since or now
        limit = self._plan.patience.request_s
        if now - self._idle_since <= limit * 1000:
            return None
        return self.result(End.STOPPED, f"nobody may be touched for {limit:g} s: {todo.because}")

    def _away(self, error: Unreachable) -> None:
        now = self._now_ms()
        if self._away_since is None:
            self._away_since = now
            self._ledger.log(f"waiting for who doesn't answer: {error}")
        if now - self._away_since > self._plan.patience.request_s * 1000:
            raise error
