"""Simulated hosts: an agent process each, with a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from samza_dagster.errors import ActionFailed, MissingPrerequisite
from samza_dagster.sandbox import process
from samza_dagster.sandbox.launch import CONTAINER_MEMORY_MB
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.registry import Registry

HOST_MEMORY_MB = 8 * CONTAINER_MEMORY_MB
HOST_CORES = 8
STOP_S = 90.0


def host_names(count: int) -> tuple[str, ...]:
    """Return `host-1`, `host-2`, …."""
    return tuple(f"host-{number}" for number in range(1, count + 1))


def _agent_program() -> Path:
    """Return the agent's `main.py`; raise `MissingPrerequisite` when it isn't installed."""
    spec = find_spec("samza_dagster.agent.main")
    if spec is None or spec.origin is None:
        raise MissingPrerequisite(
            "the agent", seen="no samza_dagster.agent.main", fix="install samza_dagster anew"
        )
    return Path(spec.origin)


@dataclass(frozen=True)
class SimulatedHost:
    """A host of the sandbox; `directory` has the files of its agent and containers."""

    name: str
    directory: Path
    # Additions to this process's environment, for its agent.
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def role(self) -> str:
        """Return the role of its agent in the record."""
        return f"agent {self.name}"

    @property
    def agent_directory(self) -> Path:
        """Return the directory of its agent's files."""
        return self.directory

    @property
    def state_directory(self) -> Path:
        """Return `LOGGED_STORE_BASE_DIR` of its containers."""
        return self.directory / "state"

    def start(
        self,
        *,
        url_file: Path,
        token_file: Path,
        on_spawn: Callable[[ProcessRecord], None],
        memory_mb: int = HOST_MEMORY_MB,
        program: Path | None = None,
    ) -> ProcessRecord:
        """Start its agent: this package's by default, else the file `program`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-I", str(program or _agent_program()),
            "--host", self.name, "--directory", str(self.directory),
            "--memory-mb", str(memory_mb), "--cores", str(HOST_CORES),
            "--coordinator-url-file", str(url_file), "--token-file", str(token_file),
        ]  # fmt: skip
        return process.spawn(
            self.role,
            command,
            log=self.directory / "agent.log",
            environment={**os.environ, **self.environment},
            directory=self.directory,
            on_spawn=on_spawn,
        )


def hosts_of(registry: Registry) -> tuple[SimulatedHost, ...]:
    """Return the hosts of a sandbox, by its registry."""
    names = registry.read().get("hosts", ())
    return tuple(SimulatedHost(name, registry.directory / "hosts" / name) for name in names)


def stop_hosts(hosts: tuple[SimulatedHost, ...]) -> None:
    """Stop all agents with their containers, at the same time.

    Raises `ActionFailed` that names the processes which survive.
    """
    # The program ends an agent and every container on its record, and confirms it.
    program = (sys.executable, "-I", str(_agent_program()), "--stop-all", "--directory")
    running = [
        (
            host,
            subprocess.Popen(
                [*program, str(host.directory)],
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            ),
        )
        for host in hosts
        if host.directory.is_dir()
    ]
    alive: list[str] = []
    for host, child in running:
        try:
            output, _ = child.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
        if child.returncode != 0:
            alive.append(f"{host.name}: {_alive(output)}")
    if alive:
        raise ActionFailed(
            "stop every container",
            seen="; ".join(alive),
            fix="run `samza-dagster sandbox down` again",
        )


def _alive(output: str) -> str:
    try:
        return str(json.loads(output).get("alive"))
    except ValueError:
        return output.strip()[-200:] or "no answer"
