"""Runs a command of the test run: not beyond its time, and nothing of it lives on.

What a test starts in a session of its own outlives a test process that is cut off. This
process adopts such orphans (PR_SET_CHILD_SUBREAPER), so that it knows them, whoever
their parent was, and ends them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 20.0
"""For what is told to end by Ctrl-C, as fixtures stop their servers; and for what ends with its
command, as Spark's JVM does, a moment later."""


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    output: str
    cut_off: bool
    left_behind: tuple[str, ...]
    """The commands of processes that it hadn't ended itself."""


def run(
    command: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None
) -> Ran:
    """Its output is shown as it comes; `within_s` later it is cut off.

    `environment` comes on top of this process's own. Raises `RuntimeError` in a process that has
    other children: they would be ended with what the command leaves behind.
    """
    if others := [" ".join(each.cmdline())[:160] for each in _descendants()]:
        raise RuntimeError(f"a command's run ends all children of its process, and it has {others}")
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = bytearray()
    shown = threading.Thread(target=_show, args=(process, output))
    shown.start()
    try:
        cut_off = not _ended(process, within_s)
        if cut_off:
            _interrupt_group()
            _ended(process, _GRACE_S)
            process.kill()
        over = time.monotonic() + (0 if cut_off else _GRACE_S)
        while _descendants() and time.monotonic() < over:
            time.sleep(0.1)
    finally:
        # Its output ends with the last that holds it, an orphan too.
        left = _end_descendants()
        shown.join()
    return Ran(process.wait(), output.decode(errors="replace"), cut_off, left)


def _ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Meanwhile the orphans that end are reaped: their tests wait for them to be gone."""
    over = time.monotonic() + within_s
    while process.poll() is None:
        if time.monotonic() > over:
            return False
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == process.pid:
            time.sleep(0.1)
        else:
            os.waitpid(ended.si_pid, 0)
    return True


def _interrupt_group() -> None:
    """SIGINT as a terminal's Ctrl-C sends it: make alone would only wait for its pytest."""
    for each in _descendants():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(each.pid) == os.getpgrp():
                os.kill(each.pid, signal.SIGINT)


def _show(process: subprocess.Popen[bytes], output: bytearray) -> None:
    """By what comes, not by lines: a line of tests may take a quarter of an hour."""
    assert process.stdout is not None
    while some := os.read(process.stdout.fileno(), 65_536):
        output += some
        sys.stdout.buffer.write(some)
        sys.stdout.flush()


def _end_descendants() -> tuple[str, ...]:
    """SIGKILL of all, as long as new ones come to light; what they were."""
    seen: dict[int, str] = {}
    while living := _descendants():
        for each in living:
            try:
                seen.setdefault(each.pid, " ".join(each.cmdline())[:160])
                each.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(living, timeout=5)
    return tuple(seen.values())


def _descendants() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if _lives(p)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
