"""`auto_failover` over hosts whose clocks differ: what it decides is what it decides without."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import BEGIN, Watching, container, leader_seen

from samza_dagster.orchestration.watch.observation import Observation

pytestmark = pytest.mark.unit
REPORT_EVERY_MS = 5_000
PLACES = {"0": "h0", "1": "h1", "2": "h2", "0-0": "h1", "1-0": "h2", "2-0": "h0"}


class Skewed(Watching):
    """Three actives with a standby each, that report every 5 s by the clock of their host.

    `skew_ms`: host → how far its clock is ahead; the leader runs on h0. `ends_ms`: container → when
    it reports for the last time, in ms since the begin.
    """

    def __init__(self, skew_ms: dict[str, int], ends_ms: dict[str, int] | None = None) -> None:
        self.skew_ms, self.ends_ms = skew_ms, ends_ms or {}
        super().__init__()
        self.told: list[str] = []

    def watch(self, for_ms: int, every_ms: int = 5_000) -> list[str]:
        """What was decided, with the second at which it was."""
        for since_ms in range(0, for_ms, every_ms):
            self.now = BEGIN + since_ms
            self.told += [
                f"{since_ms // 1000} {d.suspect.kind} {d.processor}"
                for d in self.decide(self.sight(since_ms))
            ]
        return self.told

    def sight(self, since_ms: int) -> Observation:
        def reported_ms(ident: str, host: str) -> int:
            last_ms = min(since_ms, self.ends_ms.get(ident, since_ms))
            ahead_ms = self.skew_ms.get(host, 0)
            return BEGIN + ahead_ms + last_ms // REPORT_EVERY_MS * REPORT_EVERY_MS

        containers = tuple(container(*at, reported_ms=reported_ms(*at)) for at in PLACES.items())
        beat_ms = BEGIN + since_ms // 10_000 * 10_000 + self.skew_ms.get("h0", 0)
        return Observation(
            "demo/1",
            "samza_dagster",
            containers,
            dict.fromkeys(("h0", "h1", "h2"), "alive"),
            leader=leader_seen(beat_ms, 10_000),
        )


@pytest.mark.parametrize("skew_ms", [-100_000, 100_000, -86_400_000, 86_400_000])
@pytest.mark.parametrize("host", ["h0", "h1", "h2"])
def test_containers_that_report_are_never_silent_whatever_their_hosts_clock_says(
    host: str, skew_ms: int
) -> None:
    """Slow by 100 s its own would be restarted, fast by 100 s those of all others."""
    assert Skewed({host: skew_ms}).watch(300_000) == []


@pytest.mark.parametrize("skew_ms", [-100_000, 0, 100_000])
def test_one_that_falls_silent_is_seen_after_the_same_time_on_any_host(skew_ms: int) -> None:
    """90 s without a report, and two bad looks."""
    watched = Skewed({"h1": skew_ms}, {"1": 60_000})
    assert watched.watch(200_000) == ["155 silent 1"]


def test_a_clock_that_is_set_back_on_a_host_is_no_silence_there() -> None:
    """Each report differs from the one before."""
    watched = Skewed({})
    watched.watch(60_000)
    watched.skew_ms = {"h1": -3_600_000}
    assert watched.watch(200_000) == []


def test_a_source_that_is_seen_for_the_first_time_has_just_been_heard() -> None:
    """Its last report may be as old as it likes: with a fresh cursor that isn't known."""
    watched = Skewed({}, {"1": 0})
    assert watched.watch(90_000) == []
    assert watched.watch(115_000) == ["95 silent 1"]


@settings(max_examples=40)
@given(
    skews=st.tuples(*[st.integers(-(10**9), 10**9)] * 3),
    ends=st.dictionaries(st.sampled_from(sorted(PLACES)), st.integers(0, 200_000), max_size=4),
)
def test_decisions_are_the_same_under_any_skew_of_each_host(
    skews: tuple[int, int, int], ends: dict[str, int]
) -> None:
    """Whoever reports, and whoever stops to."""
    skewed = Skewed(dict(zip(("h0", "h1", "h2"), skews, strict=True)), ends)
    assert skewed.watch(320_000) == Skewed({}, ends).watch(320_000)


class LeaderDead(Skewed):
    """Its leader's last sign of life was before the first look."""

    def sight(self, since_ms: int) -> Observation:
        return replace(super().sight(since_ms), leader=super().sight(0).leader)


@pytest.mark.parametrize("skew_ms", [-86_400_000, 0, 86_400_000])
def test_a_leader_that_was_dead_before_a_fresh_cursor_counts_as_alive_for_three_beats(
    skew_ms: int,
) -> None:
    """How old its last sign of life is only its own host's clock tells, here a day ahead or behind."""
    watched = LeaderDead({"h0": skew_ms})
    assert watched.watch(30_000) == []
    assert [line.split()[1] for line in watched.watch(60_000)] == ["coordinator-gone"]
