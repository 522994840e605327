"""How many times slower than the reference this machine is just now.

Deadlines of conditions, leases of rigs and lines of levels are stretched by it. They are
for a machine that starts Python with some of its library in 0.14 s on two cores at once; a
shared one was seen to take four times that for hours, with a bare loop of Python not even
twice as slow. The 0.14 follows from Dagster's import on both; it was never timed itself.
What a test holds against its own peer in the same run isn't stretched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

VARIABLE = "SAMZA_DAGSTER_TEST_PACE"
_REFERENCE_S = 0.14
_LONGEST = 6.0
_START = (
    *(sys.executable, "-I", "-c"),
    "import asyncio, email, http.client, multiprocessing, unittest.mock, xml.dom.minidom",
)


def measured(times: int = 4) -> float:
    """Between 1 (the reference, or faster) and 6: starts of Python, two of them at once."""
    taken_s: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        for start in [subprocess.Popen(_START) for _ in range(2)]:
            start.wait()
        taken_s.append(time.perf_counter() - began)
    return min(_LONGEST, max(1.0, round(sorted(taken_s)[times // 2] / _REFERENCE_S, 1)))


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
