"""The agent from one file, which is written over and replaced while it and its wardens run."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import samza_dagster
from samza_dagster.cluster import agent_archive
from samza_dagster.version import __version__
from tests.contract.agent.pythons import parameters, tried
from tests.contract.agent.rig import PACKAGED, Agent, Rig, launch, lives, start, until

pytestmark = pytest.mark.contract

PACKAGE = Path(samza_dagster.__file__).parent
NEWER = f"{__version__}.1"


def newer_sources(to: Path) -> Path:
    """This package one release on, its agent with a module at another place in the file."""
    package = to / "samza_dagster"
    shutil.copytree(PACKAGE / "agent", package / "agent")
    shutil.copy(PACKAGE / "__init__.py", package)
    (package / "version.py").write_text(
        f'"""{"A later release. " * 20}"""\n__version__ = "{NEWER}"\n'
    )
    return package


def written(agent: Agent, name: str) -> dict[str, Any]:
    return json.loads((agent.directory / name).read_text())


def run_by(agent: Agent, execution_id: str) -> tuple[str, int]:
    """The release that the incarnation's warden is of, and its pid."""
    record = written(agent, f"incarnations/{execution_id}/warden.json")
    return record["program"], record["warden"]["pid"]


def open_files(pid: int) -> set[str]:
    found: set[str] = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # its heartbeats come and go
            found.add(str(link.readlink()))
    return found


@pytest.mark.parametrize("python", parameters(tried()))
def test_a_newer_file_takes_over_what_the_older_one_started(
    job: Rig, tmp_path: Path, python: str
) -> None:
    """Torn under a running agent, it is missed by nobody; the next one adopts the same processes."""
    file = tmp_path / "agent.pyz"
    agent_archive.build().write(file)
    program = (python, "-I", str(file))
    cluster, seen = job.cluster()
    agent = job.agent("host-1", program=program)
    agent.program = PACKAGED  # what clears up after a failure needs no file that is torn
    pids = {"e1": start(cluster, seen, "host-1", launch("e1", stores=("j-1/s/T",)))}
    seen.wait("on_container_checked_in", "e1")

    with file.open("r+b") as stream:  # as a copy does that was interrupted
        stream.truncate(1000)
    pids["e2"] = start(cluster, seen, "host-1", launch("e2", "stubborn", grace_s=0.2))
    seen.wait("on_container_checked_in", "e2")
    wardens = {e: run_by(agent, e) for e in pids}
    assert {release for release, _ in wardens.values()} == {__version__}
    for pid in pids.values():
        assert not [name for name in open_files(pid) if "deleted" in name or name == str(file)]

    agent_archive.build(newer_sources(tmp_path / "newer")).write(file)
    said = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"agent {NEWER}\n"
    agent.program = program
    agent.kill_9()
    assert all(lives(pid) for pid in pids.values())
    seen.calls.clear()
    agent.restart()
    seen.wait("on_host_registered")
    observed = {c.execution_id: c for c in seen.named("on_host_registered")[-1][1]}
    assert {e: (c.state, c.pid, c.checked_in) for e, c in observed.items()} == {
        e: ("running", pid, True) for e, pid in pids.items()
    }
    until("the newer agent is on record", lambda: written(agent, "agent.json")["program"] == NEWER)
    assert {e: run_by(agent, e) for e in pids} == wardens

    pids["e3"] = start(cluster, seen, "host-1", launch("e3", processor_id="1"))
    seen.wait("on_container_checked_in", "e3")
    assert run_by(agent, "e3")[0] == NEWER
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", 143)
    cluster.stop_container("e2", "host-1")
    assert seen.wait("on_container_stopped", "e2") == ("e2", "host-1", 137)

    done = agent.stop_all()
    assert (done["exit"], done["alive"]) == (0, [])
    assert [s["execution_id"] for s in done["stopped"] if "execution_id" in s] == ["e3"]
    assert not any(lives(pid) for pid in (*pids.values(), *(pid for _, pid in wardens.values())))
