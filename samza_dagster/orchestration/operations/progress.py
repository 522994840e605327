"""One unit as far as it is carried out, and the bounds that it is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from samza_dagster.orchestration.moves import CatchUp
from samza_dagster.orchestration.operations.steps import NEW, State, Step, Unit
from samza_dagster.orchestration.operations.verify import Verification
from samza_dagster.orchestration.requests import Outcome
from samza_dagster.orchestration.waits.conditions import Wait
from samza_dagster.orchestration.waits.warm_up import WarmUp

MOST_NAME_BYTES = 1_700
"""What standbys' names and times may take of a run tag (`MOST_TAG_BYTES`); the rest is its text."""


@dataclass(frozen=True)
class Limits:
    """Bounds of the work, in seconds; `in_run_s` is how long a run waits before it ends."""

    request_expiry_s: float
    timeout_s: float
    verify_timeout_s: float
    catch_up: CatchUp
    in_run_s: float


@dataclass(frozen=True)
class EndedStep:
    """One step from when it was asked for, or begun, until its end; ms since the epoch.

    `status` is that of its request, or what was waited for; empty where a wait has failed.
    """

    step: Step
    begin_ms: int
    end_ms: int
    status: str = ""
    message: str = ""
    request: str = ""

    @property
    def failed(self) -> bool:
        """It didn't come to what it was for."""
        return self.status in ("", "FAILED", "BAD_REQUEST")


@dataclass
class Progress:
    """One unit as far as it is carried out.

    `attempt` is the one that has started its standby: what is asked of that one is asked of
    no other. `request` is the one that it waits for. `moments` are the statuses that were read, of
    which step and when; `ended` the steps that ended, the one under way began at `began_ms`.
    `moved_by` is the request that has moved its container. `down_s` is from the container's stop
    to its check-in, `first_commit_s` to its first commit. Times of standby and move are those of
    answers: they are shown, and compared with one another alone.
    """

    unit: Unit
    state: State = State.WAITING
    at: int = 0
    attempt: int = 0
    standby: str | None = None
    standby_since_ms: int | None = None
    standby_until_ms: int | None = None
    request: Outcome | None = None
    deadline_ms: int = 0
    warm_up: WarmUp | None = None
    verification: Verification | None = None
    moved_at_ms: int | None = None
    moved_by: str = ""
    step_done_ms: int = 0
    stopped_at_ms: int | None = None
    down_s: float | None = None
    first_commit_s: float | None = None
    why_failed: str = ""
    began_ms: int | None = None
    moments: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    ended: list[EndedStep] = field(default_factory=list[EndedStep])

    @property
    def step(self) -> Step | None:
        """What it is at; None past its last one."""
        return self.unit.steps[self.at] if self.at < len(self.unit.steps) else None

    def end(
        self, step: Step, at_ms: int, status: str = "", message: str = "", request: str = ""
    ) -> None:
        """Notes that a step has ended; see `EndedStep`."""
        begin_ms = min(self.began_ms or at_ms, at_ms)
        self.ended.append(EndedStep(step, begin_ms, at_ms, status, message, request))
        self.began_ms = None


def progress_text(progress: Sequence[Progress]) -> str:
    """`2/7, 1 failed`, as bounces tell it."""
    done = sum(one.state is State.DONE for one in progress)
    failed = sum(one.state is State.FAILED for one in progress)
    return f"{done}/{len(progress)}" + (f", {failed} failed" if failed else "")


def subject(one: Progress, step: Step) -> str:
    """Whom a step is about."""
    return (one.standby or NEW) if step.processor == NEW else step.processor


def named(name: str, one: Progress) -> str:
    """The name of a step about the unit's new standby, which an earlier attempt had another of."""
    return f"{name}/{one.attempt}" if one.attempt else name


def any_of(waits: Sequence[Wait]) -> Wait:
    """One wait for whichever of them comes first.

    It fits into a run tag, and so does what a sensor sees of it: those that are due last are
    left out if need be. The run that goes on looks at them again.
    """
    left_ms, size = dict[str, int](), 0
    for name, ms in sorted(
        ((name, ms) for wait in waits for name, ms in wait.left_ms.items()),
        key=lambda item: (item[1], item[0]),
    ):
        # In what was seen of it each name stands twice, with a time of up to 13 digits.
        size += 2 * len(name) + 35
        if left_ms and size > MOST_NAME_BYTES:
            break
        left_ms[name] = ms
    steady_s = max(wait.steady_s for wait in waits)
    return Wait(dict(sorted(left_ms.items())), waits[0].limit, steady_s, 0, "")
