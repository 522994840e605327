"""A process of the sandbox, identified by more than its number.

A process id alone may name another process after a while. The record adds the boot and the start
time that the kernel reports. So the remains of a killed sandbox are found and ended, and nothing
else is. Linux only (`/proc`, pidfd).

`spawn` starts a process in a session of its own, so its id is also that of its group and session.
Its children may outlive it, in the same group.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from samza_dagster.agent import procfs
from samza_dagster.errors import ActionFailed, InvalidInput, MissingPrerequisite
from samza_dagster.interrupts import interrupts_deferred

_BY_DEFAULT = """import os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP", "SIGPIPE"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
_POLL_S = 0.05
_KILL_S = 5.0


@dataclass(frozen=True)
class ProcessRecord:
    """A process; `role` is its purpose, `start_ticks` and `boot` make the id unique."""

    role: str
    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, role: str, pid: int) -> ProcessRecord:
        """Record a running process; raise `ActionFailed` when it has already ended."""
        name = procfs.name_of(pid)
        if name is None or not name.is_alive():
            raise ActionFailed(f"record the {role} process {pid}", seen="it has ended already")
        return cls(role, *name)

    @property
    def is_alive(self) -> bool:
        """Return whether this very process runs; a later one with the same number doesn't count."""
        exit_status(self)
        return self.name.is_alive()

    @property
    def name(self) -> procfs.ProcessName:
        """Return the process in the agent's form."""
        return procfs.ProcessName(self.pid, self.start_ticks, self.boot)

    @property
    def is_group_alive(self) -> bool:
        """Return whether the group and session that it founded have a process that is no zombie."""
        return self.is_alive or bool(procfs.group_of(self.name, self.name))

    def to_json(self) -> dict[str, Any]:
        """Return the form of `sandbox.json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProcessRecord:
        """Read the record of `to_json`; raise `InvalidInput`."""
        try:
            return cls(
                str(data["role"]), int(data["pid"]), int(data["start_ticks"]), str(data["boot"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                "read a recorded process", seen=f"{dict(data)!r}: {error}"
            ) from error

    def send(self, what: signal.Signals) -> bool:
        """Send a signal through a pidfd; return False when the process had ended before."""
        if not self.is_alive:
            return False
        with contextlib.closing(procfs.ProcessHandle(self.name)) as handle:
            handle.send(what)
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; return True when it has ended."""
        with contextlib.closing(procfs.ProcessHandle(self.name)) as handle:
            handle.wait(timeout_s)
        return not self.is_alive

    def stop(self, grace_s: float = 15.0, kill_s: float = 10.0) -> bool:
        """Send SIGTERM, after `grace_s` SIGKILL; return when it was seen dead.

        Returns True when it ended by itself after the SIGTERM. Raises `ActionFailed` when it
        survives SIGKILL by `kill_s`.
        """
        if not self.send(signal.SIGTERM) or self.wait(grace_s):
            return True
        self.send(signal.SIGKILL)
        if not self.wait(kill_s):
            raise ActionFailed(
                f"end the {self.role} process {self.pid}",
                seen=f"it lives on {kill_s:.0f} s after SIGKILL",
                fix="look at it with ps: a process in state D waits for a disk",
            )
        return False


_children: dict[ProcessRecord, subprocess.Popen[bytes]] = {}
"""Own children, so that dead ones are reaped and don't stay as zombies."""


def spawn(
    role: str,
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    on_spawn: Callable[[ProcessRecord], None] | None = None,
) -> ProcessRecord:
    """Start a process in a session of its own, output appended to `log`.

    `on_spawn` gets the record before an interrupt can come in between. Raises
    `MissingPrerequisite` when the program isn't there.
    """
    # A Ctrl-C at the terminal doesn't reach the process: its owner ends it.
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, interrupts_deferred():
        try:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                cwd=directory,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise MissingPrerequisite(f"start the {role}", seen=str(error)) from error
        name = procfs.name_of(child.pid) or procfs.ProcessName(child.pid, -1, procfs.boot_id())
        record = ProcessRecord(role, *name)
        _children[record] = child
        if on_spawn is not None:
            on_spawn(record)
    return record


def with_default_signals(command: Sequence[str]) -> list[str]:
    """Return the command (absolute path) with default actions of the signals that end it."""
    # A process in the background of a non-interactive shell inherits SIGINT ignored, and would
    # never end when its parent ends it by SIGINT.
    return [sys.executable, "-I", "-c", _BY_DEFAULT, *command]


def exit_status(record: ProcessRecord) -> int | None:
    """Return the exit status of an own child that has ended (negative: the signal), else None."""
    child = _children.get(record)
    return child.poll() if child is not None else None


def stop_all(records: Iterable[ProcessRecord], grace_s: float = 15.0) -> tuple[ProcessRecord, ...]:
    """Send SIGTERM to all at once, wait for each, and SIGKILL those past the grace.

    Returns those that had to be killed.
    """
    signalled = [record for record in records if record.send(signal.SIGTERM)]
    deadline = time.monotonic() + grace_s
    late = [record for record in signalled if not record.wait(deadline - time.monotonic())]
    for record in late:
        record.stop(grace_s=0.0)
    return tuple(late)


def stop_groups(leaders: Sequence[ProcessRecord], *, timeout_s: float) -> None:
    """End groups in reverse order of their start; kill what is left after `timeout_s`.

    Signals the leaders alone: each ends its own children in order. Raises `ActionFailed` when a
    group survives SIGKILL.
    """
    deadline = time.monotonic() + timeout_s
    for leader in reversed(leaders):
        leader.send(signal.SIGTERM)
    late = [leader for leader in leaders if not _is_group_gone(leader, deadline)]
    for leader in late:
        procfs.kill_group(leader.name, leader.name)
    left = [leader for leader in late if not _is_group_gone(leader, time.monotonic() + _KILL_S)]
    if left:
        raise ActionFailed(
            "end process groups",
            seen=", ".join(f"{each.role}: group {each.pid} is still there" for each in left),
        )


def _is_group_gone(leader: ProcessRecord, deadline: float) -> bool:
    while leader.is_group_alive:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def log_tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, for a message to a person."""
    try:
        with log.open("rb") as opened:
            opened.seek(max(0, log.stat().st_size - 65536))
            text = opened.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])
