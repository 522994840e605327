"""Runs a real coordinator that writes when it heard of each death and what left it when.

One JSON object a line in `<SAMZA_DAGSTER_KILL_FILE>.times`, by this process's monotonic
clock: `{"at", "what", "id"}`. `heard`: a report arrived that names a death or a reserved
resource; `decided`: a command was handed to the cluster; `left`: it was written to the
agent's connection, `id` being the execution id (of a reserve: the request's).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samza_dagster.cluster import agent_gateway
from samza_dagster.cluster.agent_messages import Sync
from samza_dagster.cluster.host_record import HostRecord
from samza_dagster.cluster.local import LocalCluster
from samza_dagster.coordinator.command import run_command
from samza_dagster.coordinator.effects import EffectRunner
from samza_dagster.placement import commands

TIMES = Path(os.environ["SAMZA_DAGSTER_KILL_FILE"]).with_suffix(".times")
LOCK = threading.Lock()
LEFT: set[str] = set()


def note(at: float, what: str, ident: str) -> None:
    with LOCK, TIMES.open("a") as out:
        out.write(json.dumps({"at": at, "what": what, "id": ident}) + "\n")


real_take = LocalCluster._take
real_run = EffectRunner.run
real_answer = agent_gateway._AgentHandler._answer


def take_sync(self: LocalCluster, record: HostRecord, sync: Sync) -> None:
    now = time.monotonic()
    for container in sync.containers:
        before = record.containers.get(container.execution_id)
        if container.state == "dead" and (before is None or before.state != "dead"):
            note(now, "heard dead", container.execution_id)
    for reservation in sync.reservations:
        if reservation.request_id not in record.reservations:
            note(now, "heard reserved", reservation.request_id)
    real_take(self, record, sync)


def run(self: EffectRunner, effect: commands.Effect) -> None:
    real_run(self, effect)
    if isinstance(effect, commands.StartContainer | commands.StopContainer):
        note(time.monotonic(), f"decided {type(effect).__name__}", effect.execution_id)


def answer(self: Any, status: int, value: Mapping[str, Any]) -> None:
    real_answer(self, status, value)
    now = time.monotonic()
    for command in value.get("commands", ()):
        if command["id"] not in LEFT:
            LEFT.add(command["id"])
            about = command.get("launch", command).get("execution_id", command.get("request_id"))
            note(now, f"left {command['kind']}", about)


LocalCluster._take = take_sync  # type: ignore[method-assign]
EffectRunner.run = run  # type: ignore[method-assign]
agent_gateway._AgentHandler._answer = answer  # type: ignore[method-assign]

if __name__ == "__main__":
    run_command()
