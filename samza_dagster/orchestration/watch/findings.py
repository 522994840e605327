"""Findings of checks: what counts, from when on, and until when. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Applied, HostClock
from samza_dagster.orchestration.versioned import Versioned

MOST_OF_A_CHECK = 200
REPEAT_MS = 3_600_000
"""A check is told again after it, unchanged."""
NOT_JUDGED = "not judged"
"""The subject of what says that a check can't be judged now."""
NOTE = "NOTE"
"""The severity of what is said beside and fails nothing."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A deviation: the container, host or group it is about, what was seen, and what to do."""

    subject: str
    seen: str
    fix: str
    severity: str = "WARN"


Findings = Mapping[str, Sequence[CheckFinding] | Unreachable]
"""By check; in place of those that couldn't be looked for stands why."""
Samples = Mapping[str, tuple[Applied, ...]]
"""`<standby>/<store>/<partition>` → where it stood, oldest first."""


@dataclass(frozen=True, slots=True)
class TrackedFinding:
    """A finding that has been there since `since_ms`; `confirmed`: it counts."""

    subject: str
    seen: str
    fix: str
    severity: str
    since_ms: int
    bad: int = 0
    """Bad looks."""
    bad_ms: tuple[int, ...] = ()
    """The times of the newest, where the rule asks for them."""
    good: int = 0
    """Good looks since."""
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """A finding counts after `looks` bad looks over `for_ms`, and is over after `good_looks` in turn.

    With `within_ms` the newest bad looks count where they lie within it, and a good one among them
    clears none. Without (None) they are bad looks in turn: a good one begins it anew until it counts.
    """

    looks: int = 2
    for_ms: int = 0
    good_looks: int = 2
    within_ms: int | None = None

    def after_bad(
        self, one: TrackedFinding, now_ms: int, *, at_once: bool = False
    ) -> TrackedFinding:
        """Return the finding after one more bad look; `at_once`: it counts now."""
        bad = min(one.bad + 1, self.looks)
        bad_ms = () if self.within_ms is None else (*one.bad_ms, now_ms)[-self.looks :]
        enough = bad >= self.looks and now_ms - one.since_ms >= self.for_ms
        if self.within_ms is not None and enough:
            # By the first and the last of the times: the clock may have been set back between two.
            enough = max(bad_ms) - min(bad_ms) <= self.within_ms
        return replace(
            one, bad=bad, bad_ms=bad_ms, good=0, confirmed=one.confirmed or enough or at_once
        )

    def is_over(self, one: TrackedFinding) -> bool:
        """Return whether enough good looks have ended it, or any did before it counted."""
        begins_anew = self.within_ms is None and not one.confirmed
        return begins_anew or one.good >= self.good_looks


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """A check's newest evaluation, and when it was."""

    fingerprint: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class CheckMemory(Versioned):
    """All checks of one sensor: their findings by subject, and what was told of each."""

    VERSION: ClassVar[int] = 4

    job: str
    looked_ms: int = 0
    checks: Mapping[str, Mapping[str, TrackedFinding]] = field(
        default_factory=dict[str, Mapping[str, TrackedFinding]]
    )
    evaluations: Mapping[str, LastEvaluation] = field(default_factory=dict[str, LastEvaluation])
    clocks: Mapping[str, HostClock] = field(default_factory=dict[str, HostClock])
    """The hosts' clocks, as of a look that began at `clocks_ms`."""
    clocks_ms: int = 0
    samples: Samples = field(default_factory=dict[str, tuple[Applied, ...]])
    """How far standbys' store partitions had come, oldest first."""
    registrations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those of standalone processors (`Agreement`)."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check at one look. `recovered` are subjects that counted until now."""

    check: str
    standing: tuple[TrackedFinding, ...]
    recovered: tuple[str, ...]
    left_out: int

    @property
    def passed(self) -> bool:
        """Return whether nothing counts against it."""
        return not self.failing

    @property
    def failing(self) -> tuple[TrackedFinding, ...]:
        """Findings that count against it."""
        return tuple(s for s in self.standing if s.severity != NOTE)

    @property
    def notes(self) -> tuple[TrackedFinding, ...]:
        """Findings that are only mentioned."""
        return tuple(s for s in self.standing if s.severity == NOTE)

    @property
    def fingerprint(self) -> str:
        """The same as long as the same counts; what has no subject is of this look alone."""
        counted = json.dumps(sorted((s.subject, s.severity) for s in self.standing if s.subject))
        return hashlib.sha256(counted.encode()).hexdigest()[:16]


def looked(
    memory: CheckMemory,
    findings: Findings,
    patience: Mapping[str, Hysteresis],
    now_ms: int,
    failed: Collection[str] = (),
) -> tuple[CheckMemory, tuple[CheckResult, ...]]:
    """Take one look into account; each check of `patience` gets a result.

    One that can't be judged at this look keeps what it had, and that it can't is a finding of it. What
    is found of the checks that have `failed` until now counts at once: it was told before.
    """
    checks: dict[str, Mapping[str, TrackedFinding]] = {}
    results: list[CheckResult] = []
    for check, rule in patience.items():
        before = memory.checks.get(check, {})
        seen = findings.get(check, ())
        after: dict[str, TrackedFinding] = {}
        recovered: list[str] = []
        if isinstance(seen, Unreachable):
            after = {subject: old for subject, old in before.items() if subject != NOT_JUDGED}
            seen = (CheckFinding(NOT_JUDGED, f"{seen.asked}: {seen.seen}", seen.fix),)
        found = {f.subject: f for f in seen}
        for subject, finding in found.items():
            old = before.get(subject) or TrackedFinding(subject, "", "", "", since_ms=now_ms)
            since_ms = min(old.since_ms, now_ms)  # the clock may have been set back
            now = replace(
                old,
                seen=finding.seen,
                fix=finding.fix,
                severity=finding.severity,
                since_ms=since_ms,
            )
            after[subject] = rule.after_bad(now, now_ms, at_once=check in failed)
        for subject, old in before.items():
            if subject in found or subject in after:
                continue
            good = replace(old, good=old.good + 1)
            if not rule.is_over(good):
                after[subject] = good
            elif good.confirmed:
                recovered.append(subject)
        # Those that count come first, the longest known: what is left out is news of a flood.
        kept = sorted(after.values(), key=lambda s: (not s.confirmed, s.since_ms, s.subject))
        checks[check] = {s.subject: s for s in kept[:MOST_OF_A_CHECK]}
        standing = tuple(s for s in kept[:MOST_OF_A_CHECK] if s.confirmed)
        left_out = max(0, len(kept) - MOST_OF_A_CHECK)
        results.append(CheckResult(check, standing, tuple(recovered), left_out))
    return replace(memory, looked_ms=now_ms, checks=checks), tuple(results)


def is_due(result: CheckResult, last: LastEvaluation | None, now_ms: int) -> bool:
    """Return whether a result is told: when it has changed, and again now and then."""
    if last is None or last.fingerprint != result.fingerprint:
        return True
    return not 0 <= now_ms - last.at_ms < REPEAT_MS
