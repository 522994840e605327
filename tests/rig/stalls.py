"""Why a Dagster doesn't go on: its unfinished runs, and what its processes are doing right now."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from samza_dagster.sandbox.dagster_stack import DagsterStack
from samza_dagster.sandbox.process import log_tail
from tests.rig.pace import PACE

DUMPING = Path(__file__).parent / "dumping"
LINES = 40
_ENDED = frozenset(
    {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
)
_WHOLE, _WITHIN_S = "Current thread", 5.0


def that_dump(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment whose Python processes write their stacks at SIGUSR1."""
    given = environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, (str(DUMPING), given)))}


def stall(instance: dg.DagsterInstance, stack: DagsterStack) -> str:
    """Runs that haven't ended, with age and tags; of daemon and code server log and stacks.

    For who reads why a test failed. What can't be read is said and hides nothing else.
    """
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    parts = [f"load of 1, 5 and 15 minutes: {load}", unfinished(instance)]
    for name in ("daemon", "code-server"):
        log = stack.home / "logs" / f"{name}.log"
        parts.append(f"── the end of {log}\n{log_tail(log, LINES)}")
        parts.append(f"── threads of the {name}\n{stacks(stack.pids.get(name, 0), log)}")
    return "\n".join(parts)


def unfinished(instance: dg.DagsterInstance) -> str:
    """A line for each run that hasn't ended, newest first."""
    statuses = [status for status in dg.DagsterRunStatus if status not in _ENDED]
    try:
        records = instance.get_run_records(dg.RunsFilter(statuses=statuses), limit=50)
    except Exception as error:  # a storage that is locked may be what is looked for
        return f"the runs can't be read: {error}"
    lines = [
        f"{record.dagster_run.run_id} {record.dagster_run.job_name}"
        f" {record.dagster_run.status.value}, created"
        f" {time.time() - record.create_timestamp.timestamp():.0f} s ago: {record.dagster_run.tags}"
        for record in records
    ]
    return "\n".join(["── runs that haven't ended", *(lines or ["none"])])


def stacks(pid: int, log: Path) -> str:
    """What the process writes to its log at SIGUSR1; why it doesn't, where it doesn't."""
    if not _catches(pid, signal.SIGUSR1):
        return f"process {pid} is gone or doesn't dump"
    at = log.stat().st_size
    os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + _WITHIN_S * PACE
    text, before = "", None
    while time.monotonic() < deadline and (_WHOLE not in text or text != before):
        time.sleep(0.1)
        before, text = text, _since(log, at)
    return text or f"process {pid} has written nothing"


def _since(log: Path, at: int) -> str:
    with log.open("rb") as opened:
        opened.seek(at)
        return opened.read().decode(errors="replace")


def _catches(pid: int, number: int) -> bool:
    """Whether the signal is handled: it would end a process that has no handler."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)
