"""`auto_failover`'s judgement from look to look: observations in, decisions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from samza_dagster.client import LeaderView
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.failover import Decision, Judgement, judge
from samza_dagster.orchestration.watch.observation import ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import AutoFailover, Mode

BEGIN = 1_700_000_000_000


def leader_seen(beat_ms: int, every_ms: int = 5_000, *, ended: bool = False) -> LeaderView:
    """A leader by its last sign of life, of one that is due every so often."""
    return LeaderView(4, "h1", "", None, beat_ms, ended, beat_every_ms=every_ms)


def container(ident: str, host: str | None, **more: Any) -> ContainerSeen:
    """One that runs; the id tells whose standby it is: `0-0` is one of `0`."""
    active, _, replica = ident.partition("-")
    known = {"state": "running", "incarnation": f"{ident}#1", "of": active if replica else ""}
    return ContainerSeen(ident, not replica, host=host, **{**known, **more})


class Watching:
    """The sensor without its job: each look by what the cursor of the one before kept."""

    def __init__(self, mode: Mode | None = "act", *, cap: int = 3, **thresholds: Any) -> None:
        self.settings = AutoFailover(mode=mode, cap_per_hour=cap, **thresholds)
        self.cursor = FailoverCursor("demo/1")
        self.now = BEGIN
        self.judged = Judgement(self.cursor)

    def decide(self, observation: Observation) -> tuple[Decision, ...]:
        """What is new at a look now."""
        kept = FailoverCursor.read(self.cursor.to_text(), "demo/1")
        assert kept == self.cursor
        self.judged = judge(kept.at(self.now), observation, self.settings, self.now)
        self.cursor = self.judged.cursor
        return self.judged.advice

    def acknowledge(self, group: str) -> None:
        """Somebody has looked at it, after all that was done."""
        acts = {k: replace(act, number=act.number or 1) for k, act in self.cursor.acts.items()}
        newest = 1 + max(
            [a.number for a in acts.values()] + [*self.cursor.acknowledged.values(), 1]
        )
        acknowledged = {**self.cursor.acknowledged, group: newest}
        self.cursor = replace(self.cursor, acts=acts, acknowledged=acknowledged)


def told(decisions: Sequence[Decision]) -> list[tuple[str, str, str]]:
    """Signal, subject and verdict of each."""
    return [(d.suspect.kind, d.suspect.subject, d.verdict.value) for d in decisions]


class Fleet(Watching):
    """As many actives on h0, h1, … of eight hosts, each standby on the next host of theirs."""

    def __init__(self, actives: int = 8, cap: int = 1_000) -> None:
        super().__init__(cap=cap)
        self.on = {str(n): f"h{n}" for n in range(actives)}
        self.on |= {f"{n}-0": f"h{(n + 1) % actives}" for n in range(actives)}
        self.states = {f"h{n}": "alive" for n in range(8)}
        self.words: dict[str, int] = {}
        self.stuck: set[str] = set()
        self.leader: LeaderView | None = None

    def look(self, times: int = 3) -> list[str]:
        """What was decided: `ask 0`, or the rule that held it."""
        found: tuple[Decision, ...] = ()
        for _ in range(times):
            self.now += 5_000
            found += self.decide(
                Observation(
                    "demo/1",
                    "samza_dagster",
                    tuple(self._seen(*at) for at in self.on.items()),
                    self.states,
                    self.words,
                    leader=self.leader,
                )
            )
        return [f"{d.because.partition(':')[0] or d.verdict} {d.processor}" for d in found]

    def _seen(self, processor: str, host: str) -> ContainerSeen:
        left = 50_000 if processor in self.stuck else 0
        return container(processor, host, reported_ms=self.now, left=left, position=7)

    def lose(self, *hosts: str) -> None:
        """They are lost."""
        self.states = {**self.states, **dict.fromkeys(hosts, "lost")}
