"""Explanations: legal if and only if no rule forbids it, and the way out leads out."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.model import naming
from samza_dagster.placement.explain import Candidate, Explanation, explain
from samza_dagster.placement.state import Group, JobState, Phase, Processor, Role
from samza_dagster.simulation.judges.legality import Reason, reasons, subject_of
from samza_dagster.simulation.judges.standby_places import in_the_way, may_give_way
from samza_dagster.simulation.judges.violation import EXPLAINS_ITSELF, InvariantViolated

_WORDS = (
    naming.ANY_HOST,
    naming.STANDBY,
    naming.LAST_SEEN,
    naming.FORCE_RESTART_LAST_SEEN,
)


def judge_explanations(state: JobState, draw: int) -> None:
    """One processor and one destination; `draw` says which. Reads all of the job's rules."""
    processors = [
        (group, pid) for _, group in sorted(state.groups.items()) for pid in group.processors
    ]
    destinations = [*_WORDS, *sorted(state.hosts), *sorted(state.hosts), "host-99"]
    destination = destinations[draw % len(destinations)]
    if draw % 13 == 0 or not processors:
        _judge_unknown(state, destination)
        return
    group, processor_id = processors[(draw // len(destinations)) % len(processors)]
    judge_explanation(state, group, processor_id, destination)


def judge_explanation(state: JobState, group: Group, processor_id: str, destination: str) -> None:
    """What is said of this processor and this destination."""
    said = explain(state, processor_id, destination)
    if (said.processor_id, said.destination) != (processor_id, destination):
        raise _wrong(said, "it answers another question")
    processor = group.processors[processor_id]
    if not processor.wanted:
        _must_refuse(said, "processor-known", processor_id)
        return
    if destination not in _WORDS and destination not in state.hosts:
        _must_refuse(said, "destination-known", destination)
        told = said.candidates[0]
        if any(host not in told.seen for host in state.hosts) or not told.host == destination:
            raise _wrong(said, "it doesn't name the hosts that are known")
        if not state.hosts and "none" not in told.seen:
            raise _wrong(said, "no host is known")
        return
    standbys = any(p.role is Role.STANDBY and p.wanted for p in group.processors.values())
    if destination == naming.STANDBY and (processor.role is Role.STANDBY or not standbys):
        _must_refuse(said, "active-with-standby", processor_id)
        return
    hosts = _hosts_meant(state, group, processor_id, destination)
    if [candidate.host for candidate in said.candidates] != hosts:
        raise _wrong(said, f"the hosts that are meant are {hosts}")
    if said.legal != any(candidate.legal for candidate in said.candidates):
        raise _wrong(said, "it is legal if one of them is")
    for candidate in said.candidates:
        _judge_candidate(state, group, processor_id, destination, candidate)
    _judge_text(said)


def _hosts_meant(state: JobState, group: Group, processor_id: str, destination: str) -> list[str]:
    if destination == naming.ANY_HOST:
        return sorted(state.hosts)
    if destination == naming.STANDBY:
        return sorted(_place(p) for p in group.processors.values() if p.role is Role.STANDBY)
    if destination in state.hosts:
        return [destination]
    processor = group.processors[processor_id]
    if processor.incarnation is not None:
        return [processor.incarnation.host]
    return [] if processor.last_seen_host is None else [processor.last_seen_host]


def _place(standby: Processor) -> str:
    here = standby.incarnation
    return here.host if here is not None else standby.last_seen_host or ""


def _judge_candidate(
    state: JobState, group: Group, processor_id: str, destination: str, candidate: Candidate
) -> None:
    host, legal = candidate.host, candidate.legal
    found = _reasons(state, group, processor_id, destination, host, legal=legal)
    if candidate.legal:
        if found or candidate.rule or candidate.seen or candidate.change:
            raise _wrong(candidate, f"called legal, by the rules it isn't: {found}")
        return
    told = [reason for reason in found if reason.rule == candidate.rule]
    if not told:
        raise _wrong(candidate, f"another rule than {found or 'none at all'}")
    fitting = [r for r in told if r.who in candidate.seen and r.does in candidate.seen]
    if not fitting or candidate.host not in candidate.seen:
        raise _wrong(candidate, f"not what was seen: {told}")
    if not candidate.change or not any(
        word in candidate.change
        for r in fitting
        for word in (r.who or r.host, "LAST_SEEN", "domain")
    ):
        raise _wrong(candidate, "no change is proposed")
    if candidate.rule in ("another-host", "standby-runs", "start-failed", "one-action"):
        return
    changed = state
    for reason in fitting:
        changed = _as_proposed(changed, group.group_id, candidate.host, reason)
    _judge_way_out(changed, group.group_id, processor_id, candidate, len(found) == len(fitting))


def _judge_way_out(
    changed: JobState, group_id: str, processor_id: str, candidate: Candidate, only: bool
) -> None:
    """After what was proposed the reason is gone, and the host legal if it was the only one."""
    after = explain(changed, processor_id, candidate.host)
    again = after.candidates[0] if after.candidates else None
    if (
        again is not None
        and not again.legal
        and (again.rule, again.seen)
        == (
            candidate.rule,
            candidate.seen,
        )
    ):
        raise _wrong(candidate, f"the change is no way out: {again}")
    if (
        only
        and not after.legal
        and reasons(changed, changed.groups[group_id], processor_id, candidate.host) == []
    ):
        raise _wrong(candidate, f"after the change it still isn't legal: {after}")


def _reasons(
    state: JobState, group: Group, processor_id: str, destination: str, host: str, *, legal: bool
) -> list[Reason]:
    processor = group.processors[processor_id]
    if destination == naming.STANDBY:
        found: list[Reason] = []
        there = [p for p in group.processors.values() if p.role is Role.STANDBY]
        there = [standby for standby in there if _place(standby) == host]
        # One may be down that ran where another is by now.
        if legal and any(may_give_way(state, group, processor, one) for one in there):
            return []
        for one in there:
            if one.phase is not Phase.RUNNING:
                does = f"is {one.phase.value}"
                found.append(Reason("standby-runs", one.processor_id, host, does))
            elif not may_give_way(state, group, processor, one):
                found += _not_its_place(state, group, processor, one)
        return found
    found = reasons(state, group, processor_id, host)
    here = processor.incarnation is not None and processor.incarnation.host == host
    if destination == naming.ANY_HOST and here and not found:
        found.append(Reason("another-host", processor_id, host, "already"))
    return found


def _not_its_place(
    state: JobState, group: Group, active: Processor, standby: Processor
) -> list[Reason]:
    """What of the rest keeps an active from the place of a standby that runs."""
    pid, host = standby.processor_id, _place(standby)
    found = in_the_way(state, group, active, standby, host)
    if host in active.avoid_hosts:
        found.append(Reason("start-failed", active.processor_id, host, "failed to start"))
    if group.action is not None:
        found.append(Reason("one-action", pid, host, f"action {group.action.ask.uuid}"))
    return found


def _as_proposed(state: JobState, group_id: str, host: str, reason: Reason) -> JobState:
    """The smallest change that the reason asks for, made."""
    group = state.groups[group_id]
    match reason.rule:
        case "same-host" | "same-fault-domain" if reason.does != "wasn't seen dead":
            other = group.processors.get(reason.who)
            processors = dict(group.processors)
            if other is not None:
                processors[reason.who] = replace(other, incarnation=None, request=None)
            action = group.action
            if action is not None and subject_of(action) == reason.who:
                action = replace(action, reservation=None)
            if action is not None and action.standby_id == reason.who:
                action = replace(action, standby_reservation=None)
            group = replace(group, processors=processors, action=action)
        case "host-alive":
            hosts = state.hosts.set(host, replace(state.hosts[host], alive=True))
            return replace(state, hosts=hosts)
        case _:
            ghosts = tuple(g for g in group.ghosts if g.incarnation.host != reason.host)
            group = replace(group, ghosts=ghosts)
    return replace(state, groups=state.groups.set(group_id, group))


def _judge_unknown(state: JobState, destination: str) -> None:
    for processor_id in ("9-9", "99"):
        said = explain(state, processor_id, destination)
        _must_refuse(said, "processor-known", processor_id)
        known = [pid for g in state.groups.values() for pid, p in g.processors.items() if p.wanted]
        if any(pid not in said.candidates[0].change for pid in known) or (
            not known and "deploy" not in said.candidates[0].change
        ):
            raise _wrong(said, f"known are {known}")


def _must_refuse(said: Explanation, rule: str, name: str) -> None:
    if said.legal or len(said.candidates) != 1 or said.candidates[0].legal:
        raise _wrong(said, f"{rule} forbids it")
    told = said.candidates[0]
    if told.rule != rule or name not in told.seen or not told.change:
        raise _wrong(said, f"the rule is {rule}, about {name}")
    if name not in str(said) or rule not in str(said):
        raise _wrong(said, "its text hides that")


def _judge_text(said: Explanation) -> None:
    """Read aloud, it names each rule that is broken; where none is, each host."""
    text = str(said)
    illegal = [candidate for candidate in said.candidates if not candidate.legal]
    for candidate in illegal:
        whole = f"{candidate.rule}: {candidate.seen}; {candidate.change}"
        if whole not in text:
            raise _wrong(said, f"{text!r} doesn't tell {whole!r}")
    if not illegal and any(f"{c.host}: legal" not in text for c in said.candidates):
        raise _wrong(said, f"{text!r} doesn't tell that all are legal")
    if illegal and ": legal" in text:
        raise _wrong(said, f"{text!r} tells of legal ones where others aren't")


def _wrong(said: Explanation | Candidate, what: str) -> InvariantViolated:
    return InvariantViolated(EXPLAINS_ITSELF, f"{said!r}: {what}")
