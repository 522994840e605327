"""Who failed in a bounce and doesn't run: each keeps its place until it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from samza_dagster.model.capabilities import capabilities
from samza_dagster.orchestration.bounce.row import Bounced
from samza_dagster.orchestration.operations.schedule import Stand
from samza_dagster.orchestration.plans.bounce import STANDBY
from samza_dagster.orchestration.plans.order import not_running

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

LOOK_MS = 2_000


@dataclass
class Down:
    """Those that a bounce has failed to restart, as long as they don't run.

    Our coordinator tells whether a container runs. Samza's AM doesn't: who was stopped and
    failed to start counts as down until something new of its own is there, a commit or a report,
    since that was looked at first.
    """

    client: PlacementClient
    _works: set[str] = field(default_factory=set[str])
    _due_ms: int = 0
    _since: dict[str, int] = field(default_factory=dict[str, int])

    def among(self, view: JobView, rows: Mapping[str, Bounced], now_ms: int) -> dict[str, str]:
        """Processor → why it counts as down. Raises `Unreachable`."""
        idle, tells = not_running(view), capabilities(view.coordinator).tells_what_runs
        down: dict[str, str] = {}
        untold: dict[str, Bounced] = {}
        for p, row in rows.items():
            # Somebody who goes on with a bounce by hand tries again what failed: it waits then.
            again = row.stand is Stand.WAITING and row.attempt > 0
            if not again and row.stand is not Stand.FAILED:
                continue
            if p in idle:
                down[p] = idle[p]
            elif not tells and row.failed_ms is not None and p not in self._works:
                untold[p] = row
        if untold and now_ms >= self._due_ms:
            self._due_ms = now_ms + LOOK_MS
            self._works |= self._at_work(untold)
        why = "was stopped and nobody tells that it runs"
        return down | {p: f"{p} {why}" for p in untold if p not in self._works}

    def _at_work(self, rows: Mapping[str, Bounced]) -> set[str]:
        lags = self.client.lag() if any(row.mode == STANDBY for row in rows.values()) else ()
        reported = {r.processor_id: r.reported_ms for r in lags if r.reported_ms is not None}
        found: set[str] = set()
        for p, row in rows.items():
            if row.mode == STANDBY:
                report = reported.get(p, 0)
                works = report not in (0, self._since.setdefault(p, report))
            else:
                since = self._since.get(p)
                if since is None:
                    since = self._since[p] = self.client.checkpoints_end()
                works = self.client.processing(p, since).processing
            if works:
                found.add(p)
        return found
