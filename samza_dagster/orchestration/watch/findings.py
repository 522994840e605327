"""Findings that must stand before they are told, and must be gone before they are over. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Applied, HostClock
from samza_dagster.orchestration.versioned import Versioned
from samza_dagster.orchestration.watch.hysteresis import Evidence, Hysteresis, is_another_look

MOST_OF_A_CHECK = 200
NOT_JUDGED = "not judged"
"""The subject of what says that a check can't be judged now."""
NOTE = "NOTE"
"""The severity of what is said beside and fails nothing."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Something that isn't as it should be: about whom, what was seen, what to do."""

    subject: str
    seen: str
    fix: str
    severity: str = "WARN"


Findings = Mapping[str, Sequence[CheckFinding] | Unreachable]
"""By check; in place of those that couldn't be looked for stands why."""
Samples = Mapping[str, tuple[Applied, ...]]
"""`<standby>/<store>/<partition>` → where it stood, oldest first."""


@dataclass(frozen=True, slots=True)
class TrackedFinding(Evidence):
    """A finding and how long it has been there."""

    subject: str
    seen: str
    fix: str
    severity: str


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """What a check was last evaluated as, and when."""

    fingerprint: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class CheckMemory(Versioned):
    """All checks of one sensor: their findings by subject, and what was told of each.

    `clock` is what its times are by (`steady_now`). `clocks` are those of hosts, as of a look that
    began at `clocks_ms`; `samples` how far standbys' store partitions had come, oldest first.
    `registrations` are those of standalone processors (`Agreement`).
    """

    VERSION: ClassVar[int] = 2

    job: str
    looked_ms: int = 0
    checks: Mapping[str, Mapping[str, TrackedFinding]] = field(
        default_factory=dict[str, Mapping[str, TrackedFinding]]
    )
    evaluations: Mapping[str, LastEvaluation] = field(default_factory=dict[str, LastEvaluation])
    clock: str = ""
    clocks: Mapping[str, HostClock] = field(default_factory=dict[str, HostClock])
    clocks_ms: int = 0
    samples: Samples = field(default_factory=dict[str, tuple[Applied, ...]])
    registrations: Mapping[str, str] = field(default_factory=dict[str, str])

    def by_clock(self, clock: str, now_ms: int) -> CheckMemory:
        """The same by this clock, whose time it is now; by another one as if it had looked just now."""
        if clock == self.clock or not self.looked_ms:
            return replace(self, clock=clock)
        later_ms = now_ms - self.looked_ms

        def dated(standing: TrackedFinding) -> TrackedFinding:
            since_ms = standing.since_ms
            return replace(standing, since_ms=since_ms + later_ms if since_ms else 0)

        return replace(
            self,
            looked_ms=now_ms,
            checks={
                check: {subject: dated(one) for subject, one in found.items()}
                for check, found in self.checks.items()
            },
            evaluations={
                c: replace(t, at_ms=t.at_ms + later_ms) for c, t in self.evaluations.items()
            },
            clock=clock,
        )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check at one look. `recovered` are subjects that counted until now."""

    check: str
    standing: tuple[TrackedFinding, ...]
    recovered: tuple[str, ...]
    left_out: int

    @property
    def passed(self) -> bool:
        """Nothing counts against it."""
        return not self.failing

    @property
    def failing(self) -> tuple[TrackedFinding, ...]:
        """What counts against it."""
        return tuple(s for s in self.standing if s.severity != NOTE)

    @property
    def notes(self) -> tuple[TrackedFinding, ...]:
        """What is said beside."""
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
) -> tuple[CheckMemory, tuple[CheckResult, ...]]:
    """Takes one look into account; each check of `patience` gets a result.

    One that can't be judged at this look keeps what it had, and that it can't is a finding of it.
    """
    counts = is_another_look(memory.looked_ms, now_ms)
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
            now = replace(old, seen=finding.seen, fix=finding.fix, severity=finding.severity)
            after[subject] = rule.after_bad(now, now_ms, counts=counts)
        for subject, old in before.items():
            if subject in found or subject in after:
                continue
            good = rule.after_good(old, counts=counts)
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
    looked_ms = now_ms if counts else memory.looked_ms
    return replace(memory, looked_ms=looked_ms, checks=checks), tuple(results)


def is_due(memory: CheckMemory, result: CheckResult, now_ms: int, repeat_ms: int) -> bool:
    """Whether a result is told: when it has changed, and again now and then."""
    last = memory.evaluations.get(result.check)
    return (
        last is None or last.fingerprint != result.fingerprint or now_ms - last.at_ms >= repeat_ms
    )
