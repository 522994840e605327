"""Renewing leases while the brokers are away: what witnesses prove, and that it suffices.

The judge is a small model of two leaders, of which the older may be cut off from the
brokers and doesn't know of the newer, and of agents whose words are delayed, lost and
overtaken. Clocks run alike here: the bound of a lease is for those that don't.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from samza_dagster.placement.leases import (
    Round,
    Witnesses,
    earlier_are_over_ms,
    grant_ms,
    proven_ms,
    shortest_left_ms,
)
from samza_dagster.placement.state import Limits

pytestmark = pytest.mark.unit

LIMITS = Limits(lease_ms=100, lease_bound_ms=0)
HOSTS = ("a", "b", "c")
BOTH = Witnesses(frozenset({"a", "b"}), 300)
WALKS, STEPS = 1_500, 90


@dataclass
class Agent:
    """Keeps the highest epoch on disk; `lease_ends` of what the older leader granted."""

    epoch: int = 1
    number: int = 0
    lease_ends: int = 0


@dataclass
class Cluster:
    """Leader 1, cut off or not, and leader 2, which takes over at `took_over`."""

    lots: random.Random
    bug: str = ""
    now: int = 0
    agents: dict[str, Agent] = field(default_factory=lambda: {host: Agent() for host in HOSTS})
    # Leader 1
    witnesses: Witnesses = BOTH
    committed: int = 0
    pending: tuple[Witnesses, int] | None = None
    rounds: list[Round] = field(default_factory=list)
    words: list[tuple[str, int, int]] = field(default_factory=list)
    replies: list[tuple[str, int, int, int]] = field(default_factory=list)
    # The state topic, and leader 2
    stored: Witnesses = BOTH
    took_over: int | None = None
    read: Witnesses = BOTH
    words_2: list[tuple[str, int]] = field(default_factory=list)
    registered: dict[str, int] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        (act,) = self.lots.choices(
            (
                self.pass_time,
                self.send_commit,
                self.apply,
                self.begin_round,
                self.exchange,
                self.speak,
                self.hear,
                self.take_reply,
                self.take_over,
                self.speak_to_2,
                self.hear_2,
            ),
            (4, 1, 2, 3, 12, 2, 1, 1, 1, 1, 1),
        )
        act()
        self.judge()

    def judge(self) -> None:
        """Whoever led before, no lease of it lasts when the next leader counts them as over."""
        if self.took_over is None:
            return
        registered = {} if self.bug == "counts from the take-over" else self.registered
        read = Witnesses() if self.bug == "counts from the take-over" else self.read
        over = earlier_are_over_ms(LIMITS, read, self.took_over, registered)
        if self.now >= over:
            self.seen["over"] += 1
            assert all(agent.lease_ends <= over for agent in self.agents.values())

    def pass_time(self) -> None:
        self.now += self.lots.choice((1, 10, 40, 90))

    # What leader 1 does

    def send_commit(self) -> None:
        """Its record, now and then with other witnesses; the outcome may not be told."""
        if self.pending is None:
            hosts = frozenset(self.lots.sample(HOSTS, self.lots.choice((0, 1, 1, 2, 2, 3))))
            self.pending = (Witnesses(hosts, self.lots.choice((150, 300))), self.now)

    def apply(self) -> None:
        """The brokers commit what was sent, unless another leads; it is told, or not yet."""
        if self.pending is not None and self.took_over is None:
            self.stored = self.pending[0]
            if self.lots.random() < 0.4:
                self.witnesses, self.committed = self.pending
                self.pending = None

    def asks(self) -> Witnesses:
        pending = None if self.bug == "asks only those on record" else self.pending
        asked = self.witnesses.joined(None if pending is None else pending[0])
        return replace(asked, outage_ms=10**6) if self.bug == "goes on for ever" else asked

    def begin_round(self) -> None:
        number = len(self.rounds) + 1
        witnesses = self.asks()
        if self.bug == "asks one" and witnesses.hosts:
            witnesses = replace(witnesses, hosts=frozenset({min(witnesses.hosts)}))
        self.rounds.append(Round.of(witnesses, number, self.now))

    def hear(self, place: int | None = None) -> None:
        """A word of an agent arrives, in any order; the reply grants what may be granted."""
        if not self.words:
            return
        place = self.lots.randrange(len(self.words)) if place is None else place
        host, asked, number = self.words.pop(place)
        latest = len(self.rounds)
        if self.bug == "counts any word":
            number = latest
        for index, found in enumerate(self.rounds):
            after = found.answered(host, number)
            if self.bug == "counts from the answers" and found.missing and not after.missing:
                after = replace(after, began_ms=self.now)
            self.rounds[index] = after
        proven = proven_ms(self.asks(), self.committed, self.rounds)
        if proven > self.committed:
            self.seen["proven by a round"] += 1
        granted = grant_ms(LIMITS, self.now, proven)
        if self.lots.random() < 0.9:
            self.replies.append((host, asked, granted, latest))

    # What agents do

    def speak(self) -> None:
        host = self.lots.choice(HOSTS)
        agent = self.agents[host]
        if agent.epoch == 1:
            self.words.append((host, self.now, agent.number))

    def exchange(self) -> None:
        """A word and its reply, with nothing in between."""
        self.speak()
        if self.words:
            self.hear(-1)
        if self.replies:
            self.take_reply(-1)

    def take_reply(self, place: int | None = None) -> None:
        if not self.replies:
            return
        place = self.lots.randrange(len(self.replies)) if place is None else place
        host, asked, granted, number = self.replies.pop(place)
        agent = self.agents[host]
        if agent.epoch == 1:
            agent.number = max(agent.number, number)
            if granted > 0:
                agent.lease_ends = max(agent.lease_ends, asked + granted)
            if granted > 0 and asked + granted > self.committed + LIMITS.lease_ms:
                self.seen["renewed"] += 1

    # Leader 2

    def take_over(self) -> None:
        if self.took_over is None:
            self.took_over, self.read = self.now, self.stored

    def speak_to_2(self) -> None:
        """It hears of the epoch first, keeps it, and registers by its next word."""
        if self.took_over is not None:
            host = self.lots.choice(HOSTS)
            self.agents[host].epoch = 2
            self.words_2.append((host, self.now))

    def hear_2(self) -> None:
        if self.words_2:
            host, _ = self.words_2.pop(self.lots.randrange(len(self.words_2)))
            self.registered.setdefault(host, self.now)


def walk(bug: str = "") -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(WALKS):
        cluster = Cluster(random.Random(seed), bug)
        for _ in range(STEPS):
            cluster.step()
        seen += cluster.seen
    return seen


def test_no_lease_of_an_earlier_leader_lasts_when_the_next_one_counts_them_as_over() -> None:
    """Also those that were renewed by witnesses alone, after the next one had taken over."""
    seen = walk()
    assert min(seen["renewed"], seen["over"], seen["proven by a round"]) > 100


@pytest.mark.parametrize(
    "bug",
    [
        "counts any word",
        "counts from the answers",
        "asks one",
        "asks only those on record",
        "goes on for ever",
        "counts from the take-over",
    ],
)
def test_each_part_of_the_rule_is_needed(bug: str) -> None:
    """The same walks find what goes wrong without it."""
    with pytest.raises(AssertionError):
        walk(bug)


def test_a_round_is_complete_when_every_witness_has_repeated_its_number() -> None:
    """Or a later one. Strangers, earlier numbers and repetitions count for nothing."""
    began = Round.of(BOTH, 7, 1_000)
    half = began.answered("a", 7).answered("a", 7).answered("c", 7).answered("b", 6)
    assert (half.missing, half.completed_ms()) == ({"b"}, None)
    assert half.answered("b", 7).completed_ms() == 1_000
    assert half.answered("b", 8).completed_ms() == 1_000


def test_a_round_proves_nothing_without_witnesses_or_after_the_recorded_outage() -> None:
    """Then only a commit does."""
    empty = Round.of(Witnesses(), 1, 50)
    assert proven_ms(BOTH, 10, [empty]) == 10
    full = replace(Round.of(BOTH, 1, 50), missing=frozenset())
    assert proven_ms(Witnesses(outage_ms=300), 10, [full]) == 10
    done = [replace(Round.of(BOTH, 1, at), missing=frozenset()) for at in (200, 310, 311)]
    assert proven_ms(BOTH, 10, done) == 310


def test_the_next_leader_counts_from_the_first_witness_that_follows_it() -> None:
    """From its take-over at the earliest, and from the end of the outage at the latest."""
    assert earlier_are_over_ms(LIMITS, Witnesses(), 1_000, {}) == 1_100
    assert earlier_are_over_ms(LIMITS, BOTH, 1_000, {}) == 1_400
    assert earlier_are_over_ms(LIMITS, BOTH, 1_000, {"c": 1_010}) == 1_400
    assert earlier_are_over_ms(LIMITS, BOTH, 1_000, {"a": 1_200, "b": 1_050, "c": 1_010}) == 1_150
    assert earlier_are_over_ms(LIMITS, BOTH, 1_000, {"a": 5_000}) == 1_400


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (Limits(lease_ms=120_000, host_timeout_ms=30_000), 72_500),
        (Limits(lease_ms=30_000, host_timeout_ms=30_000), 12_500),
        (Limits(lease_ms=12_000, host_timeout_ms=60_000), 5_000),
    ],
)
def test_the_longest_absence_that_ends_no_container(limits: Limits, left: int) -> None:
    """The lease without the beat that may be due and an agent's word that may be due."""
    assert shortest_left_ms(limits) == left
