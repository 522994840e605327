"""A process that SIGKILL doesn't end until it is let go: its exit is held by ptrace (PTRACE_EVENT_EXIT).

Real: the kernel has taken the signal and the process is there with all that it holds, as
one in an uninterruptible call would be, which nobody can provoke at will. It takes the
right to trace the process (root, or `kernel.yama.ptrace_scope` 0), and one thread for all of it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

_SEIZE, _DETACH, _TRACE_EXIT, _EVENT_EXIT = 0x4206, 17, 0x40, 6
_WALL = 0x40000000


class Undying:
    """From its making on. Raises `OSError` when the process may not be traced, or isn't there."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        _ptrace(_SEIZE, pid, _TRACE_EXIT)

    def let_go(self) -> None:
        """It dies of the SIGKILL that it got meanwhile: there has to have been one."""
        seen, status = os.waitpid(self._pid, _WALL)
        assert (seen, status >> 16) == (self._pid, _EVENT_EXIT), (seen, hex(status))
        _ptrace(_DETACH, self._pid, 0)


@contextmanager
def undying(pid: int) -> Generator[None]:
    """SIGKILL, which has to come, doesn't end it within the block."""
    held = Undying(pid)
    try:
        yield
    finally:
        held.let_go()


def killed_but_undying(pid: int) -> Undying:
    """SIGKILL has been sent and doesn't end it."""
    held = Undying(pid)
    os.kill(pid, signal.SIGKILL)
    return held


def _ptrace(request: int, pid: int, data: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of {pid}")
