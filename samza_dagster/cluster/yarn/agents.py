"""Which node gets an agent container, and which agent container is replaced. Pure; times are in seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

FIRST_WORD_S = 20.0
"""An agent container that was started and isn't heard for so long is replaced."""
ADOPTED_WORD_S = 3.0
"""The same of one that an earlier leader started: it may know that leader's address alone."""
_LONGEST_PAUSE_S = 60.0
_LASTING_S = 30.0


@dataclass(frozen=True)
class AgentContainer:
    """What the coordinator does about the agent of one node.

    `asked` at YARN, then `container` with its id, `since` when. `failures` in a row: each doubles the
    pause until `again_at`. `why` the last one ended; `dead`: its NodeManager saw that, and didn't
    only lose sight of it.
    """

    asked: bool = False
    container: str = ""
    since: float = 0.0
    patience_s: float = FIRST_WORD_S
    stopping: bool = False
    failures: int = 0
    again_at: float = 0.0
    why: str = ""
    dead: bool = False

    def ended(self, now: float, why: str, *, dead: bool = True) -> AgentContainer:
        """Its container is gone, or none could be started."""
        lasted = bool(self.container) and now - self.since > _LASTING_S
        failures = 0 if lasted or self.stopping else self.failures + 1
        pause = min(_LONGEST_PAUSE_S, 2.0 ** (failures - 1)) if failures else 0.0
        return AgentContainer(failures=failures, again_at=now + pause, why=why, dead=dead)

    def runs(self, container: str, now: float, patience_s: float = FIRST_WORD_S) -> AgentContainer:
        """YARN gave it a container."""
        return replace(
            self, asked=False, container=container, since=now, patience_s=patience_s, dead=False
        )


@dataclass(frozen=True)
class AskForAgent:
    """Ask YARN for an agent container on `host`."""

    host: str


@dataclass(frozen=True)
class StopAgent:
    """End the agent container of `host`: its agent isn't heard."""

    host: str


def steps(
    usable: Iterable[str],
    agents: Mapping[str, AgentContainer],
    calling: Collection[str],
    now: float,
) -> list[AskForAgent | StopAgent]:
    """What is to be done now. `calling` are the hosts whose agents are heard (`LocalCluster.calling`).

    A node whose agent calls gets no other one because YARN has lost sight of its container: a
    NodeManager that was started anew doesn't know what runs beside it.
    """
    todo: list[AskForAgent | StopAgent] = []
    for host in usable:
        agent = agents.get(host, AgentContainer())
        if host in calling and not agent.dead:
            continue
        if agent.container:
            if now - agent.since > agent.patience_s and not agent.stopping:
                todo.append(StopAgent(host))
        elif not agent.asked and agent.again_at <= now:
            todo.append(AskForAgent(host))
    return todo


def next_due(agents: Mapping[str, AgentContainer], now: float) -> float | None:
    """When `steps` may find something without an event; None when only an event can change it."""
    due = [
        a.since + a.patience_s if a.container else a.again_at
        for a in agents.values()
        if not a.asked and not a.stopping
    ]
    later = [at for at in due if at > now]
    return min(later, default=None)
