"""Stops all that one agent's directory has on record, the agent first, and confirms each death.

Works from the records alone, so also on what a killed sandbox left behind.
"""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import Any, Dict, List

from samza_dagster.agent import agent, procfs
from samza_dagster.agent.ending import HOW_STOPPED
from samza_dagster.agent.examination import WARDEN_MARGIN_S
from samza_dagster.agent.incarnation import HostedIncarnation, load_all

_AGENT_S = 10.0
"""To end by itself, and again to be dead."""


def stop_all(directory: Path) -> Dict[str, Any]:
    """Stop everything on record; return `{"stopped": [...], "alive": [...]}` with pids.

    Raises `RecordError` for a record that isn't understood.
    """
    found_agent = agent.running(directory)
    stopped: List[Dict[str, Any]] = []
    alive: List[Dict[str, Any]] = []
    if found_agent is not None:
        # First, so that it starts nothing more and takes no warden's end for a failure.
        handle = procfs.ProcessHandle(found_agent)
        handle.send(signal.SIGTERM)
        if not handle.wait(_AGENT_S):
            handle.send(signal.SIGKILL)
        dead = handle.wait(_AGENT_S)
        (stopped if dead else alive).append({"agent": str(directory), "pid": found_agent.pid})
    live = [record for record in load_all(directory, clean=True) if _take(record)]
    for record in live:
        if record.warden is not None:
            record.warden.send(signal.SIGTERM)
    for record in live:
        entry = {"execution_id": record.execution_id, "pid": record.pid}
        (stopped if _end(record) else alive).append(entry)
    return {"stopped": stopped, "alive": alive}


def _take(record: HostedIncarnation) -> bool:
    # A warden that was forked a moment ago holds its lock, and names its container soon. One that
    # hangs there is killed, and what it has forked dies with it.
    deadline = time.monotonic() + WARDEN_MARGIN_S
    while not record.read_processes():
        if record.read_end() is not None or record.bar("stopped before it was started"):
            return False
        claimant = record.take_claimant() if time.monotonic() > deadline else None
        if claimant is not None:
            claimant.send(signal.SIGKILL)
        time.sleep(0.02)
    assert record.warden is not None
    assert record.container is not None
    return not (
        record.warden.is_dead()
        and record.container.is_dead()
        and not procfs.group_of(record.container.name, record.warden.name)
    )


def _end(record: HostedIncarnation) -> bool:
    assert record.warden is not None
    assert record.container is not None
    record.container.wait(0.0 if record.warden.is_dead() else record.stop_grace_s + 1.0)
    session = record.warden.name
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        if record.container.wait(0.0) and not procfs.group_of(record.container.name, session):
            break
        procfs.kill_group(record.container.name, session)
        record.container.wait(0.2)
    if not record.warden.wait(2.0):
        record.warden.send(signal.SIGKILL)
    gone = (
        record.warden.wait(2.0)
        and record.container.is_dead()
        and not procfs.group_of(record.container.name, session)
    )
    if gone and record.read_end() is None:
        with contextlib.suppress(OSError):  # it is dead all the same
            record.write_end(HOW_STOPPED, "")
    return gone
