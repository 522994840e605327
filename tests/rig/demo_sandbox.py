"""The sandbox that tests with real containers share: small, and with settings of their own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.demo.restore import restored_records
from samza_dagster.sandbox.hosts import SimulatedHost
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.registry import Registry
from samza_dagster.sandbox.runner import OwnRunner
from tests.rig.job import runs
from tests.rig.pace import PACE
from tests.rig.waiting import until

OPTIONS = Options(name="job", state_mb=4.0, rate=200.0 / PACE)
"""The load asks as much of a slow machine as of the reference: one that it can't carry would
keep every container behind for ever."""

PARTITIONS_OF_0 = (0, 2)

HostEnvironment = Callable[[str], Mapping[str, str]]

_HOSTS_FILE = "-Djdk.net.hosts.file="


class _FilesWith(CoordinatorFiles):
    """JVMs have another hosts file, and `of_containers` in their environment, with the agents' placeholders."""

    def __init__(self, directory: Path, hosts_file: str, of_containers: Mapping[str, str]) -> None:
        super().__init__(directory)
        self.hosts_file = hosts_file
        self.of_containers = of_containers

    def write(self, config: Mapping[str, str], launch: LaunchTemplate) -> None:
        command = tuple(
            f"{_HOSTS_FILE}{self.hosts_file}"
            if self.hosts_file and part.startswith(_HOSTS_FILE)
            else part
            for part in launch.command
        )
        environment = {**launch.environment, **self.of_containers}
        changed = launch.model_copy(update={"command": command, "environment": environment})
        super().write(config, changed)


class _RunnerWith(OwnRunner):
    """Its agents, and so their wardens, have more in their environment."""

    def __init__(self, registry: Registry, of_host: HostEnvironment) -> None:
        super().__init__(registry)
        self._of_host = of_host

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        return tuple(replace(h, environment=self._of_host(h.name)) for h in super().hosts)


@contextmanager
def demo_sandbox(
    root: Path,
    settings: Mapping[str, str] | None = None,
    hosts_file: str = "",
    environment: HostEnvironment = lambda _: {},
    **options: Any,
) -> Generator[Sandbox]:
    """2 actives, 2 standbys, 4 hosts, a steady load; standbys have caught up.

    `settings` come on top of the demo's config, `options` on top of `OPTIONS`. `hosts_file`:
    what containers resolve names by in place of their agent's, `{host}` filled in. `environment`
    is what the agent of a host has besides, and that of `{host}` what every container has.
    """
    sandbox = Sandbox(OPTIONS.name, root=root)
    sandbox.own = _RunnerWith(sandbox.registry, environment)
    sandbox.own.files = _FilesWith(sandbox.files.directory, hosts_file, environment("{host}"))
    sandbox.up(replace(OPTIONS, settings=settings or {}, **options), Phases(print))
    try:
        yield sandbox
    finally:
        sandbox.down()


def processors(sandbox: Sandbox) -> Mapping[str, Mapping[str, Any]]:
    """As the coordinator's status tells them."""
    return sandbox.status()["processors"]


def all_run(sandbox: Sandbox) -> bool:
    """Four containers, by the coordinator's word and the kernel's."""
    found = processors(sandbox).values()
    return len(found) == 4 and all(map(runs, found))


def restored(sandbox: Sandbox, processor: str) -> dict[int, int]:
    """Partition → records that the processor's newest start restored, from its own log."""
    now = processors(sandbox)[processor]
    host = next(host for host in sandbox.hosts if host.name == now["host"])
    return until(
        f"{processor} restored",
        lambda: (
            found
            if len(
                found := restored_records(sandbox.runner.container_log(host, now["execution_id"]))
            )
            == 2
            else None
        ),
        seconds=40,
    )
