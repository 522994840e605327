"""How many times slower than the reference this machine is just now.

Deadlines of conditions, leases of rigs and lines of levels are stretched by it: they
are for a machine whose two cores run a loop of Python in 75 ns an iteration at once, and
a shared one was seen to take four times that for hours. What a test holds against its
own peer in the same run isn't stretched.
"""

from __future__ import annotations

import os
import subprocess
import sys

VARIABLE = "SAMZA_DAGSTER_TEST_PACE"
_REFERENCE_NS = 75.0
_LONGEST = 6.0
_LOOP = """
import time
began = time.perf_counter()
rounds = 0
while time.perf_counter() - began < {seconds}:
    total = 0
    for i in range(20_000):
        total += i
    rounds += 1
print((time.perf_counter() - began) * 1e9 / (rounds * 20_000))
"""


def measured(seconds: float = 1.0) -> float:
    """Between 1 (the reference, or faster) and 6, by a loop on each of two cores at once."""
    command = (sys.executable, "-I", "-c", _LOOP.format(seconds=seconds))
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    taken_ns = [float(loop.communicate()[0]) for loop in loops]
    return min(_LONGEST, max(1.0, round(sum(taken_ns) / 2 / _REFERENCE_NS, 1)))


def told() -> float:
    """The variable's, so that all processes of a run have one; measured when it isn't set."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(measured())
    return float(os.environ[VARIABLE])


PACE = told()
"""By this factor this machine takes longer; 1 on the reference."""


def workers(most: int) -> int:
    """How many tests that share two cores may run side by side: fewer, the slower it is."""
    return max(2, round(most / PACE))
