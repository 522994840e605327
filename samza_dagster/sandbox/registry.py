"""The record of a sandbox's processes, on disk before any other use of them.

`$SAMZA_DAGSTER_HOME/sandboxes/<name>/sandbox.json` names every process by id, start time and
boot, so the remains of a sandbox that was killed are found and ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TextIO

from samza_dagster.agent.files import write_text
from samza_dagster.directories import sandboxes_directory
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.sandbox.process import ProcessRecord

VERSION = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Registry:
    """The directory and the record of one sandbox."""

    def __init__(self, name: str, *, root: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"a sandbox named {name!r}",
                seen="not a name",
                fix="1 to 32 lower-case letters, digits and hyphens, no hyphen first",
            )
        self.name = name
        self.directory = (root or sandboxes_directory()) / name
        self._thread_lock = threading.Lock()

    @property
    def file(self) -> Path:
        """Return the path of `sandbox.json`."""
        return self.directory / "sandbox.json"

    @property
    def exists(self) -> bool:
        """Return whether there is a record, of a sandbox that is up or was killed."""
        return self.file.is_file()

    def read(self) -> dict[str, Any]:
        """Return the record, empty without one; raise `InvalidInput` for an unreadable one."""
        try:
            data: dict[str, Any] = json.loads(self.file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InvalidInput(f"read {self.file}", seen=str(error)) from error
        if data.get("version") != VERSION:
            raise InvalidInput(
                f"read {self.file}",
                seen=f"version {data.get('version')}",
                fix=f"the samza_dagster that wrote it; this one reads version {VERSION}",
            )
        return data

    def update(self, **facts: Any) -> None:
        """Replace facts in the record, all at once."""
        with self._thread_lock:
            self._write({**self.read(), "version": VERSION, "name": self.name, **facts})

    def add(self, record: ProcessRecord) -> None:
        """Record a process that was just started."""
        with self._thread_lock:
            data: dict[str, Any] = {"version": VERSION, "name": self.name, **self.read()}
            data["processes"] = [*data.get("processes", []), record.to_json()]
            self._write(data)

    def processes(self) -> tuple[ProcessRecord, ...]:
        """Return all recorded processes, dead ones too, in the order of their start."""
        return tuple(ProcessRecord.from_json(each) for each in self.read().get("processes", []))

    def live(self, role: str | None = None) -> tuple[ProcessRecord, ...]:
        """Return the processes that run, of one role or of all."""
        return tuple(
            record for record in self.processes() if record.is_alive and role in (None, record.role)
        )

    def forget(self) -> None:
        """Remove the record; data and logs stay."""
        self.file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def exclusive(self) -> Generator[None]:
        """Hold the sandbox for one up or down; raise `Refused` while another holds it."""
        # A directory without any other file is removed again, as after an up that was refused.
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as held:
            if not lock_file(held):
                held.seek(0)
                raise Refused(
                    f"one command at a time on sandbox {self.name!r}",
                    seen=f"process {held.read().strip() or '?'} is at it",
                    fix="wait for it, or end it, or use another --name",
                )
            try:
                held.truncate(0)
                held.write(str(os.getpid()))
                held.flush()
                yield
            finally:
                with contextlib.suppress(OSError):  # another command may be about to lock it
                    if [*self.directory.iterdir()] == [self._lock]:
                        self._lock.unlink()
                        self.directory.rmdir()

    @property
    def is_held(self) -> bool:
        """Return whether the process of the newest up or down lives."""
        # Read without the lock, because an up could fail to lock it at that moment.
        with contextlib.suppress(FileNotFoundError):
            return Path("/proc", self._lock.read_text() or "-").is_dir()
        return False

    @property
    def _lock(self) -> Path:
        return self.directory / "lock"

    def _write(self, data: dict[str, Any]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        write_text(self.file, json.dumps(data, indent=1))


def lock_file(file: TextIO) -> bool:
    """Lock the file; return False if another process holds it or has just removed it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(file.fileno()).st_nlink > 0


def wait_until(condition: Callable[[], bool], deadline: float) -> bool:
    """Call `condition` ten times a second until it holds or the monotonic `deadline` is reached."""
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True
