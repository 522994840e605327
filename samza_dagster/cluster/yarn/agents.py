"""When a node gets an agent container, and when that is replaced. Pure; times are in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from samza_dagster.cluster.yarn.application import YarnContainer

FIRST_WORD_S = 20.0
"""An agent container that was started and isn't heard for so long is replaced."""
ADOPTED_WORD_S = 3.0
"""The same of one that an earlier leader started: it may know that leader's address alone."""
_LONGEST_PAUSE_S = 60.0
_LASTING_S = 30.0


class Due(Enum):
    """The next step for the agent of a node."""

    NOTHING = auto()
    ASK = auto()
    """Ask YARN for its container."""
    STOP = auto()
    """End its container: it isn't heard."""


@dataclass
class NodeAgent:
    """The agent of one node.

    YARN gave it `container` `since` then. `failures` in a row: each doubles the pause until
    `again_at`, which is infinite while one is asked for. `why` the last one ended; `dead`: its
    NodeManager saw that, and didn't only lose sight of it.
    """

    container: YarnContainer | None = None
    since: float = 0.0
    patience_s: float = FIRST_WORD_S
    failures: int = 0
    again_at: float = 0.0
    why: str = ""
    dead: bool = False

    def runs(self, container: YarnContainer, now: float, patience_s: float = FIRST_WORD_S) -> None:
        """Note the container that YARN gave this agent."""
        self.container, self.since, self.patience_s, self.dead = container, now, patience_s, False

    def ended(self, now: float, why: str, *, dead: bool = True) -> None:
        """Note that its container is gone, or couldn't be started."""
        lasted = self.container is not None and now - self.since > _LASTING_S
        self.failures = 0 if lasted else self.failures + 1
        self.again_at = now + min(
            _LONGEST_PAUSE_S, 2.0 ** (self.failures - 1) if self.failures else 0.0
        )
        self.container, self.why, self.dead = None, why, dead

    def next_step(self, now: float, *, calls: bool) -> Due:
        """Return what is due now, once. `calls`: it has registered and is heard.

        One that calls gets no other container because YARN has lost sight of its own: a NodeManager
        that was started anew doesn't know what runs beside it.
        """
        if calls and not self.dead:
            return Due.NOTHING
        if self.container is not None:
            if now - self.since <= self.patience_s:
                return Due.NOTHING
            self.since, self.failures = now, -1  # the end to come is none of its failures
            return Due.STOP
        if self.again_at > now:
            return Due.NOTHING
        self.again_at = math.inf
        return Due.ASK

    def describe(self) -> str:
        """Describe for a person why the agent doesn't call."""
        if self.container is not None:
            return f"started as {self.container.id}, not heard yet"
        if self.again_at == math.inf:
            return "asked of YARN"
        return f"ended: {self.why}" if self.why else "none"
