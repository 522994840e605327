"""A process of ours in a session of its own, with default signals, ended by its recorded id."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE)
_POLL_S = 0.05
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")


@dataclass
class Child:
    """A started process, leader of its own process group."""

    name: str
    pid: int
    log: Path
    started_ticks: int
    _status: int | None = field(default=None, repr=False)

    @classmethod
    def start(
        cls, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Child:
        """Starts `command`, its output appended to `log`.

        Signals get their default actions: a process started in the background of a
        non-interactive shell inherits SIGINT ignored, and Dagster's would never end.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            command[0],
            list(command),
            dict(environment),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_RESET,
        )
        return cls(name, pid, log, _started_ticks(pid))

    def exit_status(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs."""
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # another process started it
                if _started_ticks(self.pid) == self.started_ticks:
                    return None
                self._status = 0
                return 0
            if pid == 0:
                return None
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def is_ours(self) -> bool:
        """Whether the recorded process runs, and not another that got its id since."""
        return self.exit_status() is None and _started_ticks(self.pid) == self.started_ticks

    def terminate(self) -> None:
        """Asks the leader alone to end: it ends its children in order."""
        if self.is_ours():
            os.kill(self.pid, signal.SIGTERM)

    def wait_gone(self, deadline: float) -> bool:
        """Whether the whole group is gone by `deadline` (monotonic seconds)."""
        while True:
            self.exit_status()
            if not self.group_alive():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)

    def group_alive(self) -> bool:
        """Whether any process of the group is left, zombies of others not counted."""
        return any(group == self.pid and state != "Z" for group, state in _processes())

    def kill_group(self) -> None:
        """Kills what is left of the group."""
        if self.group_alive():
            os.killpg(self.pid, signal.SIGKILL)

    def errors(self, last: int = 5) -> str:
        """The exceptions in the end of its log, first cause first, or else its last lines."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        found = [line for line in lines[-200:] if _EXCEPTION.match(line)]
        return "\n".join(found[-last:] or lines[-last:])


def _fields(pid: str) -> list[str] | None:
    try:
        text = Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _started_ticks(pid: int) -> int:
    fields = _fields(str(pid))
    return int(fields[19]) if fields is not None else 0


def _processes() -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, no Path of each needed
        if entry.isdigit():
            fields = _fields(entry)
            if fields is not None:
                found.append((int(fields[2]), fields[0]))
    return found
