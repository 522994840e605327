"""A process that the sandbox started, known by more than its number.

A process id alone may name a stranger after a while. Here it goes with the start time
that the kernel reports and the boot it belongs to, so the remains of a killed sandbox
are found and ended, and nothing else is. Linux only (`/proc`, pidfd).

`spawn` starts a process in a session of its own, so its id is also that of its group and session. Its children may outlive it, in the same group.
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
    """One process: `role` says what it does, `start_ticks` and `boot` make the id unique."""

    role: str
    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, role: str, pid: int) -> ProcessRecord:
        """Records a running process; raises `ActionFailed` when it's gone already."""
        name = procfs.name_of(pid)
        if name is None or not name.is_alive():
            raise ActionFailed(f"record the {role} process {pid}", seen="it has ended already")
        return cls(role, *name)

    @property
    def is_alive(self) -> bool:
        """The very process runs; a later one with the same number doesn't count."""
        exit_status(self)
        return self.name.is_alive()

    @property
    def name(self) -> procfs.ProcessName:
        """As the agent's code knows processes."""
        return procfs.ProcessName(self.pid, self.start_ticks, self.boot)

    @property
    def is_group_alive(self) -> bool:
        """Whether any process is left of the group and session that it founded, zombies not counted."""
        return self.is_alive or bool(procfs.group_of(self.name, self.name))

    def to_json(self) -> dict[str, Any]:
        """As `sandbox.json` holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProcessRecord:
        """Reads what `to_json` wrote; raises `InvalidInput`."""
        try:
            return cls(
                str(data["role"]), int(data["pid"]), int(data["start_ticks"]), str(data["boot"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                "read a recorded process", seen=f"{dict(data)!r}: {error}"
            ) from error

    def send(self, what: signal.Signals) -> bool:
        """Sends a signal through a pidfd; False when the process had ended before."""
        if not self.is_alive:
            return False
        with contextlib.closing(procfs.ProcessHandle(self.name)) as handle:
            handle.send(what)
        return True

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; True when it has ended."""
        with contextlib.closing(procfs.ProcessHandle(self.name)) as handle:
            handle.wait(timeout_s)
        return not self.is_alive

    def stop(self, grace_s: float = 15.0, kill_s: float = 10.0) -> bool:
        """SIGTERM, after `grace_s` SIGKILL; returns when it was seen dead.

        True when it ended by itself after the SIGTERM. Raises `ActionFailed` when it
        outlives SIGKILL by `kill_s`.
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
"""Own children, so that a dead one is reaped and doesn't stay as a zombie."""


def spawn(
    role: str,
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    on_spawn: Callable[[ProcessRecord], None] | None = None,
) -> ProcessRecord:
    """Starts a process in a session of its own, output appended to `log`.

    A Ctrl-C at the terminal doesn't reach it: whoever started it ends it. `on_spawn` is
    told the record before a Ctrl-C can come in between. Raises `MissingPrerequisite`
    when the program isn't there.
    """
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
    """The command, run with the default actions of the signals that end a process; its path is absolute.

    A process started in the background of a non-interactive shell inherits SIGINT
    ignored, and one that ends its children by SIGINT would never end.
    """
    return [sys.executable, "-I", "-c", _BY_DEFAULT, *command]


def exit_status(record: ProcessRecord) -> int | None:
    """Exit status of an own child that has ended (negative: the signal), else None."""
    child = _children.get(record)
    return child.poll() if child is not None else None


def stop_all(records: Iterable[ProcessRecord], grace_s: float = 15.0) -> tuple[ProcessRecord, ...]:
    """SIGTERM to all at once, then waits for each; SIGKILL to those past the grace.

    Returns those that had to be killed.
    """
    signalled = [record for record in records if record.send(signal.SIGTERM)]
    deadline = time.monotonic() + grace_s
    late = [record for record in signalled if not record.wait(deadline - time.monotonic())]
    for record in late:
        record.stop(grace_s=0.0)
    return tuple(late)


def stop_groups(leaders: Sequence[ProcessRecord], *, timeout_s: float) -> None:
    """Ends groups in reverse order of their start; kills what is left after `timeout_s`.

    Asks the leaders alone: each ends its own children in order. Raises `ActionFailed`
    when a group survives even SIGKILL.
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
    """The last lines of a log, for a message to a person."""
    try:
        with log.open("rb") as opened:
            opened.seek(max(0, log.stat().st_size - 65536))
            text = opened.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])
