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

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000


def threads(pid: int, name: str, waiting_in: str) -> list[int]:
    """Threads whose name begins so, and which wait in that call of the kernel."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        named = (task / "comm").read_text().startswith(name)
        if named and waiting_in in (task / "wchan").read_text():
            found.append(int(task.name))
    return found


@contextmanager
def hung(tids: list[int]) -> Iterator[None]:
    """None of them runs within the block; all from one thread, which the kernel asks for."""
    for tid in tids:
        _ptrace(_SEIZE, tid)
        _ptrace(_INTERRUPT, tid)
        os.waitpid(tid, _WALL)
    try:
        yield
    finally:
        for tid in tids:
            _ptrace(_DETACH, tid)


def _ptrace(request: int, tid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace of thread {tid}: {os.strerror(error)}")
