"""Threads of a live process that never run again until they are let go, as a hung one wouldn't.

By ptrace, which stops one thread and leaves the others alone: the process answers, beats
and reports. It takes the right to trace the process (root, or `kernel.yama.ptrace_scope` 0).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rig.waiting import until

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000


def threads(pid: int, name: str) -> list[int]:
    """Threads whose name begins so."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(t.name) for t in tasks if (t / "comm").read_text().startswith(name)]


@contextmanager
def hung(pid: int, tids: list[int], waiting_in: str) -> Iterator[None]:
    """None of them runs within the block; each is caught while it waits in that call of the kernel.

    A thread of a JVM that is stopped elsewhere would stop all others at the next safepoint.
    All of it from one thread, as the kernel demands.
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


def _ptrace(request: int, tid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace of thread {tid}: {os.strerror(error)}")
