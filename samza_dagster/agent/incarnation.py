"""The record of one start of a container: its directory.

The directory is the record: an execution id that has one is never started again.
`spec.json` and `job_model.json` are written first, then `marks.json` as things happen to
it (stop asked, JobModel released, checked in), `warden.json` and `exit.json` by its warden.
One that is launched before its start is `parked` by its marks, and has no `job_model.json`.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from samza_dagster.agent.container_log import OLDER
from samza_dagster.agent.ending import HOW_NOT_STARTED, write_exit
from samza_dagster.agent.files import (
    UnreadableFile,
    read_json,
    read_record,
    unreadable,
    write_json,
    write_text,
)
from samza_dagster.agent.journal import of_an_earlier_boot
from samza_dagster.agent.launching import TEMPORARY, WORK
from samza_dagster.agent.procfs import ProcessHandle, ProcessName
from samza_dagster.agent.protocol import Launch

LOG = logging.getLogger("samza_dagster.agent")

LAUNCHING = "launching"  # its warden starts, or the agent doesn't know yet
RUNNING = "running"
STOPPING = "stopping"
DEAD = "dead"  # its process was seen dead, with its whole group
FAILED = "failed"  # no process of it exists, nor will one

_MARKS = ("released", "checked_in", "stop_asked", "parked", "sequence")


class HostedIncarnation:
    """The agent's knowledge of one incarnation; changed only under the agent's lock."""

    def __init__(self, directory: Path, spec: Dict[str, Any]) -> None:
        self.directory = directory
        self.spec = spec
        self.execution_id: str = directory.name
        self.processor_id: str = spec["processor_id"]
        self.sequence: int = spec["sequence"]
        self.store_directories: FrozenSet[str] = frozenset(spec["store_directories"])
        self.stop_grace_s: float = spec["stop_grace_s"]
        self.hold: Optional[str] = spec.get("hold")
        self.released = False
        self.checked_in = False
        self.stop_asked = False
        self.parked = False
        self.ready = False  # parked, and its JVM has asked for its JobModel
        self.state = LAUNCHING
        self.exit_status: Optional[int] = None
        self.why = ""
        self.stop_failed = ""
        self.warden: Optional[ProcessHandle] = None
        self.container: Optional[ProcessHandle] = None
        self.pid: Optional[int] = None
        # Monotonic deadlines of this agent's process, not of the record.
        self.kill_at: Optional[float] = None
        self.give_up_at: Optional[float] = None
        self.bury_by: Optional[float] = None
        self.stale_at: Optional[float] = None
        self.warden_by: Optional[float] = None  # set while its hold is to become its warden
        self.killed_for: Optional[str] = None

    @classmethod
    def create(
        cls,
        directory: Path,
        launch: Launch,
        *,
        command: Tuple[str, ...],
        environment: Dict[str, str],
        grant_file: Path,
        sequence: int,
        parked: Optional[Dict[str, str]] = None,
        hold: Optional[str] = None,
    ) -> HostedIncarnation:
        """Write the record of a new one. `spec.json` comes last: without it there is none.

        With `parked` (what of its start is known, kept in the spec) it waits for its start.
        `hold` names the container of the cluster's engine that becomes its warden.
        """
        work = directory / WORK
        (directory / TEMPORARY).mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        if parked is None:
            write_text(directory / "job_model.json", launch.job_model_json)
        for name, text in launch.files.items():
            write_text(work / name, text)
        spec: Dict[str, Any] = {
            "version": 1,
            "processor_id": launch.processor_id,
            "command": list(command),
            "environment": environment,
            "work_dir": str(work),
            "grant_file": str(grant_file),
            "stop_grace_s": launch.stop_grace_s,
            "store_directories": list(launch.store_directories),
            "sequence": sequence,
            "hold": hold,
            **(parked or {}),
        }
        found = cls(directory, spec)
        if parked is not None:
            found.mark(parked=True)
        write_json(directory / "spec.json", spec)
        return found

    @classmethod
    def load(cls, directory: Path) -> Optional[HostedIncarnation]:
        """Read a record back; None for a directory with an unfinished record.

        Raises `RecordError` for one of another version than this agent understands, as
        `UnreadableFile` for what can't be read at all.
        """
        spec = read_record(directory / "spec.json")
        if spec is None:
            return None
        found = cls(directory, spec)
        marks = read_record(directory / "marks.json") or {}
        found.released = bool(marks.get("released"))
        found.checked_in = bool(marks.get("checked_in"))
        found.stop_asked = bool(marks.get("stop_asked"))
        found.parked = bool(marks.get("parked"))
        found.sequence = int(marks.get("sequence", found.sequence))
        _processes(directory / "warden.json")  # taken hold of later: here that it can be read
        return found

    @property
    def is_live(self) -> bool:
        """Return whether a process of it exists or may still appear."""
        return self.state in (LAUNCHING, RUNNING, STOPPING)

    def claim(self, job_model_json: str, sequence: int) -> None:
        """Record the start of a parked one: from now on it counts, in the order of starts."""
        write_text(self.directory / "job_model.json", job_model_json)
        self.mark(sequence=sequence, parked=False)
        self.stale_at = None

    def mark(self, **changed: Any) -> None:
        """Record what happens to it before any process, this one included, can see it.

        Raises `OSError` when that can't be written: then it hasn't happened.
        """
        marks = {name: changed.get(name, getattr(self, name)) for name in _MARKS}
        write_json(self.directory / "marks.json", {"version": 1, **marks})
        for name, value in changed.items():
            setattr(self, name, value)

    def job_model_json(self) -> str:
        """Return the JobModel that is served to it alone."""
        return (self.directory / "job_model.json").read_text(encoding="utf-8")

    def read_processes(self) -> bool:
        """Open handles of warden and container once `warden.json` names them.

        Return whether it does.

        Raises `UnreadableFile` for a file without names: its container may live.
        """
        if self.container is not None:
            return True
        named = _processes(self.directory / "warden.json")
        if named is None:
            return False
        warden, container = named
        if self.warden is None:
            self.warden = ProcessHandle(warden)
        self.container = ProcessHandle(container)
        self.pid = container.pid
        return True

    def take_claimant(self) -> Optional[ProcessHandle]:
        """Open a handle of the directory's warden, which may not have its container yet.

        For a warden that this agent didn't start, once `bar` has found it.
        """
        if self.warden is None:
            name = ProcessName.from_json(read_json(self.directory / "warden.lock"))
            if name is not None and name.is_alive():
                self.warden = ProcessHandle(name)
        return self.warden

    def read_end(self) -> Optional[Dict[str, Any]]:
        """Return the content of `exit.json`, or None before it exists."""
        return read_json(self.directory / "exit.json")

    def bar(self, why: str) -> bool:
        """Write the end unless a warden has the directory; no warden runs it after that."""
        descriptor = os.open(str(self.directory / "warden.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            if (self.directory / "warden.json").exists():
                return False
            if self.read_end() is None:
                self.write_end(HOW_NOT_STARTED, why)
            return True
        finally:
            os.close(descriptor)

    def write_end(self, how: str, why: str) -> None:
        """Write the end as the agent saw it, when no warden is left to do so."""
        write_exit(self.directory, how=how, why=why)

    def close(self) -> None:
        """Close the pidfds."""
        for handle in (self.warden, self.container):
            if handle is not None:
                handle.close()

    def forget(self) -> None:
        """Remove the record. The spec goes first, so that a half-removed one isn't read back.

        The log of one that failed by itself stays, one per processor: it says why.
        """
        with contextlib.suppress(FileNotFoundError):
            (self.directory / "spec.json").unlink()
        if self.exit_status not in (None, 0) and not self.stop_asked:
            self._keep_log()
        shutil.rmtree(str(self.directory), ignore_errors=True)

    def _keep_log(self) -> None:
        kept = self.directory.parent.parent / "last-failure" / (self.processor_id + ".log")
        with contextlib.suppress(OSError):
            kept.parent.mkdir(exist_ok=True)
            (self.directory / "container.log").replace(kept)
            older = kept.with_name(kept.name + OLDER)
            with contextlib.suppress(FileNotFoundError):
                older.unlink()  # an earlier failure's
            (self.directory / ("container.log" + OLDER)).replace(older)

    def to_json(self) -> Dict[str, Any]:
        """Return the form in which a sync reports it."""
        return {
            "execution_id": self.execution_id,
            "processor_id": self.processor_id,
            "state": self.state,
            "pid": self.pid,
            "released": self.released,
            "checked_in": self.checked_in,
            "exit_status": self.exit_status,
            "why": self.why,
            "stop_failed": self.stop_failed,
        }


def load_all(directory: Path, *, clean: bool = False) -> List[HostedIncarnation]:
    """Return every record below an agent's directory, by name.

    Left out are those that were never finished, since nothing was started, and those that can't
    be read if they are of an earlier boot, since nothing of them lives. Else raises `RecordError`.
    `clean` removes them too; the caller must have the directory alone, as one may just be written.
    """
    found: List[HostedIncarnation] = []
    root = directory / "incarnations"
    for each in sorted(d for d in root.iterdir() if d.is_dir()) if root.is_dir() else ():
        loaded = None
        try:
            loaded = HostedIncarnation.load(each)
        except UnreadableFile as error:
            if not of_an_earlier_boot(directory):
                raise
            LOG.warning("left out, nothing of an earlier boot lives: %s", error)
        if loaded is not None:
            found.append(loaded)
        elif clean:
            shutil.rmtree(str(each), ignore_errors=True)
    return found


def _processes(path: Path) -> Optional[Tuple[ProcessName, ProcessName]]:
    written = read_record(path)
    if written is None:
        return None
    warden = ProcessName.from_json(written.get("warden"))
    container = ProcessName.from_json(written.get("container"))
    if warden is None or container is None:
        raise unreadable(path, "it names no warden with its container")
    return warden, container


def overlaps(one: FrozenSet[str], other: FrozenSet[str]) -> Optional[str]:
    """Return a path of `one` that equals, contains or lies below one of `other`, or None."""
    for mine in sorted(one):
        for theirs in other:
            if mine == theirs or mine.startswith(theirs + "/") or theirs.startswith(mine + "/"):
                return mine
    return None
