"""Whether a verdict under load is one: when nothing comes any more, nothing is missing."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.sandbox import load
from samza_dagster.sandbox.judge import OutputVerdict
from samza_dagster.sandbox.lifecycle import Sandbox


class LoadWatch:
    """Since its making: the load must live, and more be completed than at the first verdict."""

    def __init__(self, load_lives: Callable[[], bool]) -> None:
        self._load_lives = load_lives
        self._first: int | None = None

    def why_not(self, verdict: OutputVerdict) -> str:
        """What is wrong so far, or ""."""
        if not self._load_lives():
            return "the load's process is dead"
        if self._first is None:
            self._first = verdict.completed
        grown = verdict.completed > self._first
        return "" if grown else f"nothing has been completed since the first {self._first}"


def load_lives(sandbox: Sandbox) -> bool:
    """The process that sends the sandbox's inputs."""
    return bool(sandbox.registry.live(load.ROLE))
