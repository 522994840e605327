"""Runs a real coordinator on a machine whose wall clock is wrong by `SAMZA_DAGSTER_SKEW_S` seconds.

Elapsed clocks are right, as they are on such a machine.
"""

from __future__ import annotations

import os
import time

_SKEW_NS = int(float(os.environ["SAMZA_DAGSTER_SKEW_S"]) * 1_000_000_000)
_right_ns = time.time_ns


def time_ns() -> int:
    return _right_ns() + _SKEW_NS


time.time_ns = time_ns
time.time = lambda: time_ns() / 1_000_000_000

from samza_dagster.cli.main import cli  # noqa: E402 - on that clock, all of it

if __name__ == "__main__":
    cli()
