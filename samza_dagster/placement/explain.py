"""Why a processor may or may not go somewhere: per host the rule, what was seen, what would help."""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.model import naming
from samza_dagster.placement import rules
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import Group, JobState

PROCESSOR_KNOWN = "processor-known"
DESTINATION_KNOWN = "destination-known"


@dataclass(frozen=True)
class Candidate:
    """One host as a destination. `rule`, `seen` and `change` are empty when it is legal."""

    host: str
    legal: bool
    rule: str = ""
    seen: str = ""
    change: str = ""

    def __str__(self) -> str:
        return f"{self.host}: legal" if self.legal else f"{self.rule}: {self.seen}; {self.change}"


@dataclass(frozen=True)
class Explanation:
    """Whether any candidate is legal now, and each candidate's reason.

    A legal destination can still fail: whether a host has room only the cluster knows.
    """

    processor_id: str
    destination: str
    legal: bool
    candidates: tuple[Candidate, ...] = ()

    def __str__(self) -> str:
        told = [c for c in self.candidates if not c.legal] or self.candidates
        return " | ".join(str(candidate) for candidate in told)


def explain(state: JobState, processor_id: str, destination: str) -> Explanation:
    """What the heart would say of this destination now. Reads only."""
    group = group_with(state, processor_id)
    if group is None:
        return _refused(processor_id, destination, _unknown_processor(state, processor_id))
    unknown = unknown_destination(state, destination)
    if unknown is not None:
        return _refused(processor_id, destination, unknown)
    candidates = tuple(
        _candidate(host, _violation(state, group, processor_id, destination, host))
        for host in _candidate_hosts(state, group, processor_id, destination)
    )
    legal = any(candidate.legal for candidate in candidates)
    return Explanation(processor_id, destination, legal, candidates)


def group_with(state: JobState, processor_id: str) -> Group | None:
    """The group that has this processor, wanted running."""
    for group in state.groups.values():
        processor = group.processors.get(processor_id)
        if processor is not None and processor.wanted:
            return group
    return None


def unknown_destination(state: JobState, destination: str) -> Violation | None:
    """A destination that is no known host and no word that is understood."""
    if destination == naming.STANDBY:
        return Violation(
            DESTINATION_KNOWN,
            destination,
            "destination STANDBY isn't built yet",
            "name the host, or use ANY_HOST, LAST_SEEN or FORCE_RESTART_LAST_SEEN",
        )
    if destination in naming.DESTINATION_WORDS or destination in state.hosts:
        return None
    known = ", ".join(sorted(state.hosts)) or "none has registered"
    return Violation(
        DESTINATION_KNOWN,
        destination,
        f"unknown destination host {destination}; known hosts: {known}",
        "name one of them, or use ANY_HOST, LAST_SEEN or FORCE_RESTART_LAST_SEEN",
    )


def _unknown_processor(state: JobState, processor_id: str) -> Violation:
    known = ", ".join(
        pid for group in state.groups.values() for pid, p in group.processors.items() if p.wanted
    )
    return Violation(
        PROCESSOR_KNOWN,
        "",
        f"no processor {processor_id} in this job",
        f"name one of {known}" if known else "deploy the job first",
    )


def _candidate_hosts(
    state: JobState, group: Group, processor_id: str, destination: str
) -> tuple[str, ...]:
    if destination == naming.ANY_HOST:
        return tuple(sorted(state.hosts))
    if destination not in naming.DESTINATION_WORDS:
        return (destination,)
    processor = group.processors[processor_id]
    if processor.incarnation is not None:
        return (processor.incarnation.host,)
    return () if processor.last_seen_host is None else (processor.last_seen_host,)


def _violation(
    state: JobState, group: Group, processor_id: str, destination: str, host: str
) -> Violation | None:
    broken = rules.violation(group, state.hosts, processor_id, host)
    if broken is not None or destination != naming.ANY_HOST:
        return broken
    incarnation = group.processors[processor_id].incarnation
    if incarnation is None or incarnation.host != host:
        return None
    return Violation(
        rules.ANOTHER_HOST,
        host,
        f"{processor_id} is on {host} already, and ANY_HOST means another host",
        "use LAST_SEEN to restart it where it is",
    )


def _candidate(host: str, broken: Violation | None) -> Candidate:
    if broken is None:
        return Candidate(host, legal=True)
    return Candidate(host, legal=False, rule=broken.rule, seen=broken.seen, change=broken.change)


def _refused(processor_id: str, destination: str, broken: Violation) -> Explanation:
    return Explanation(processor_id, destination, False, (_candidate(broken.host, broken),))
