"""The processes on the simulated hosts of a YARN, by the kernel's process table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samza_dagster.agent.procfs import stat_of
from samza_dagster.model import naming
from samza_dagster.sandbox.launch import MAIN_CLASS

NODE_DIRECTORY = "SAMZA_DAGSTER_NODE_DIRECTORY"
"""A node's processes find their host's directory by this variable."""


def containers(directory: Path, proc: Path = Path("/proc")) -> dict[str, dict[str, Any]]:
    """Return the running containers of the YARN below `directory`, by processor id.

    Each has host, pid, execution id, mode and state.
    """
    # Of two processes with one id the later counts; `pids` has all, so a second owner shows.
    found: dict[str, dict[str, Any]] = {}
    for pid, environment in sorted(
        java_processes(MAIN_CLASS, proc), key=lambda each: _started(each[0])
    ):
        host = Path(environment.get(NODE_DIRECTORY, "/"))
        processor_id = environment.get("SAMZA_CONTAINER_ID", "")
        if host.parent != directory or not processor_id:
            continue
        earlier = found.get(processor_id, {}).get("pids", [])
        found[processor_id] = {
            "state": "running",
            "host": host.name,
            "pid": pid,
            "pids": [*earlier, pid],
            "execution_id": environment.get("CONTAINER_ID", ""),
            "mode": "Standby" if naming.is_standby(processor_id) else "Active",
        }
    return found


def pids_of_executions(directory: Path, proc: Path = Path("/proc")) -> dict[str, int]:
    """Return execution id → process id outside of the hosts, of our agents' containers."""
    found = {
        environment.get("EXECUTION_ENV_CONTAINER_ID", ""): pid
        for pid, environment in java_processes(MAIN_CLASS, proc)
        if Path(environment.get("LOGGED_STORE_BASE_DIR", "/")).parent.parent == directory
    }
    return {execution_id: pid for execution_id, pid in found.items() if execution_id}


def _started(pid: int) -> int:
    seen = stat_of(pid)
    return 0 if seen is None else seen.start_ticks


def java_processes(
    main_class: str, proc: Path = Path("/proc")
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield process id and environment of each JVM that runs this class."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if main_class.encode() not in words or not words[0].endswith(b"java"):
                continue
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        pairs = (each.decode(errors="replace").partition("=") for each in environment.split(b"\0"))
        yield int(entry.name), {key: value for key, _, value in pairs if key}
