"""A run launcher that sees when a run's process is gone, also when its code server died with it.

A code server reports runs of its own whose process died. One that was killed together with
its runs (a machine that restarts, a control group that is killed) reports nothing, and its
successor knows nothing of them: they would count as running for ever, and hold their
container group in the queue.
"""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus

_STARTED = re.compile(r"^Started process for run \(pid: (\d+)\)\.")
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_SERVER = ".dagster/grpc_info"
_PROC = Path("/proc")
_CLOCKS_S = 5.0  # an event is written after its process has started; clocks differ by less


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """`DefaultRunLauncher` plus a look at the run's process, where it is on this machine.

    Run monitoring asks it at each of its polls and fails a run without a process, which
    `run_retries` then goes on with if its job says so. Of a run on another machine, or
    whose process isn't known yet, it says that it runs.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Run monitoring may ask."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """`FAILED` when the process is seen gone, else `RUNNING`."""
        if not _is_here(run.tags.get(_SERVER)):
            return CheckRunHealthResult(WorkerStatus.RUNNING, "on another machine")
        found = self._process_of(run.run_id)
        if found is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its process isn't known yet")
        pid, since = found
        if is_alive(pid, since):
            return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=str(pid))
        return CheckRunHealthResult(
            WorkerStatus.FAILED, f"process {pid} of the run is gone", run_worker_id=str(pid)
        )

    def terminate(self, run_id: str) -> bool:
        """As Dagster's; a process here that outlived its code server is interrupted.

        That server's successor, also one that isn't up yet, knows nothing of it: neither the
        UI nor the queue could end it. Raises Dagster's `DagsterUserCodeUnreachableError` for
        a run on another machine whose code server doesn't answer.
        """
        try:
            return super().terminate(run_id) or self._interrupted(run_id)
        except DagsterUserCodeUnreachableError:
            if self._interrupted(run_id):
                return True
            raise

    def _interrupted(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id) if self.has_instance else None
        found = self._process_of(run_id)
        if run is None or run.is_finished or found is None or not _is_here(run.tags.get(_SERVER)):
            return False
        pid, since = found
        if not is_alive(pid, since):
            return False
        self._instance.report_engine_event(
            f"Its code server doesn't answer for this run: process {pid} is interrupted.", run
        )
        os.kill(pid, signal.SIGINT)  # what a code server has a run do to itself
        return True

    def _process_of(self, run_id: str) -> tuple[int, float] | None:
        """Process id and when the run said so, in seconds since the epoch."""
        if not self.has_instance:
            return None
        kind = dg.DagsterEventType.ENGINE_EVENT
        for entry in reversed(self._instance.all_logs(run_id, of_type=kind)):
            event = entry.dagster_event
            told = _STARTED.match(event.message or "") if event is not None else None
            if told is not None:
                return int(told.group(1)), entry.timestamp
        return None


def is_alive(pid: int, since: float, proc: Path = _PROC) -> bool:
    """Whether a process runs that had this id at `since`, in seconds since the epoch.

    One that started later is another with the same number; a zombie has ended.
    """
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
        booted = next(
            float(line.split()[1])
            for line in (proc / "stat").read_text().splitlines()
            if line.startswith("btime ")
        )
    except (OSError, StopIteration):
        return False
    fields = text[text.rindex(")") + 2 :].split()
    started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] not in ("Z", "X", "x") and started <= since + _CLOCKS_S


def _is_here(server: str | None) -> bool:
    if not server:
        return False
    told = json.loads(server)
    return "socket" in told or told.get("host") in _HERE
