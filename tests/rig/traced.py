"""Processes held by ptrace: threads that never run again, a process that SIGKILL doesn't end.

It takes the right to trace them (root, or `kernel.yama.ptrace_scope` 0), else `OSError` is raised,
and one thread of ours for all that is done to one of them, as the kernel demands.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.rig.waiting import until

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_TRACE_EXIT, _EVENT_EXIT = 0x40, 6
_WALL = 0x40000000


def threads(pid: int, name: str) -> list[int]:
    """Threads whose name begins so."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(t.name) for t in tasks if (t / "comm").read_text().startswith(name)]


@contextmanager
def hung(pid: int, tids: list[int], waiting_in: str) -> Generator[None]:
    """None of them runs within the block; each is caught while it waits in that call of the kernel.

    The others go on: the process answers, beats and reports. A thread of a JVM that is stopped
    elsewhere would stop all others at the next safepoint.
    """
    stopped: list[int] = []
    try:
        for tid in tids:
            until(
                f"thread {tid} waits in {waiting_in}",
                lambda tid=tid: waiting_in in Path(f"/proc/{pid}/task/{tid}/wchan").read_text(),
            )
            _ptrace(_SEIZE, tid)
            _ptrace(_INTERRUPT, tid)
            os.waitpid(tid, _WALL)
            stopped.append(tid)
        yield
    finally:
        for tid in stopped:
            _ptrace(_DETACH, tid)


@contextmanager
def undying(pid: int) -> Generator[None]:
    """SIGKILL, which has to come, doesn't end it within the block: its exit is held.

    Real: the kernel has taken the signal and the process is there with all that it holds, as
    one in an uninterruptible call would be, which nobody can provoke at will.
    """
    _ptrace(_SEIZE, pid, _TRACE_EXIT)
    try:
        yield
    finally:
        seen, status = os.waitpid(pid, _WALL)
        assert (seen, status >> 16) == (pid, _EVENT_EXIT), (seen, hex(status))
        _ptrace(_DETACH, pid)


def _ptrace(request: int, tid: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, data) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace {request:#x} of {tid}: {os.strerror(error)}")
