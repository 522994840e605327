"""A Python whose processes run under clocks that a test sets, the agent's and its wardens' alike.

CLOCK_BOOTTIME and the wall clock alone: a suspended host's CLOCK_MONOTONIC stands still, and
so do its timers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

_SCRIPT = """#!{python} -I
import runpy, sys, time

def ahead():
    with open({ahead!r}) as file:
        return [float(word) for word in file.read().split()]

wall, any_clock = time.time, time.clock_gettime
time.time = lambda: wall() + ahead()[1]
time.clock_gettime = lambda clock: any_clock(clock) + ahead()[0] * (clock == time.CLOCK_BOOTTIME)
sys.executable = {path!r}
assert sys.argv[1] == "-I"
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class ClockedPython(NamedTuple):
    """What to start instead of `sys.executable`, and the file that says how far its clocks are off."""

    path: str
    ahead: Path

    def set_ahead(self, *, boottime_s: float = 0.0, wall_s: float = 0.0) -> None:
        """In one step, for every process of it."""
        beside = self.ahead.with_suffix(".new")
        beside.write_text(f"{boottime_s} {wall_s}")
        beside.replace(self.ahead)

    def boottime_s(self) -> float:
        """As its processes read it."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) + float(self.ahead.read_text().split()[0])


def clocked_python(directory: Path) -> ClockedPython:
    """Made in `directory`; its clocks are right until they are set."""
    directory.mkdir()
    made = ClockedPython(str(directory / "python"), directory / "ahead")
    made.set_ahead()
    script = _SCRIPT.format(python=sys.executable, ahead=str(made.ahead), path=made.path)
    draft = directory / "python.draft"
    draft.write_text(script)
    # Written by this process, it would be open in what another thread forks meanwhile: "Text file busy".
    subprocess.run(["install", "-m", "700", str(draft), made.path], check=True)
    return made
