"""Runs a real coordinator that kills itself with SIGKILL at one chosen point.

`SAMZA_DAGSTER_KILL_AT=<point>:<n>`: points are `before-commit`, `after-commit` and
`after-effect`, n counts from 1 after the job has come up.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from samza_dagster.coordinator.command import run_command
from samza_dagster.coordinator.effects import EffectRunner
from samza_dagster.coordinator.kafka import KafkaLog
from samza_dagster.placement import commands

POINT, _, NUMBER = os.environ["SAMZA_DAGSTER_KILL_AT"].partition(":")
ARMED = Path(os.environ["SAMZA_DAGSTER_KILL_ARMED"])
SEEN: Counter[str] = Counter()


def reached(point: str) -> None:
    """Counts once armed, and dies at the chosen count."""
    if point != POINT or not ARMED.exists():
        return
    SEEN[point] += 1
    if SEEN[point] == int(NUMBER):
        os.kill(os.getpid(), signal.SIGKILL)


real_commit = KafkaLog.commit_stream
real_run = EffectRunner.run


def commit(self: KafkaLog, *arguments: Any) -> None:
    reached("before-commit")
    real_commit(self, *arguments)
    reached("after-commit")


def run(self: EffectRunner, effect: commands.Effect) -> None:
    real_run(self, effect)
    if not isinstance(effect, commands.CountMetric):
        reached("after-effect")


KafkaLog.commit_stream = commit  # type: ignore[method-assign]
EffectRunner.run = run  # type: ignore[method-assign]

if __name__ == "__main__":
    run_command()
