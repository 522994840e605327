"""The loop of every operation: it looks, decides, begins, until nothing is left.

Every request has an id derived from the root of its chain of runs, so an operation whose run was
killed resumes from the state of its requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.operations.schedule import (
    AT_WORK,
    BAD,
    OVER,
    UNDER_WAY,
    Next,
    OperationPhase,
    Position,
    Progress,
    Result,
    RunEnd,
    UnitStatus,
    what_next,
)
from samza_dagster.orchestration.operations.watching import (
    BackWatch,
    CanaryWatch,
    Down,
    Since,
    not_itself,
)
from samza_dagster.orchestration.operations.work import Chain, UnitWork
from samza_dagster.orchestration.plans.conditions import Reported
from samza_dagster.orchestration.plans.order import busy_groups, not_running, paced
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.text import clock, in_words
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

POLL_S = 0.25
LOOK_MS = 1_000
LAG_MS = 2_000
EVERY_MS = 30_000
"""Between two lines of the log of what an operation sees."""


class Ledger(Protocol):
    """Where an operation tells how far it is."""

    def log(self, text: str, row: Progress | None = None) -> None:
        """Write a line of the run's log, about a unit or about all."""
        ...

    def finished(self, row: Progress, rows: Mapping[str, Progress], done: int) -> None:
        """Record a unit that has ended."""
        ...

    def progress(self, text: str) -> None:
        """Show how far the operation is."""
        ...

    def check_passed(self) -> bool | None:
        """Return what the plan's asset check has found since this was asked first."""
        ...


class ProgressLog:
    """Tells a ledger what changes, and every 30 s what it sees."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._shown = ""
        self._because = ""
        self._why_now = ""
        self._is_over = False
        self._due_ms = 0
        self._forms: dict[str, str] = {}

    def changed(self, row: Progress, rows: Mapping[str, Progress]) -> None:
        """Log a changed row; a lag that changes alone is left to the heartbeat."""
        line = f"{row.processor} on {row.now_on or row.host}: {row.status}: {row.why}"
        but_for_lag = line if row.lag is None else line.replace(f" {row.lag:,} ", " ")
        if self._forms.get(row.processor) != but_for_lag:
            self._forms[row.processor] = but_for_lag
            self._ledger.log(line, row)
        if row.status in (UnitStatus.BACK, *BAD):
            self._why_now = ""
            self._ledger.finished(row, rows, _done(rows))
            self.tell(rows)

    def heartbeat(self, todo: Next, rows: Mapping[str, Progress], now_ms: int) -> None:
        """Log what the operation does, when that changes and every 30 s."""
        flying = [r for r in rows.values() if r.status in UNDER_WAY]
        is_due = now_ms >= self._due_ms
        is_new = bool(todo.because) and todo.because != self._because
        self._because, self._is_over = todo.because, todo.is_over
        if todo.is_over or not (todo.ask or flying):
            self._why_now = _until(todo)
        elif is_due or todo.ask:
            self._why_now = ", ".join(_slow(r, now_ms) for r in flying if _is_slow(r, now_ms))
        if is_new:
            self._ledger.log(f"{todo.phase}: {_until(todo)}")
        if is_due:
            self._due_ms = now_ms + EVERY_MS
            sees = [f"{r.processor}: {r.why}" for r in flying if not _is_slow(r, now_ms)]
            self._ledger.log("; ".join([f"{todo.phase}: {self.text(rows)}", *sees]))
        if is_new or is_due:
            self.tell(rows)

    def ended(self, because: str, rows: Mapping[str, Progress]) -> None:
        """Report the end: no more requests follow."""
        self._why_now, self._is_over = because, True
        self.tell(rows)

    def tell(self, rows: Mapping[str, Progress]) -> None:
        """The progress, if it says something else than before."""
        text = self.text(rows)
        if text != self._shown:
            self._shown = text
            self._ledger.progress(text)

    def text(self, rows: Mapping[str, Progress]) -> str:
        """Return a line such as `7/20, 1 failed`, and for a pause or a slow container the reason and time limit.

        After the last request it also says how many units were not begun.
        """
        waiting = sum(row.status is UnitStatus.WAITING for row in rows.values())
        flying = any(row.status in UNDER_WAY for row in rows.values())
        bad = sum(row.status in BAD for row in rows.values())
        parts = [f"{_done(rows)}/{len(rows)}"]
        parts += [f"{bad} failed"] if bad else []
        parts += [f"{waiting} not begun"] if waiting and self._is_over else []
        why = f"; {self._why_now}" if (flying or waiting) and self._why_now else ""
        return ", ".join(parts) + why


def _is_slow(row: Progress, now_ms: int) -> bool:
    return now_ms - (row.asked_ms or now_ms) >= EVERY_MS


def _slow(row: Progress, now_ms: int) -> str:
    """Describe what a slow container waits for, and when it is given up."""
    ago = in_words((now_ms - (row.asked_ms or now_ms)) / 1000)
    end = f", given up at {clock(row.until_ms)} UTC" if row.until_ms is not None else ""
    return f"{row.processor} for {ago}: {row.why}{end}"


def _until(todo: Next) -> str:
    """Return why no (other) unit is asked, and until when; then one is asked, or the operation ends."""
    if todo.ends_ms is not None:
        return f"{todo.because}; it ends at {clock(todo.ends_ms)} UTC if that stays so"
    if todo.until_ms is None or " UTC" in todo.because:
        return todo.because
    return f"{todo.because} until {clock(todo.until_ms)} UTC"


def _done(rows: Mapping[str, Progress]) -> int:
    return sum(row.status in OVER for row in rows.values())


class Looks:
    """Keeps the job and its lags as last read; waits up to `timeout_s` while a source doesn't answer."""

    def __init__(
        self, client: PlacementClient, timeout_s: float, log: Callable[[str], object]
    ) -> None:
        self.reported: Reported | None = None
        self._client = client
        self._timeout_s = timeout_s
        self._log = log
        self._view: JobView | None = None
        self._due: dict[str, int] = {}
        self._away_since: int | None = None

    def job(self) -> JobView:
        """Return the job as it was read last."""
        return self._view or self.read()

    def read(self) -> JobView:
        """Read the job now."""
        self._view = self._client.view()
        return self._view

    def read_if_due(self, now_ms: int) -> bool:
        """Read the job once a second; return whether it was read."""
        is_due = self._is_due("job", LOOK_MS, now_ms)
        if is_due:
            self.read()
        return is_due

    def read_lags(self, now_ms: int) -> None:
        """Read the lags every two seconds."""
        if self._is_due("lag", LAG_MS, now_ms):
            self.reported = Reported.read(self._client, now_ms)

    def answered(self) -> None:
        """Note that Kafka and the coordinator have answered."""
        self._away_since = None

    def wait_for(self, error: Unreachable, now_ms: int) -> None:
        """Note that somebody doesn't answer; raises `error` once that has lasted too long."""
        self._due.clear()  # a turn that asks nothing would look like an answer
        if self._away_since is None:
            self._away_since = now_ms
            self._log(f"waiting for an answer: {error}")
        if now_ms - self._away_since > self._timeout_s * 1000:
            raise error

    def _is_due(self, what: str, every_ms: int, now_ms: int) -> bool:
        if now_ms < self._due.get(what, 0):
            return False
        self._due[what] = now_ms + every_ms
        return True


class Runner:
    """The part of an operation that one run carries out.

    `known` are those that an earlier run of the chain saw back, `failed` those whose
    failure this run isn't to try again, `commits` where those of started containers begin.
    """

    def __init__(
        self,
        client: PlacementClient,
        plan: UnitsPlan,
        root: str,
        ledger: Ledger,
        holds: dict[str, str],
        *,
        known: Mapping[str, Progress] | None = None,
        failed: Mapping[str, Progress] | None = None,
        commits: OwnCommits | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = elapsed_ms,
    ) -> None:
        of_plan = (plan.coordinator, plan.limits, holds, commits or OwnCommits(), plan.prefix)
        chain = Chain(client, root, *of_plan)
        self.units = {unit.processor: UnitWork(chain, unit) for unit in plan.units}
        self._client = client
        self._plan = plan
        self._ledger = ledger
        self._known = known or {}
        self._failed = failed or {}
        self._sleep = sleep
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._progress = ProgressLog(ledger)
        self._looks = Looks(client, plan.limits.timeout_s, ledger.log)
        self._since = Since()
        self._down = Down(client)
        self._back = BackWatch(client)
        self._canary = CanaryWatch(client, plan, ledger.check_passed)
        self._is_taken_up = False
        self._idle_since: int | None = None

    @property
    def rows(self) -> dict[str, Progress]:
        """Each unit as far as it is, in the order of the plan."""
        return {p: work.row for p, work in self.units.items()}

    def result(self, end: RunEnd, because: str) -> Result:
        """Return the end with all rows as they are now."""
        return Result(end, because, tuple(self.rows.values()))

    def run(self) -> Result:
        """Go on until the end; what has stopped nothing is given back however that comes."""
        try:
            while True:
                try:
                    result = self._turn()
                    self._looks.answered()
                except Unreachable as error:
                    result = None
                    self._looks.wait_for(error, self._now_ms())
                if result is not None:
                    self._progress.ended(result.because, self.rows)
                    return result
                self._sleep(POLL_S)
        except BaseException:
            self._give_back()
            raise

    def _turn(self) -> Result | None:
        now = self._now_ms()
        if not self._is_taken_up:
            self._take_up(now)
            self._is_taken_up = True
        self._look(now)
        position = self._position(now)
        todo = self._what_next(position, now)
        for key in todo.ask:
            # Unreachable leaves it waiting, asked or not: the same id is asked again.
            self.units[key].begin(now)
            self._tell(self.units[key])
        todo = replace(todo, ends_ms=self._ends_ms(todo, position, now))
        if todo.is_over:
            self._let_go(todo.because)
        self._progress.heartbeat(todo, self.rows, now)
        if todo.phase is OperationPhase.ENDED:
            if len(position.are(*OVER)) == len(position.statuses):
                return self.result(RunEnd.DONE, "all are back")
            return self.result(RunEnd.STOPPED, todo.because)
        if todo.ends_ms is None or now <= todo.ends_ms:
            return None
        limit = f"{self._plan.limits.timeout_s:g} s"
        return self.result(RunEnd.STOPPED, f"nobody may be touched for {limit}: {todo.because}")

    def _what_next(self, position: Position, now: int) -> Next:
        order, schedule = self._plan.order, self._plan.schedule
        todo = what_next(order, schedule, position, now)
        if todo.phase is not OperationPhase.JUDGING:
            return todo
        verdict = self._canary.judge(self._looks.job(), self.rows, now)
        if verdict.passed is None:
            return replace(todo, because=verdict.why)
        self._ledger.log(f"canary: {verdict.why}")
        todo = what_next(order, schedule, replace(position, judged=verdict.passed), now)
        if verdict.passed:
            return todo
        return replace(todo, because=f"{todo.because}: {verdict.why}")

    def _ends_ms(self, todo: Next, position: Position, now: int) -> int | None:
        """Return when the operation gives up if it stays blocked, or None while it isn't blocked."""
        is_working = todo.phase is OperationPhase.WORKING
        if not is_working or todo.ask or position.are(*UNDER_WAY) or todo.until_ms is not None:
            self._idle_since = None
            return None
        self._idle_since = self._idle_since or now
        return self._idle_since + round(self._plan.limits.timeout_s * 1000)

    # How it begins, and ends.

    def _take_up(self, now_ms: int) -> None:
        """Find each unit where the chain's requests say that it is."""
        view = self._client.view()
        on_record, idle = _on_record(self._client, view), not_running(view)
        for p, work in self.units.items():
            known, failed = self._known.get(p), self._failed.get(p)
            if p not in view.processors:
                work.leave()
            elif known is not None:
                work.row = known
                if why := not_itself(known, view.processors[p], idle):
                    self._ledger.log(f"{p} was back, and now {why}: it is verified again")
                    work.begin_again(now_ms)
            elif work.row.status is UnitStatus.WAITING:
                is_under_way = work.find(on_record)
                if failed is not None:
                    work.row = failed
                elif is_under_way:
                    told = f"{p}: request {work.row.uuid} was asked before: following it"
                    self._ledger.log(told, work.row)
                    work.begin(now_ms)

    def _let_go(self, because: str) -> None:
        """Let go of units under way if no more begin and all of them only wait for a standby."""
        running = [work for work in self.units.values() if work.row.status in AT_WORK]
        if not running or not all(work.only_waits for work in running):
            return
        if any(row.status in BAD for row in self.rows.values()):
            because = "another one has failed"
        for work in running:
            work.let_go(because)
            self._tell(work)

    def _give_back(self) -> None:
        """Release or cancel what has stopped nothing yet; tell what goes on."""
        for p, work in self.units.items():
            if work.row.status in AT_WORK:
                self._ledger.log(f"{p}: {work.give_back()}", work.row)

    # What it sees.

    def _look(self, now_ms: int) -> None:
        """Look at each request, and once a second at what runs."""
        watches = self._plan.watch_after
        if not watches and not any(row.status in AT_WORK for row in self.rows.values()):
            return
        look = self._looks.read_if_due(now_ms)
        view, changed = self._looks.job(), False
        for p, work in self.units.items():
            before = work.row
            if before.status not in AT_WORK:
                continue
            if p not in view.processors:
                work.leave()
                self._tell(work)
                continue
            if not (look or work.is_asked):
                continue
            if work.needs_lags:
                self._looks.read_lags(now_ms)
            if work.look(view, self._looks.reported, now_ms):
                self._tell(work)
                changed = changed or work.row.status is not before.status
        if watches and changed:  # a place is free: it is decided by the job as it is now
            self._looks.read()
        if watches:
            self._since = self._since_back(now_ms)

    def _position(self, now_ms: int) -> Position:
        """Return where each unit stands, and which units must not be touched now."""
        rows, group_of = self.rows, self._plan.group_of
        statuses = {p: row.status for p, row in rows.items()}
        if not self._plan.watch_after:
            return Position(statuses, group=group_of)
        view = self._looks.job()
        return Position(
            statuses=statuses,
            back_at_ms=self._back_at_ms(rows),
            judged=self._canary.passed,
            busy=busy_groups(view, self._ours()),
            down=self._down.among(view, rows, now_ms),
            unsettled=self._since.unsettled,
            paced={p: b for p, b in paced(view).items() if statuses.get(p) is UnitStatus.WAITING},
            group=view.group_of,
        )

    def _since_back(self, now_ms: int) -> Since:
        """Fail containers that died after they were back; pass over those that somebody else restarted."""
        since = self._back.look(self._looks.job(), self.rows, self._ours(), now_ms)
        for p, found in since.renewed.items():
            work, host, execution = self.units[p], found.host or "", found.execution_id or ""
            work.row = replace(work.row, now_on=host, execution=execution)
            self._ledger.log(f"{p} runs as {execution} on {host}: somebody else has asked for that")
        for p, seen in since.died.items():
            self.units[p].fail(f"it was back and died since: {seen}")
            self._tell(self.units[p])
        return since

    def _tell(self, work: UnitWork) -> None:
        self._progress.changed(work.row, self.rows)

    def _ours(self) -> set[str]:
        return {uuid for work in self.units.values() for uuid in work.requests}

    def _back_at_ms(self, rows: Mapping[str, Progress]) -> dict[str, int]:
        """Return when each was back, by this run's clock; earlier ones count from when it began to watch."""
        back_at = {p: r.back_ms for p, r in rows.items() if r.back_ms is not None}
        before = {p: known.back_ms for p, known in self._known.items()}
        return {p: self._began_ms if before.get(p) == at else at for p, at in back_at.items()}


def _on_record(client: PlacementClient, view: JobView) -> set[str]:
    """Requests that wait, run, have an answer or were taken: what isn't among them was never asked."""
    waiting = {action.uuid for action in (*view.actions, *view.queued)}
    answered = {response.uuid for response in client.history()}
    return waiting | answered | client.remembered()
