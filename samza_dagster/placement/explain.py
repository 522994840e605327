"""Why a processor may or may not go to a host: the rule, the observation, the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.model import naming
from samza_dagster.model.own_requests import LONGEST_EXPIRY_MS, RequestKind
from samza_dagster.placement import places, rules, texts
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import (
    Group,
    Host,
    JobState,
    Limits,
    PlacementAsk,
    Processor,
    Role,
)

PROCESSOR_KNOWN = "processor-known"
DESTINATION_KNOWN = "destination-known"
ACTIVE_WITH_STANDBY = "active-with-standby"

_NOT_RESERVED = (naming.STANDBY, naming.FORCE_RESTART_LAST_SEEN)
_A_HOST = "name a host, or use ANY_HOST"
_NOT_FOR_NEW = (naming.STANDBY, naming.LAST_SEEN, naming.FORCE_RESTART_LAST_SEEN)


@dataclass(frozen=True)
class Candidate:
    """A host as a destination; `rule`, `seen` and `change` are empty when it is legal."""

    host: str
    legal: bool
    rule: str = ""
    seen: str = ""
    change: str = ""

    def __str__(self) -> str:
        return f"{self.host}: legal" if self.legal else f"{self.rule}: {self.seen}; {self.change}"


@dataclass(frozen=True)
class Explanation:
    """The candidates for a destination, and whether any is legal now.

    A legal destination can still fail, because only the cluster knows whether a host has room.
    """

    processor_id: str
    destination: str
    legal: bool
    candidates: tuple[Candidate, ...] = ()

    def __str__(self) -> str:
        listed = [c for c in self.candidates if not c.legal] or self.candidates
        return " | ".join(str(candidate) for candidate in listed)


def explain(state: JobState, processor_id: str, destination: str) -> Explanation:
    """Return the reducer's verdict on this destination now, without a change."""
    group = group_with(state, processor_id)
    if group is None:
        return _refused(processor_id, destination, _unknown_processor(state, processor_id))
    unknown = _unknown_destination(state.hosts, destination)
    if unknown is not None:
        return _refused(processor_id, destination, unknown)
    if destination == naming.STANDBY:
        return _of_places(state, group, processor_id)
    candidates = tuple(
        _candidate(host, _violation(state, group, processor_id, destination, host))
        for host in _candidate_hosts(state, group, processor_id, destination)
    )
    legal = any(candidate.legal for candidate in candidates)
    return Explanation(processor_id, destination, legal, candidates)


def group_with(state: JobState, processor_id: str) -> Group | None:
    """Return the group that has this processor as a wanted member; walk, without the index."""
    for group in state.groups.values():
        processor = group.processors.get(processor_id)
        if processor is not None and processor.wanted:
            return group
    return None


def refusal_of_ask(
    hosts: Mapping[str, Host], limits: Limits, group: Group | None, ask: PlacementAsk
) -> str | None:
    """Return why a request can never be accepted as it is; None when it can."""
    processor = None if group is None else group.processors.get(ask.processor_id)
    if group is None or processor is None or not processor.wanted:
        return texts.UNKNOWN_PROCESSOR
    return (
        _refusal_of_expiry(ask)
        or _refusal_of_kind(limits, group, processor.role, ask)
        or _refusal_of_destination(hosts, ask)
    )


def too_many_standbys(processor_id: str, standbys: int) -> str:
    """Return the refusal of one more standby."""
    seen = f"{processor_id} has {standbys} standbys, the most that it may"
    return texts.refusal("most-standbys", seen, "stop one first")


def _unknown_destination(hosts: Mapping[str, Host], destination: str) -> Violation | None:
    """Return the violation when a destination is neither a known host nor a known word."""
    if destination in naming.DESTINATION_WORDS or destination in hosts:
        return None
    known = ", ".join(sorted(hosts)) or "none has registered"
    return Violation(
        DESTINATION_KNOWN,
        destination,
        f"unknown destination host {destination}; known hosts: {known}",
        "name one of them, or use ANY_HOST, STANDBY, LAST_SEEN or FORCE_RESTART_LAST_SEEN",
    )


def _refusal_of_expiry(ask: PlacementAsk) -> str | None:
    """Return the refusal of an expiry that would block the group's other requests."""
    # Samza's wire has room for 292 million years.
    if ask.expiry_ms is None or ask.expiry_ms <= LONGEST_EXPIRY_MS:
        return None
    seen, change = f"requestExpiry is {ask.expiry_ms} ms", f"ask for {LONGEST_EXPIRY_MS} ms at most"
    return texts.refusal("longest-expiry", seen, f"{change}, a day")


def _refusal_of_kind(limits: Limits, group: Group, role: Role, ask: PlacementAsk) -> str | None:
    pid = ask.processor_id
    standbys = [p for p in group.processors.values() if p.role is Role.STANDBY and p.wanted]
    takes_place = ask.kind is RequestKind.FAIL_OVER or ask.destination_host == naming.STANDBY
    if ask.kind is RequestKind.STOP_STANDBY:
        if role is Role.STANDBY:
            return None
        return texts.refusal("standby-to-stop", f"{pid} is an active", "name one of its standbys")
    if ask.kind is RequestKind.START_STANDBY and role is not Role.ACTIVE:
        return _in_words(_is_a_standby(group, pid))
    if ask.kind is RequestKind.START_STANDBY and len(standbys) >= limits.max_standbys:
        return too_many_standbys(pid, len(standbys))
    refusal = _refusal_of_place(group, group.processors[pid]) if takes_place else None
    if refusal is not None:
        return _in_words(refusal)
    if ask.hold and ask.destination_host in _NOT_RESERVED:
        seen = f"{ask.destination_host} reserves nothing to hold"
        return texts.refusal("reserves-first", seen, _A_HOST)
    return None


def _refusal_of_destination(hosts: Mapping[str, Host], ask: PlacementAsk) -> str | None:
    if ask.kind in (RequestKind.STOP_STANDBY, RequestKind.FAIL_OVER):
        return None
    if ask.kind is RequestKind.START_STANDBY and ask.destination_host in _NOT_FOR_NEW:
        seen = f"a new standby can't go to {ask.destination_host}"
        return texts.refusal("place-for-new", seen, _A_HOST)
    unknown = _unknown_destination(hosts, ask.destination_host)
    return None if unknown is None else _in_words(unknown)


def _unknown_processor(state: JobState, processor_id: str) -> Violation:
    # By name: the order of an immutable map differs from process to process.
    known = sorted(
        pid for group in state.groups.values() for pid, p in group.processors.items() if p.wanted
    )
    return Violation(
        PROCESSOR_KNOWN,
        "",
        f"no processor {processor_id} in this job",
        texts.name_one_of(known),
    )


def _of_places(state: JobState, group: Group, processor_id: str) -> Explanation:
    """Return each standby's place, the choice of a request for STANDBY or a fail-over."""
    processor = group.processors[processor_id]
    refusal = _refusal_of_place(group, processor)
    if refusal is not None:
        return _refused(processor_id, naming.STANDBY, refusal)
    candidates = [
        _candidate(place, places.violation(group, state.hosts, processor, standby))
        for standby in group.processors.values()
        if standby.role is Role.STANDBY
        for place in (places.place_of(standby),)
    ]
    legal = any(candidate.legal for candidate in candidates)
    ordered = sorted(candidates, key=lambda candidate: candidate.host)
    return Explanation(processor_id, naming.STANDBY, legal, tuple(ordered))


def _refusal_of_place(group: Group, processor: Processor) -> Violation | None:
    """Return why a processor can take no standby's place: it is one, or it has none."""
    pid = processor.processor_id
    if processor.role is not Role.ACTIVE:
        return _is_a_standby(group, pid)
    if not any(p.role is Role.STANDBY and p.wanted for p in group.processors.values()):
        seen, change = f"{pid} has no standby", "start one first, or name a host"
        return Violation(ACTIVE_WITH_STANDBY, "", seen, change)
    return None


def _is_a_standby(group: Group, processor_id: str) -> Violation:
    change = f"name its active, {group.group_id}"
    return Violation(ACTIVE_WITH_STANDBY, "", f"{processor_id} is a standby", change)


def _in_words(broken: Violation) -> str:
    return texts.refusal(broken.rule, broken.seen, broken.change)


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
