"""The loop of every operation: looks, decides, begins, until nothing is left.

All that it asks is asked under ids of the root of its chain of runs, so an operation whose run was
killed is begun again from what its requests tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.operations.schedule import (
    UNDER_WAY,
    Next,
    OperationPhase,
    Position,
    UnitStatus,
    what_next,
)
from samza_dagster.orchestration.plans.order import Batch, Schedule
from samza_dagster.orchestration.ticks import elapsed_ms

POLL_S = 0.25


class RunEnd(StrEnum):
    """How an operation's run ended, as run tag `samza/bounce` has it."""

    DONE = "done"
    STOPPED = "stopped"
    TERMINATED = "terminated"


@dataclass(frozen=True)
class OperationEnded:
    """The end of a run's part, and why."""

    end: RunEnd
    because: str


@dataclass(frozen=True)
class CanaryVerdict:
    """A judge's yes, no, or None: not yet; and why."""

    passed: bool | None
    why: str


class Work(Protocol):
    """What is carried out, one by one. Each call looks or asks once and returns; raises `Unreachable`."""

    goes_on: bool
    """Something went on since the last look: the next one is due at once."""

    def take_up(self, now_ms: int) -> None:
        """Finds where an earlier run of the chain has left each; called once, before all else."""
        ...

    def look(self, now_ms: int) -> None:
        """Looks at what is under way."""
        ...

    def position(self, now_ms: int) -> Position:
        """Where each stands."""
        ...

    def judge(self, now_ms: int) -> CanaryVerdict:
        """The word on the canary, after its bake."""
        ...

    def begin(self, key: str, now_ms: int) -> None:
        """Begins one of them."""
        ...

    def decided(self, todo: Next, now_ms: int) -> None:
        """Takes note of what the loop is at."""
        ...

    def give_back(self) -> None:
        """The run ends: what was asked and has stopped nothing is released, the rest is told."""
        ...


class Loop:
    """One run's part of an operation.

    `patience_s` is how long it goes on while nobody may be touched, or nobody answers.
    """

    def __init__(
        self,
        work: Work,
        order: Sequence[Batch],
        schedule: Schedule,
        *,
        patience_s: float,
        log: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = elapsed_ms,
    ) -> None:
        self._work = work
        self._order = order
        self._schedule = schedule
        self._patience_s = patience_s
        self._log = log
        self._sleep = sleep
        self._now_ms = now_ms
        self._is_taken_up = False
        self._idle_since: int | None = None
        self._away_since: int | None = None

    def run(self) -> OperationEnded:
        """Goes on until the end; what is only held is given back however that comes."""
        try:
            while True:
                try:
                    ended = self._turn()
                    waits = not self._work.goes_on
                    self._away_since = None
                except Unreachable as error:
                    ended, waits = None, True
                    self._away(error)
                if ended is not None:
                    return ended
                if waits:
                    self._sleep(POLL_S)
        except BaseException:
            self._work.give_back()
            raise

    def _turn(self) -> OperationEnded | None:
        work, now = self._work, self._now_ms()
        if not self._is_taken_up:
            work.take_up(now)
            self._is_taken_up = True
        work.look(now)
        position = work.position(now)
        todo = self._what_next(position, now)
        for key in todo.ask:
            # Unreachable leaves it waiting, asked or not: the same id is asked again.
            work.begin(key, now)
        todo = replace(todo, ends_ms=self._ends_ms(todo, position, now))
        work.decided(todo, now)
        if todo.phase is OperationPhase.ENDED:
            return _ended(position, todo.because)
        if todo.ends_ms is None or now <= todo.ends_ms:
            return None
        limit = f"{self._patience_s:g} s"
        return OperationEnded(RunEnd.STOPPED, f"nobody may be touched for {limit}: {todo.because}")

    def _what_next(self, position: Position, now: int) -> Next:
        todo = what_next(self._order, self._schedule, position, now)
        if todo.phase is not OperationPhase.JUDGING:
            return todo
        verdict = self._work.judge(now)
        if verdict.passed is None:
            return replace(todo, because=verdict.why)
        self._log(f"canary: {verdict.why}")
        judged = replace(position, judged=verdict.passed)
        todo = what_next(self._order, self._schedule, judged, now)
        if verdict.passed:
            return todo
        return replace(todo, because=f"{todo.because}: {verdict.why}")

    def _ends_ms(self, todo: Next, position: Position, now: int) -> int | None:
        """When an operation ends that may touch nobody now, if it may touch nobody until then."""
        flying = position.are(*UNDER_WAY)
        if (
            todo.phase is not OperationPhase.BOUNCING
            or todo.ask
            or flying
            or todo.until_ms is not None
        ):
            self._idle_since = None
            return None
        self._idle_since = self._idle_since or now
        return self._idle_since + round(self._patience_s * 1000)

    def _away(self, error: Unreachable) -> None:
        now = self._now_ms()
        if self._away_since is None:
            self._away_since = now
            self._log(f"waiting for who doesn't answer: {error}")
        if now - self._away_since > self._patience_s * 1000:
            raise error


def _ended(position: Position, because: str) -> OperationEnded:
    if len(position.are(UnitStatus.BACK, UnitStatus.GONE)) == len(position.statuses):
        return OperationEnded(RunEnd.DONE, "all are back")
    return OperationEnded(RunEnd.STOPPED, because)
