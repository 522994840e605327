"""The sandbox that tests with real containers share: small, and with settings of their own."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from tests.rig.pace import PACE

OPTIONS = Options(name="job", state_mb=4.0, rate=200.0 / PACE)
"""The load asks as much of a slow machine as of the reference: one that it can't carry would
keep every container behind for ever."""

_HOSTS_FILE = "-Djdk.net.hosts.file="


@dataclass(frozen=True)
class _FilesWith(CoordinatorFiles):
    """The coordinator's config has more settings than the demo's, JVMs another hosts file."""

    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    hosts_file: str = ""

    def write(self, config: Mapping[str, str], launch: LaunchTemplate) -> None:
        command = tuple(
            f"{_HOSTS_FILE}{self.hosts_file}"
            if self.hosts_file and part.startswith(_HOSTS_FILE)
            else part
            for part in launch.command
        )
        super().write({**config, **self.settings}, launch.model_copy(update={"command": command}))


@contextmanager
def demo_sandbox(
    root: Path, settings: Mapping[str, str] | None = None, hosts_file: str = "", **options: Any
) -> Generator[Sandbox]:
    """2 actives, 2 standbys, 4 hosts, a steady load; standbys have caught up.

    `settings` come on top of the demo's config, `options` on top of `OPTIONS`. `hosts_file`:
    what containers resolve names by in place of their agent's, `{host}` filled in.
    """
    sandbox = Sandbox(OPTIONS.name, root=root)
    sandbox.files = _FilesWith(sandbox.files.directory, settings or {}, hosts_file)
    sandbox.up(replace(OPTIONS, **options), Phases(print))
    try:
        yield sandbox
    finally:
        sandbox.down()
