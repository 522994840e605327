"""Whether a job is at rest: by the coordinator, the agents' records and the kernel."""

from __future__ import annotations

import json
from pathlib import Path

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.responses import terminal
from tests.rig.job import alive
from tests.rig.running_job import Processors, RunningJob


def unanswered(client: PlacementClient, uuid: str) -> str:
    """That the request has no end yet; or "" .

    Whoever takes over is at rest until it has read the request: the state alone can't tell.
    """
    response = client.response(uuid)
    ended = response is not None and terminal(response)
    return "" if ended else f"the request {uuid} has no end: {response}"


def unsettled(job: RunningJob, extra: int = 0) -> str:
    """What isn't at rest yet, by the coordinator, the agents' records and the kernel; or "" ."""
    status = job.status()
    if status is None:
        return "no coordinator answers"
    processors: Processors = status["processors"]
    wanted = job.actives * (1 + job.standbys) + extra
    if len(processors) != wanted:
        return f"{sorted(processors)}: {wanted} are wanted"
    for name, found in processors.items():
        if found["state"] != "running" or not found["pid"] or not alive(found["pid"]):
            return f"{name} is {found['state']}, pid {found['pid']}"
    up = {host for host in job.host_names if job.is_up(host)}
    for what in ("actions", "failovers"):
        if status[what]:
            return f"{what}: {status[what]}"
    for orphan in status["orphans"]:
        if orphan["ended"] is None or orphan["host"] in up:
            return f"orphan: {orphan}"
    known = {name for name, host in status["hosts"].items() if "free_memory_mb" in host}
    if known != up:
        return f"hosts that registered: {sorted(known)}"
    for host in up:
        here = {f["execution_id"] for f in processors.values() if f["host"] == host}
        directory = job.host_directory(host)
        books = directory / "reservations.json"
        held = json.loads(books.read_text())["held"] if books.exists() else []
        if {h["execution_id"] for h in held} != here or len(held) != len(here):
            return f"{host} holds {held} for {here}"
        of_incarnations = directory / "incarnations"  # from a host's first one on
        records = {p.name for p in of_incarnations.iterdir()} if of_incarnations.exists() else set()
        if records != here:
            return f"{host} has records of {records}, {here} run there"
    current = {found["execution_id"] for found in processors.values()}
    journal = job.journal()
    if violations := [line for line in journal if line["what"] == "VIOLATION"]:
        raise AssertionError(violations)
    started = {line["pid"]: line["execution"] for line in journal}
    for pid, execution_id in started.items():
        if execution_id not in current and alive(pid) and _is_container(pid, execution_id):
            return f"pid {pid} of {execution_id} lives for nobody"
    return ""


def _is_container(pid: int, execution_id: str) -> bool:
    """The pid is still that container's, by the environment that the kernel shows."""
    try:
        return execution_id.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
