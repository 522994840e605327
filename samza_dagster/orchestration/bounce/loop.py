"""The restarts of a rolling bounce, which the loop of every operation carries out.

Whoever goes on with a bounce finds each where its request and the record of those that are back
tell that it stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from samza_dagster.orchestration.bounce.back import BackWatch, Down, Since, not_itself
from samza_dagster.orchestration.bounce.canary import CanaryWatch
from samza_dagster.orchestration.bounce.progress import ProgressLog
from samza_dagster.orchestration.bounce.restart import AT_WORK, Restart, on_record
from samza_dagster.orchestration.bounce.row import Bounced, Lags, Result, planned
from samza_dagster.orchestration.operations.loop import CanaryVerdict, Loop, RunEnd
from samza_dagster.orchestration.operations.schedule import Next, Position, UnitStatus
from samza_dagster.orchestration.plans.bounce import BouncePlan
from samza_dagster.orchestration.plans.order import busy_groups, not_running, paced
from samza_dagster.orchestration.requests.step_request import StepRequest, standing
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ReplicaLag
    from samza_dagster.orchestration.bounce.record import RunLedger

LOOK_MS = 1_000
LAG_MS = 2_000


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
        ledger: RunLedger,
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
        self._loop = Loop(
            self,
            plan.units,
            plan.schedule,
            patience_s=plan.patience.timeout_s,
            log=ledger.log,
            sleep=sleep,
            now_ms=now_ms,
        )
        self._began_ms = now_ms()
        self._asked: dict[str, StepRequest] = {}
        self._restarts = {
            p: Restart(
                client,
                root,
                planned(plan, p),
                plan.patience,
                holds,
                former=plan.executions.get(p),
                coordinator=plan.coordinator,
                commits=commits,
            )
            for p in plan.processors
        }
        self._lags: Lags | None = None
        self._view: JobView | None = None
        self._since = Since()
        self._progress = ProgressLog(ledger)
        self._due: dict[str, int] = {}
        self._down = Down(client)
        self._back = BackWatch(client)
        self._canary = CanaryWatch(client, plan, ledger.check_passed)
        self.goes_on = False

    def run(self) -> Result:
        """Goes on until the end; what is only held is given back however that comes."""
        ended = self._loop.run()
        self._progress.ended(ended.because, self._rows())
        return self.result(ended.end, ended.because)

    def result(self, end: RunEnd, because: str) -> Result:
        """All rows in the order of the plan, as they are now."""
        return Result(end, because, tuple(self._rows().values()))

    def give_back(self) -> None:
        """Releases what was asked and hasn't stopped anything; tells what is in flight."""
        held = [r for r in self._restarts.values() if r.is_held_only]
        mine = {r.row.uuid: self._holds.pop(r.row.uuid) for r in held}
        for restart in held:
            self._holds[restart.row.uuid] = mine[restart.row.uuid]
            self._ledger.log(f"{restart.row.processor}: {restart.give_back()}")
        for row in self._rows().values():
            if row.status in AT_WORK:
                self._ledger.log(
                    f"{row.processor}: request {row.uuid} is in flight, the coordinator goes on with it"
                )

    def take_up(self, now_ms: int) -> None:
        """Each processor where its requests say that it is."""
        view = self._client.view()
        there, idle = on_record(self._client, view), not_running(view)
        for p, restart in self._restarts.items():
            known, failed = self._known.get(p), self._failed.get(p)
            if p not in view.processors:
                restart.leave()
            elif known is not None:
                restart.row = known
                if why := not_itself(known, view.processors[p], idle):
                    self._ledger.log(f"{p} was back, and now {why}: it is verified again")
                    restart.begin_again(now_ms)
            elif restart.row.status is UnitStatus.WAITING:
                asked = standing(self._client, self._root, f"bounce/{p}", p, on_record=there)
                self._asked[p] = asked
                restart.row = failed or replace(restart.row, attempt=asked.attempt, uuid=asked.uuid)
                if asked.destination is not None and failed is None:
                    self._ledger.log(f"{p}: request {asked.uuid} was asked before: following it")
                    restart.begin(asked, now_ms)

    def look(self, now_ms: int) -> None:
        """Looks at each request, and once a second at what runs."""
        self._step(now_ms)
        self._since = self._since_back(now_ms)

    def position(self, now_ms: int) -> Position:
        """Where each stands, and whom nobody is to touch now."""
        view, rows = self._job(), self._rows()
        statuses = {p: row.status for p, row in rows.items()}
        waiting = {p: b for p, b in paced(view).items() if statuses.get(p) is UnitStatus.WAITING}
        return Position(
            statuses=statuses,
            back_at_ms=self._back_at_ms(rows),
            judged=self._canary.passed,
            busy=busy_groups(view, self._ours()),
            down=self._down.among(view, rows, now_ms),
            unsettled=self._since.unsettled,
            paced=waiting,
            group=view.group_of,
        )

    def judge(self, now_ms: int) -> CanaryVerdict:
        """The word on the canary, after its bake."""
        return self._canary.judge(self._job(), self._rows(), now_ms)

    def begin(self, key: str, now_ms: int) -> None:
        """Asks for the restart of a processor."""
        self._restarts[key].begin(self._asked[key], now_ms)
        self._tell(self._restarts[key])

    def decided(self, todo: Next, now_ms: int) -> None:
        """Tells what the bounce is at."""
        self._progress.heartbeat(todo, self._rows(), now_ms)

    def _since_back(self, now_ms: int) -> Since:
        """Who died after it was back has failed, who was restarted by somebody else has not."""
        since = self._back.look(self._job(), self._rows(), self._ours(), now_ms)
        for p, found in since.renewed.items():
            restart, host, execution = self._restarts[p], found.host or "", found.execution_id or ""
            restart.row = replace(restart.row, now_on=host, execution=execution)
            self._ledger.log(f"{p} runs as {execution} on {host}: somebody else has asked for that")
        for p, seen in since.died.items():
            restart, why = self._restarts[p], f"it was back and died since: {seen}"
            restart.row = replace(restart.row, status=UnitStatus.FAILED, why=why)
            self._tell(restart)
        return since

    def _rows(self) -> dict[str, Bounced]:
        return {p: restart.row for p, restart in self._restarts.items()}

    def _tell(self, restart: Restart) -> None:
        self._progress.changed(restart.row, self._rows())

    def _ours(self) -> set[str]:
        return {restart.row.uuid for restart in self._restarts.values()}

    def _back_at_ms(self, rows: Mapping[str, Bounced]) -> dict[str, int]:
        """By this run's clock: who was back before counts as back since it began to watch."""
        back_at = {p: r.back_ms for p, r in rows.items() if r.back_ms is not None}
        before = {p: known.back_ms for p, known in self._known.items()}
        return {p: self._began_ms if before.get(p) == at else at for p, at in back_at.items()}

    def _job(self) -> JobView:
        if self._view is None:
            self._view = self._client.view()
        return self._view

    def _step(self, now_ms: int) -> None:
        look = self._is_due("look", LOOK_MS, now_ms)
        if look:
            self._view = self._client.view()
        view, changed = self._job(), False
        for p, restart in self._restarts.items():
            row = restart.row
            if row.status not in AT_WORK:
                continue
            if p not in view.processors:
                restart.leave()
                self._tell(restart)
                continue
            if row.in_ms is not None:
                if not look:
                    continue
                self._read_lags(now_ms)
            if restart.step(view, self._lags, now_ms):
                self._tell(restart)
                changed = changed or restart.row.status is not row.status
        if changed:  # a place is free: what is decided now goes by the job as it is now
            self._view = self._client.view()

    def _read_lags(self, now_ms: int) -> None:
        if not self._plan.patience.lag_s or not self._is_due("lag", LAG_MS, now_ms):
            return
        of: dict[str, list[ReplicaLag]] = {}
        replicas = self._client.lag()
        for replica in replicas:
            of.setdefault(replica.processor_id, []).append(replica)
        self._lags = Lags(now_ms, of, self._client.readiness(replicas))

    def _is_due(self, what: str, every_ms: int, now_ms: int) -> bool:
        if now_ms < self._due.get(what, 0):
            return False
        self._due[what] = now_ms + every_ms
        return True
