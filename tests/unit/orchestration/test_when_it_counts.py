"""When what looks bad counts, and when it is over: the rule of each sensor, over any history of looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from watching import container

from samza_dagster.orchestration.watch.cursor import BAD_LOOKS, GOOD_LOOKS, FailoverCursor
from samza_dagster.orchestration.watch.failover import judge
from samza_dagster.orchestration.watch.findings import CheckFinding, CheckMemory, Hysteresis, looked
from samza_dagster.orchestration.watch.observation import Observation
from samza_dagster.orchestration.watch.settings import AutoFailover

pytestmark = pytest.mark.unit
BEGIN_MS = 1_700_000_000_000
SUBJECTS = ("h1", "h2")
WITHIN_MS = 30_000
Looks = list[tuple[int, frozenset[str]]]
Reported = tuple[frozenset[str], frozenset[str]]
"""What counts after a look, and what was over by it."""

gaps = st.one_of(st.integers(0, 2_000), st.integers(2_000, 40_000), st.just(-60_000))
histories = st.lists(
    st.tuples(gaps, st.sets(st.sampled_from(SUBJECTS)).map(frozenset)), min_size=1, max_size=40
)


@dataclass
class Rule:
    """The rule in words, of one subject. `within_ms` None: it counts by how long it has been bad in turn."""

    looks: int
    good_looks: int
    for_ms: int = 0
    within_ms: int | None = None
    bad: list[int] = field(default_factory=list[int])
    since_ms: int = 0
    good: int = 0
    on: bool = False

    def look(self, *, bad: bool, now_ms: int) -> bool:
        """Whether it is over by this look."""
        if bad:
            self.since_ms = min(self.since_ms, now_ms) if self.bad else now_ms
            self.bad.append(now_ms)
            self.good = 0
            newest = self.bad[-self.looks :]
            enough = len(newest) == self.looks and now_ms - self.since_ms >= self.for_ms
            near = self.within_ms is None or max(newest) - min(newest) <= self.within_ms
            self.on = self.on or (enough and near)
            return False
        self.good += 1
        forgets_at_once = self.within_ms is None and not self.on
        if not self.bad or not (forgets_at_once or self.good >= self.good_looks):
            return False
        was_on, self.bad, self.good, self.on = self.on, [], 0, False
        return was_on


def by_the_rule(history: Looks, **numbers: Any) -> Iterator[Reported]:
    rules = {subject: Rule(**numbers) for subject in SUBJECTS}
    now_ms = BEGIN_MS
    for gap_ms, bad in history:
        now_ms += gap_ms
        over = {
            subject
            for subject, rule in rules.items()
            if rule.look(bad=subject in bad, now_ms=now_ms)
        }
        yield frozenset(s for s, rule in rules.items() if rule.on), frozenset(over)


SET_BACK: Looks = [(gap_ms, frozenset({"h1"})) for gap_ms in (0, -60_000, 1_000)]


@example(SET_BACK)
@given(histories)
def test_a_suspect_of_auto_failover_counts_after_two_bad_looks_in_turn(looks: Looks) -> None:
    """As a finding does. By a clock that was set back it begins anew."""
    expected = by_the_rule(
        [(max(0, gap_ms), bad) for gap_ms, bad in looks], looks=BAD_LOOKS, good_looks=GOOD_LOOKS
    )
    cursor, now_ms = FailoverCursor("demo/1"), BEGIN_MS
    for (gap_ms, bad), (counts, _) in zip(looks, expected, strict=True):
        now_ms += max(0, gap_ms)
        containers = (
            container(f"{n}", host, reported_ms=now_ms) for n, host in enumerate(SUBJECTS)
        )
        words = {host: 20_000 if host in bad else 0 for host in SUBJECTS}
        alive = dict.fromkeys(SUBJECTS, "alive")
        sight = Observation("demo/1", "samza_dagster", tuple(containers), alive, words)
        cursor = judge(cursor, sight, AutoFailover(), now_ms).cursor
        assert frozenset(s.subject for s in cursor.suspects.values() if s.is_confirmed) == counts


@example(SET_BACK, 2, 2, 0, None)
@given(
    histories,
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0, 5_000, 30_000]),
    st.sampled_from([None, WITHIN_MS]),
)
def test_a_finding_of_a_check_counts_after_bad_looks_in_turn_over_a_time(
    looks: Looks, bad_looks: int, good_looks: int, for_ms: int, within_ms: int | None
) -> None:
    """A good look begins it anew until it counts, but where they lie within a time; then some end it."""
    patience = {"c": Hysteresis(bad_looks, for_ms, good_looks, within_ms)}
    expected = by_the_rule(
        looks,
        looks=bad_looks,
        good_looks=good_looks,
        for_ms=for_ms,
        within_ms=within_ms,
    )
    board, now_ms = CheckMemory("demo/1"), BEGIN_MS
    for (gap_ms, bad), told in zip(looks, expected, strict=True):
        now_ms += gap_ms
        findings = {"c": [CheckFinding(subject, "seen", "fix") for subject in bad]}
        board, (result,) = looked(board, findings, patience, now_ms)
        assert CheckMemory.read(board.to_text(), "demo/1") == board
        counts = frozenset(standing.subject for standing in result.standing)
        assert (counts, frozenset(result.recovered)) == told
