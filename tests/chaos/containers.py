"""Which containers live on the hosts of a sandbox, by the wardens' records and the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from samza_dagster.agent.files import read_json
from tests.rig.sandbox_job import SandboxJob


class Container(NamedTuple):
    """One that is alive; `warden` and `pid` are process ids."""

    host: str
    processor: str
    execution_id: str
    warden: int
    pid: int


def containers(job: SandboxJob, hosts: Iterable[str]) -> list[Container]:
    """Those of these hosts, in the order of the records' names."""
    found: list[Container] = []
    for name in hosts:
        for record in sorted(job.host_directory(name).glob("incarnations/*/warden.json")):
            named: dict[str, Any] = read_json(record) or {}
            spec: dict[str, Any] = read_json(record.with_name("spec.json")) or {}
            container: dict[str, Any] = named.get("container") or {}
            pid = container.get("pid")
            if pid and spec and Path(f"/proc/{pid}").exists():
                found.append(
                    Container(
                        *(name, spec["processor_id"], record.parent.name),
                        *(named["warden"]["pid"], pid),
                    )
                )
    return found
