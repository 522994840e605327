"""From a launch to a detached warden: placeholders, environment, process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, NamedTuple, Tuple

from samza_dagster.agent.program import Program
from samza_dagster.agent.protocol import Launch

WORK = "work"
"""Where a container starts, in the directory of its incarnation."""
TEMPORARY = "work/tmp"
"""Its own TMPDIR: what a killed JVM unpacked there goes with its incarnation."""
# Of the agent's own environment only what finds programs and speaks a language.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


class HostDirectories(NamedTuple):
    """The directories of this host that containers use."""

    directory: Path
    state_dir: Path
    host: str

    def incarnation(self, execution_id: str) -> Path:
        """Return the directory of one incarnation."""
        return self.directory / "incarnations" / execution_id

    def fill(self, text: str, execution_id: str) -> str:
        """Replace the four placeholders; other braces stay."""
        for word, value in (
            ("{agent_dir}", str(self.directory)),
            ("{state_dir}", str(self.state_dir)),
            ("{work_dir}", str(self.incarnation(execution_id) / WORK)),
            ("{host}", self.host),
        ):
            text = text.replace(word, value)
        return text

    def command(self, launch: Launch) -> Tuple[str, ...]:
        """Return the program and its arguments, filled in."""
        return tuple(self.fill(part, launch.execution_id) for part in launch.command)

    def environment(self, launch: Launch, coordinator_url: str) -> Dict[str, str]:
        """Return the container's whole environment; ours overrides the launch's, but for TMPDIR."""
        made = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        made["TMPDIR"] = str(self.incarnation(launch.execution_id) / TEMPORARY)
        for key, value in launch.environment.items():
            made[key] = self.fill(value, launch.execution_id)
        made["SAMZA_COORDINATOR_URL"] = coordinator_url
        made["LOGGED_STORE_BASE_DIR"] = str(self.state_dir)
        return made


def spawn_warden(directory: Path, program: Program) -> Tuple["subprocess.Popen[bytes]", int]:
    """Start a warden in its own session; return it and a descriptor that ends with its fork.

    Raises `OSError` when no process can be started.
    """
    read_end, write_end = os.pipe()
    given = (write_end, *program.descriptors)
    try:
        with (directory / "warden.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", *program.arguments, str(directory), *map(str, given)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=given,
                start_new_session=True,
            )
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return process, read_end
