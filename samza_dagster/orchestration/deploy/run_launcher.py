"""A run launcher that sees when a run's process is gone, also when its code server died with it.

A code server reports runs of its own whose process died. One that was killed together with
its runs (a machine that restarts, a control group that is killed) reports nothing, and its
successor knows nothing of them: they would count as running for ever, and hold their
container group in the queue.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from dagster._core.errors import (
    DagsterCodeLocationLoadError,
    DagsterCodeLocationNotFoundError,
    DagsterLaunchFailedError,
    DagsterUserCodeUnreachableError,
)
from dagster._core.events import EngineEventData
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus

if TYPE_CHECKING:
    from dagster._core.remote_representation.code_location import GrpcServerCodeLocation
    from dagster._core.workspace.context import IWorkspaceProcessContext

_STARTED = re.compile(r"^Started process for run \(pid: (\d+)\)\.")
_LAUNCH = "launch"
DOUBT = "The code server was asked to start the run and hasn't answered."
_NEVER_CONNECTED = "failed to connect to all addresses"
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_SERVER = ".dagster/grpc_info"
_PROC = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_LOG = logging.getLogger(__name__)
_BOOT_ID = "sys/kernel/random/boot_id"
_LOOK_S = 0.5
_DOUBT_S = 90.0
"""How long a code server that ended in a launch may be away, as the daemon sees it once a minute. Dagster
tries a retry once, so the run isn't failed before that. The queue launches nobody else meanwhile."""
_BEGUN = frozenset(
    {
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.CANCELED,
    }
)
_CLOCKS_S = 5.0  # an event is written after its process has started; clocks differ by less


@dataclass(frozen=True)
class RunLaunch:
    """When a run's process was started, in the kernel's clock ticks since a boot.

    As `/proc/<pid>/stat` has it, and no step of the wall clock changes it.
    """

    since_tick: int
    until_tick: int
    boot_id: str

    @classmethod
    def of(cls, event: dg.DagsterEvent) -> RunLaunch | None:
        """As the event of a run keeps it; None for any other event."""
        data = event.event_specific_data
        kept = data.metadata.get(_LAUNCH) if isinstance(data, EngineEventData) else None
        return cls(**cast("dict[str, Any]", kept.value)) if kept is not None else None


@dataclass(frozen=True)
class RunProcess:
    """What a run's events say of its process.

    `said_at`: when it said its id, in seconds since the epoch. `launch`: None when a daemon
    was killed between the process and the event.
    """

    pid: int
    said_at: float
    launch: RunLaunch | None = None


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """`DefaultRunLauncher` plus a look at the run's process, where it is on this machine.

    Run monitoring asks it at each of its polls and fails a run without a process, which
    `run_retries` then goes on with if its job says so. Of a run on another machine, or
    whose process isn't known yet, it says that it runs.
    """

    proc = _PROC
    doubt_s = _DOUBT_S

    def launch_run(self, context: LaunchRunContext) -> None:
        """As Dagster's, which returns once the process has begun; keeps when that was.

        The queue launches a run again after `DagsterUserCodeUnreachableError`, so that is
        raised only where no code server was asked. One that doesn't answer, or that ends
        meanwhile, may have started a process, which would ask beside the next one. If a process
        says so before the code server answers again, it has been launched; if none has by then, or
        within `doubt_s` (at once after a launch that timed out, which was waited for), raises
        `DagsterLaunchFailedError`: a process that finds its run failed does nothing.
        """
        since_tick = _ticks()
        try:
            super().launch_run(context)
        except DagsterUserCodeUnreachableError as error:
            if _was_never_asked(error):
                raise
            if not self._begins(context, 0.0 if _timed_out(error) else self.doubt_s):
                raise DagsterLaunchFailedError(
                    f"{DOUBT} No process has said since that it is the run's. One may have been"
                    f" started: the launch isn't tried again beside it. {error}"
                ) from error
        try:
            launch = RunLaunch(since_tick, _ticks(), (self.proc / _BOOT_ID).read_text().strip())
            self._instance.report_engine_event(
                "Its process was started.",
                context.dagster_run,
                EngineEventData({_LAUNCH: dg.MetadataValue.json(asdict(launch))}),
            )
        except Exception:  # the process runs: a launch that fails now is tried again beside it
            _LOG.exception(
                "when the process of run %s began isn't kept", context.dagster_run.run_id
            )

    def _begins(self, context: LaunchRunContext, longest_s: float) -> bool:
        run_id = context.dagster_run.run_id
        self._instance.report_engine_event(
            f"{DOUBT} Its process is waited for until the code server answers again, at most"
            f" {longest_s:g} s.",
            context.dagster_run,
        )
        until = time.monotonic() + longest_s
        while True:
            gives_up = time.monotonic() >= until or _answers(context)
            run = self._instance.get_run_by_id(run_id)
            if run is not None and (run.status in _BEGUN or self._process_of(run_id) is not None):
                return True
            if run is None or gives_up:
                return False
            time.sleep(_LOOK_S)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Run monitoring may ask."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """`FAILED` when the process is seen gone, else `RUNNING`."""
        if not _is_here(run.tags.get(_SERVER)):
            return CheckRunHealthResult(WorkerStatus.RUNNING, "on another machine")
        process = self._process_of(run.run_id)
        if process is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its process isn't known yet")
        worker = str(process.pid)
        if is_alive(process, self.proc):
            return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=worker)
        return CheckRunHealthResult(
            WorkerStatus.FAILED, f"process {worker} of the run is gone", run_worker_id=worker
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
        process = self._process_of(run_id)
        if run is None or run.is_finished or process is None:
            return False
        if not _is_here(run.tags.get(_SERVER)) or not is_alive(process, self.proc):
            return False
        self._instance.report_engine_event(
            f"Its code server doesn't answer for this run: process {process.pid} is interrupted.",
            run,
        )
        os.kill(process.pid, signal.SIGINT)  # what a code server has a run do to itself
        return True

    def _process_of(self, run_id: str) -> RunProcess | None:
        if not self.has_instance:
            return None
        launch: RunLaunch | None = None
        started: tuple[int, float] | None = None
        kind = dg.DagsterEventType.ENGINE_EVENT
        for entry in self._instance.all_logs(run_id, of_type=kind):
            event = entry.dagster_event
            if event is None:
                continue
            launch = RunLaunch.of(event) or launch
            if begun := _STARTED.match(event.message or ""):
                started = int(begun[1]), entry.timestamp
        return RunProcess(*started, launch) if started is not None else None


def _was_never_asked(error: DagsterUserCodeUnreachableError) -> bool:
    """Whether no connection to the code server came about, so that it can't have heard the call.

    gRPC has one status for that and for a connection that ended after the call had been sent,
    and tells them apart in its text alone. By another text than this the run isn't launched again.
    """
    details = getattr(error.__cause__, "details", None)
    return callable(details) and str(details()).startswith(_NEVER_CONNECTED)


def _timed_out(error: DagsterUserCodeUnreachableError) -> bool:
    """Whether the code server was waited for as long as a launch may take."""
    code = getattr(error.__cause__, "code", None)
    return callable(code) and getattr(code(), "name", "") == "DEADLINE_EXCEEDED"


def _answers(context: LaunchRunContext) -> bool:
    """Whether the run's code server can be asked, again or still, and a retry finds it.

    A retry goes by the daemon's newest look at its code locations. One that was made while the server
    was away has none of it until the next.
    """
    origin = context.dagster_run.remote_job_origin
    if context.workspace is None or origin is None:
        return False
    name = origin.repository_origin.code_location_origin.location_name
    try:
        workspace: Any = context.workspace
        daemon = cast("IWorkspaceProcessContext[Any]", workspace.process_context)
        location = daemon.create_request_context().get_code_location(name)
        cast("GrpcServerCodeLocation", location).client.ping("")
    except (
        DagsterUserCodeUnreachableError,
        DagsterCodeLocationLoadError,
        DagsterCodeLocationNotFoundError,
    ):
        return False
    return True


def is_alive(process: RunProcess, proc: Path = _PROC) -> bool:
    """Whether it runs still; a zombie has ended, and another with its number isn't it.

    The number is used again: what has it is the run's process if it started at the launch, by
    the kernel's ticks. Without these, if it had started when the run said its number, by a
    wall clock that must not have been stepped forward since.
    """
    try:
        text = (proc / str(process.pid) / "stat").read_text(errors="replace")
        boot_id = (proc / _BOOT_ID).read_text().strip() if process.launch else ""
        boot_s = 0.0 if process.launch else _boot_s(proc)
    except (OSError, StopIteration):
        return False
    fields = text[text.rindex(")") + 2 :].split()
    state, tick, launch = fields[0], int(fields[19]), process.launch
    if state in ("Z", "X", "x"):
        return False
    if launch is not None:
        return boot_id == launch.boot_id and launch.since_tick <= tick <= launch.until_tick
    return boot_s + tick / _TICKS_A_SECOND <= process.said_at + _CLOCKS_S


def _boot_s(proc: Path) -> float:
    """When the machine was started, in seconds since the epoch, by the wall clock of now."""
    lines = (proc / "stat").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("btime "))


def _ticks() -> int:
    """Now, as the kernel notes the starts of processes."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * _TICKS_A_SECOND // 1_000_000_000


def _is_here(server: str | None) -> bool:
    if not server:
        return False
    address = json.loads(server)
    return "socket" in address or address.get("host") in _HERE
