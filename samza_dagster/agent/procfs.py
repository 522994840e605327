"""Processes as the kernel shows them: /proc and pidfd.

A process is named by pid, start time and boot id, because a pid alone is used again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

_SYS_PIDFD_OPEN = 434  # the same on every architecture Python 3.8 runs on, save Alpha


class Stat(NamedTuple):
    """The content of `/proc/<pid>/stat`; `start_ticks` in clock ticks since boot."""

    pid: int
    state: str
    ppid: int
    pgrp: int
    session: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """Return whether it has ended.

        A zombie holds no file, lock or memory: only its parent still has to read its status.
        """
        return self.state in ("Z", "X", "x")


class ProcessName(NamedTuple):
    """A process that can't be taken for another one."""

    pid: int
    start_ticks: int
    boot_id: str

    def to_json(self) -> Dict[str, Any]:
        """Return the three parts, as `from_json` reads them."""
        return {"pid": self.pid, "start_ticks": self.start_ticks, "boot_id": self.boot_id}

    @classmethod
    def from_json(cls, value: Any) -> Optional[ProcessName]:
        """Parse the three parts; None for anything else."""
        try:
            return cls(int(value["pid"]), int(value["start_ticks"]), str(value["boot_id"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def is_alive(self) -> bool:
        """Return whether the same process of the same boot runs and is no zombie."""
        if self.boot_id != boot_id():
            return False
        seen = stat_of(self.pid)
        return seen is not None and seen.start_ticks == self.start_ticks and not seen.is_dead


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def stat_of(pid: int) -> Optional[Stat]:
    """Read a process's state; None when there is no such process (any more)."""
    try:
        text = Path("/proc/{}/stat".format(pid)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name is in parentheses and may hold anything, also ") ".
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def name_of(pid: int) -> Optional[ProcessName]:
    """Return the process that has this pid now."""
    seen = stat_of(pid)
    return None if seen is None else ProcessName(pid, seen.start_ticks, boot_id())


def all_processes() -> Iterator[Stat]:
    """Yield every process, zombies included."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names alone, no Path per process
        if entry.isdigit():
            seen = stat_of(int(entry))
            if seen is not None:
                yield seen


def group_of(leader: ProcessName, session: ProcessName) -> List[Stat]:
    """Return the live processes of the group that `leader` founded in the session of `session`.

    The kernel doesn't reuse a number while a group or session has it. If a process that started
    at another time has one of the two, ours has died out, and the other is left alone.
    """
    if leader.boot_id != boot_id():
        return []
    started = {leader.pid: leader.start_ticks, session.pid: session.start_ticks}
    found: List[Stat] = []
    for process in all_processes():
        if started.get(process.pid, process.start_ticks) != process.start_ticks:
            return []
        if (process.pgrp, process.session) == (leader.pid, session.pid) and not process.is_dead:
            found.append(process)
    return found


def kill_group(leader: ProcessName, session: ProcessName) -> None:
    """Kill the whole group; nothing happens when none of it lives."""
    if group_of(leader, session):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)


class ProcessHandle:
    """A process held by a pidfd where the kernel has one, else watched in /proc."""

    def __init__(self, name: ProcessName) -> None:
        self.name = name
        self.pidfd = _open_pidfd(name.pid)
        # Looked at after the open: the pidfd is then of this very process, or of none alive.
        if self.pidfd is not None and not _is_same(name):
            os.close(self.pidfd)
            self.pidfd = None
        self._gone = False

    def is_dead(self) -> bool:
        """Return whether all of its threads have ended by the kernel."""
        if not self._gone:
            if self.pidfd is None:
                self._gone = not self.name.is_alive()
            else:
                poller = select.poll()
                poller.register(self.pidfd, select.POLLIN)
                self._gone = bool(poller.poll(0))
        return self._gone

    def send(self, number: int) -> None:
        """Send it a signal, never another process with its pid."""
        if self.is_dead():
            return
        try:
            if self.pidfd is not None and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(self.pidfd, number)  # novm: 3.9
            else:
                os.kill(self.name.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, seconds: float) -> bool:
        """Return whether it is dead within that time."""
        deadline = time.monotonic() + seconds
        while not self.is_dead():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self.pidfd is None:
                time.sleep(min(left, 0.1))
            else:
                poller = select.poll()
                poller.register(self.pidfd, select.POLLIN)
                poller.poll(int(left * 1000) + 1)
        return True

    def close(self) -> None:
        """Close the pidfd."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
            self._gone = self._gone or not self.name.is_alive()


def _is_same(name: ProcessName) -> bool:
    seen = stat_of(name.pid)
    return seen is not None and seen.start_ticks == name.start_ticks and name.boot_id == boot_id()


# A pid that a stranger's thread has by now: EINVAL, since Linux 6.15 ENOENT (pidfd_prepare).
_NO_SUCH_PROCESS = (errno.ESRCH, errno.EINVAL, errno.ENOENT)


def _open_pidfd(pid: int) -> Optional[int]:
    """Open a pidfd of the process; None when there is none, or the kernel can't give one.

    Raises `OSError` when the kernel refuses for any other reason: no file descriptors left.
    """
    if hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(pid)  # novm: 3.9
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EPERM, *_NO_SUCH_PROCESS):
                return None
            raise
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(_SYS_PIDFD_OPEN, pid, 0)
    return descriptor if descriptor >= 0 else None
