"""Leases that go on without the brokers: who proves what, read from decision 0008 in plain sets.

No coordinator acts by it yet, so no history reaches it: outages are drawn here, with
hosts that answer in any order, and a leader that comes next.
"""

from __future__ import annotations

import random

from samza_dagster.placement import leases
from samza_dagster.placement.leases import Round, Witnesses
from samza_dagster.placement.state import Limits
from samza_dagster.simulation.judges.violation import ON_TIME, InvariantViolated

_HOSTS = ("host-1", "host-2", "host-3")
_STEP_MS = 10_000


def judge_renewals(limits: Limits, draw: int) -> None:
    """One outage. Times are few, so that what just counts and what just doesn't both come."""
    lots = random.Random(draw)  # noqa: S311 - an outage is to be repeated, not kept secret
    ours, pending = _draw_witnesses(lots), _draw_witnesses(lots)
    _judge_joined(ours, pending)
    sent_ms = _STEP_MS * lots.randrange(4)
    rounds = [_judge_round(lots, ours, number) for number in range(1, 5)]
    _judge_proven(limits, ours, sent_ms, rounds)
    _judge_next_leader(limits, ours, lots)
    _judge_least(limits)
    _judge_least(Limits(lease_ms=lots.choice((2, 3_000, 30_000)), host_timeout_ms=10_000))


def _draw_witnesses(lots: random.Random) -> Witnesses:
    hosts = frozenset(lots.sample(_HOSTS, lots.choice((0, 1, 2, 2, 3))))
    return Witnesses(hosts, lots.choice((0, 1, _STEP_MS, 3 * _STEP_MS)))


def _judge_joined(ours: Witnesses, pending: Witnesses) -> None:
    """The witnesses of both records are asked, for the shorter outage; none if either has none."""
    if ours.joined(None) != ours:
        raise _wrong(f"with nothing pending {ours.joined(None)} are asked")
    both, asked = ours.hosts | pending.hosts, ours.joined(pending)
    if not ours.hosts or not pending.hosts:
        if asked.hosts:
            raise _wrong(f"{asked} are asked, of {ours} and {pending}")
    elif asked.hosts != both or asked.outage_ms != min(ours.outage_ms, pending.outage_ms):
        raise _wrong(f"{asked} are asked, of {ours} and {pending}")


def _judge_round(lots: random.Random, witnesses: Witnesses, number: int) -> Round:
    """It is complete once everybody who was asked has repeated its number or a later one."""
    began_ms = _STEP_MS * number
    found, heard = Round.of(witnesses, number, began_ms), set[str]()
    words = [(host, number + lots.choice((-1, 0, 0, 0, 1))) for host in (*_HOSTS, *_HOSTS)]
    lots.shuffle(words)
    for host, repeated in words[: lots.choice((2, 6, 6))]:
        _judge_complete(found, began_ms, witnesses, heard)
        found = found.answered(host, repeated)
        if repeated >= number:
            heard.add(host)
    _judge_complete(found, began_ms, witnesses, heard)
    return found


def _judge_complete(found: Round, began_ms: int, witnesses: Witnesses, heard: set[str]) -> None:
    complete = bool(witnesses.hosts) and witnesses.hosts <= heard
    if found.completed_ms() != (began_ms if complete else None):
        raise _wrong(f"{found} of {witnesses} is complete: {complete}; heard {sorted(heard)}")


def _judge_proven(limits: Limits, witnesses: Witnesses, sent_ms: int, rounds: list[Round]) -> None:
    """A commit proves its sending, a complete round its beginning, within the outage on record."""
    expected = sent_ms
    for found in rounds:
        in_time = found.began_ms - sent_ms <= witnesses.outage_ms
        if witnesses.hosts and found.asked and not found.missing and in_time:
            expected = max(expected, found.began_ms)
    told = leases.proven_ms(witnesses, sent_ms, rounds)
    if told != expected:
        raise _wrong(f"it led at {expected}, told {told}: {rounds}, {witnesses}, {sent_ms}")
    for now_ms in (told - 1, told, told + 1, told + limits.lease_ms - 1, told + limits.lease_ms):
        granted = leases.grant_ms(limits, now_ms, told)
        ends_ms = (
            max(now_ms, told + limits.lease_ms) if now_ms >= told else now_ms + limits.lease_ms
        )
        if now_ms + granted != ends_ms:
            raise _wrong(f"{granted} ms are granted at {now_ms}, proven is {told}")


def _judge_next_leader(limits: Limits, read: Witnesses, lots: random.Random) -> None:
    """It counts from the first witness that follows it: not before it took over, nor for longer
    than the outage on record; and where nobody was to be asked, from its take-over."""
    took_over_ms = _STEP_MS * lots.randrange(2, 5)
    at = {host: _STEP_MS * lots.randrange(9) for host in _HOSTS if lots.random() < 0.7}
    expected = took_over_ms
    if read.hosts and read.outage_ms > 0:
        first = [ms for host, ms in at.items() if host in read.hosts]
        expected = took_over_ms + read.outage_ms
        for ms in first:
            expected = min(expected, max(ms, took_over_ms))
    expected += limits.lease_ms + limits.lease_bound_ms
    told = leases.earlier_are_over_ms(limits, read, took_over_ms, at)
    if told != expected:
        raise _wrong(f"earlier leases are over at {expected}, told {told}: {read}, {at}")


def _judge_least(limits: Limits) -> None:
    """What is left of a lease when a beat (a third) and a word (a quarter) were due."""
    beat = limits.lease_ms // 3 or 1
    word = (
        limits.lease_ms if limits.lease_ms < limits.host_timeout_ms else limits.host_timeout_ms
    ) // 4
    if leases.beat_every_ms(limits) != beat:
        raise _wrong(f"a beat every {leases.beat_every_ms(limits)} ms of {limits.lease_ms}")
    left = limits.lease_ms - beat - word
    if leases.shortest_left_ms(limits) != (left if left > 0 else 0):
        raise _wrong(f"{leases.shortest_left_ms(limits)} ms are left, by count {left}")


def _wrong(what: str) -> InvariantViolated:
    return InvariantViolated(ON_TIME, what)
