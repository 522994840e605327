"""What `auto_failover` decides: whom to fail over or restart, and why not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from samza_dagster.orchestration.watch.cases import (
    Case,
    cases,
    reported_as,
    shared_out,
    suspects_about,
)
from samza_dagster.orchestration.watch.hosts import together, went_bad
from samza_dagster.orchestration.watch.memory import (
    OF_A_HOST,
    OF_NO_CONTAINER,
    Acted,
    Memory,
)
from samza_dagster.orchestration.watch.observation import LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.remedies import (
    FAIL_OVER,
    MOVE_WITH_STANDBY,
    NOTHING,
    RESTART,
)
from samza_dagster.orchestration.watch.settings import AutoFailover, Mode
from samza_dagster.orchestration.watch.signals import JudgedSignals

HOUR_MS = 3_600_000
MOST_NEW_IN_A_LOOK = 20
"""Decisions that weren't told before; the next look has more."""


class FailoverVerdict(StrEnum):
    """What becomes of one decision."""

    ASK = "ask"  # now, within this tick
    ADOPT = "adopt"  # an earlier tick asked and ended before it could say so
    ADVISE = "advise"
    SHADOW = "shadow"
    WATCH = "watch"  # the coordinator is at it
    HELD = "held"  # a bound of the policy forbids it


def mode_of(settings: AutoFailover, observation: Observation) -> Mode:
    """As it was told; else as far as its coordinator's `Remedies` say."""
    return settings.mode or observation.remedies.mode


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a case. `because`: which bound or whose work holds it.

    `standby`: whose host a move with its standby takes.
    """

    case: Case
    verdict: FailoverVerdict
    because: str = ""
    command: str = ""
    standby: str = ""

    @property
    def event(self) -> str:
        """What this is reported as, once; a trouble that was over and comes again is told again.

        What was asked is a request, which there is once.
        """
        if self.verdict in (FailoverVerdict.ASK, FailoverVerdict.ADOPT):
            return f"{self.case.uuid}/ask"
        rule = self.because.partition(":")[0] if self.verdict is FailoverVerdict.HELD else ""
        return reported_as(self.case, self.verdict.value, *((rule,) if rule else ()))


def least_looks(settings: AutoFailover) -> int:
    """Bad looks at which a suspect has to be remembered lastingly: one more may confirm it."""
    return max(1, settings.bad_looks - 1)


def decide(
    observation: Observation,
    before: Memory,
    judged: JudgedSignals,
    settings: AutoFailover,
    now_ms: int,
    *,
    acknowledged: Mapping[str, str],
    known: frozenset[str],
) -> tuple[Decision, ...]:
    """A decision on each case. `acknowledged`: group → its last acknowledgement.

    `known` are requests, of the cases asked about, that exist already: they are adopted,
    whatever else holds, for an earlier tick decided so and was ended before its cursor was kept.
    What stands and was told is decided on again, for what holds it back may end; it takes no
    place of what is new.
    """
    found: list[Decision] = []
    has_acted = {acted.uuid: acted.at_ms for acted in before.acted}
    late = _late(observation, before, settings, acknowledged)
    current = _current(observation, judged, acknowledged)
    remembered_before = {case.uuid for case in late}
    acted = list(before.acted)
    for case in {c.uuid: c for c in (*late, *current)}.values():
        if case.uuid in known and case.uuid not in has_acted:
            found.append(Decision(case, FailoverVerdict.ADOPT))
            acted.append(_acted(case, now_ms))
    bad = went_bad(observation, judged.memory, judged.signals)
    reported, new = judged.memory.reported, 0
    for case in _in_turn(shared_out(current), judged.memory):
        if case.uuid in known or has_acted.get(case.uuid, -1) >= case.suspect.after_ms:
            continue  # asked since this trouble began; if it began anew, the block is to be told
        if case.uuid not in remembered_before:
            continue  # should this tick be killed, the next one must find what it asked
        decision = _decide(case, observation, judged, settings, bad, acted, acknowledged, now_ms)
        if decision.event not in reported:
            if new == MOST_NEW_IN_A_LOOK:
                continue
            new += 1
        found.append(decision)
        if decision.verdict is FailoverVerdict.ASK:
            acted.append(_acted(case, now_ms))
    return tuple(found)


def may_be_known(
    observation: Observation,
    before: Memory,
    judged: JudgedSignals,
    settings: AutoFailover,
    acknowledged: Mapping[str, str],
) -> tuple[str, ...]:
    """Requests that an earlier tick may have asked: `decide` has to be told which exist."""
    late = _late(observation, before, settings, acknowledged)
    current = _current(observation, judged, acknowledged)
    has_acted = {acted.uuid for acted in before.acted}
    return tuple(
        dict.fromkeys(
            c.uuid for c in (*late, *current) if c.action != NOTHING and c.uuid not in has_acted
        )
    )


def remembered(
    memory: Memory,
    decisions: tuple[Decision, ...],
    reported: Mapping[str, int],
    now_ms: int,
    observation: Observation,
) -> Memory:
    """The memory after the decisions were carried out; `told` are ids of what was reported."""
    acted = {a.uuid: a for a in memory.acted}
    for decision in decisions:
        if decision.verdict in (FailoverVerdict.ASK, FailoverVerdict.ADOPT):
            acted.setdefault(decision.case.uuid, _acted(decision.case, now_ms))
    # What has nothing more to tell leaves its place to what has: `Memory.bounded`.
    about = acted.keys() | {decision.case.uuid for decision in decisions}
    done = suspects_about(
        memory.job,
        memory.suspects,
        memory.acks,
        about,
        remedies=observation.remedies,
        group_of=observation.group_of,
    )
    suspects = {k: replace(s, reported=s.reported or k in done) for k, s in memory.suspects.items()}
    return replace(
        memory,
        suspects=suspects,
        acted=tuple(acted.values()),
        reported={**memory.reported, **reported},
    ).bounded()


def cases_left_out(
    observation: Observation, judged: JudgedSignals, acknowledged: Mapping[str, str]
) -> int:
    """How many there is no room for at this look."""
    current = _current(observation, judged, acknowledged)
    return len(current) - len(shared_out(current))


def still_blocking(memory: Memory, acknowledged: Mapping[str, str], now_ms: int) -> Memory:
    """Without what is acknowledged and no longer counts for the cap of the hour.

    What was asked by a later clock, that was set back since, counts for two hours at most.
    """
    latest_ms = now_ms + HOUR_MS
    acted = (
        replace(a, at_ms=min(a.at_ms, latest_ms), cap_ms=min(a.cap_ms, latest_ms))
        for a in memory.acted
    )
    return replace(
        memory,
        acted=tuple(
            a for a in acted if not a.is_acknowledged(acknowledged) or _is_lately(a, now_ms)
        ),
    )


def _late(
    observation: Observation,
    before: Memory,
    settings: AutoFailover,
    acknowledged: Mapping[str, str],
) -> tuple[Case, ...]:
    """What an earlier tick may have asked about, also if its group was acknowledged since."""
    least = least_looks(settings)
    found: tuple[Case, ...] = ()
    for acks in (acknowledged, before.acks):
        found += cases(
            observation.job,
            before.suspects,
            acks,
            remedies=observation.remedies,
            group_of=observation.group_of,
            least_looks=least,
        )
    return tuple({case.uuid: case for case in found}.values())


def _current(
    observation: Observation, judged: JudgedSignals, acknowledged: Mapping[str, str]
) -> tuple[Case, ...]:
    """What looks bad now too: one that has begun to look well is left to itself."""
    now = {signal.key for signal in judged.signals}
    suspects = {key: s for key, s in judged.memory.suspects.items() if key in now}
    return cases(
        observation.job,
        suspects,
        acknowledged,
        remedies=observation.remedies,
        group_of=observation.group_of,
        observation=observation,
    )


def _in_turn(current: tuple[Case, ...], memory: Memory) -> tuple[Case, ...]:
    """What was refused comes last, another of it first at each look: it may be refused for ever."""
    refused = [case for case in current if reported_as(case, "refused") in memory.reported]
    first = memory.looks % max(1, len(refused))
    again = {case.uuid for case in refused}
    return (*(c for c in current if c.uuid not in again), *refused[first:], *refused[:first])


def _decide(
    case: Case,
    observation: Observation,
    judged: JudgedSignals,
    settings: AutoFailover,
    bad: Mapping[str, tuple[int, ...]],
    acted: list[Acted],
    acknowledged: Mapping[str, str],
    now_ms: int,
) -> Decision:
    group, mode = case.group, mode_of(settings, observation)
    advice = FailoverVerdict.SHADOW if mode == "shadow" else FailoverVerdict.ADVISE
    remedies, standbys = observation.remedies, _healthy_standbys(observation, group, bad, settings)
    command = remedies.command(case, observation, standbys, bad)

    def held(rule: str, why: str) -> Decision:
        return Decision(case, FailoverVerdict.HELD, f"{rule}: {why}", command)

    busy = "" if case.suspect.kind in OF_NO_CONTAINER else _handled(case, observation)
    if busy:
        return Decision(case, FailoverVerdict.WATCH, busy, command)
    if case.suspect.kind in OF_A_HOST and remedies.left_to:
        return Decision(case, FailoverVerdict.WATCH, remedies.left_to, command)
    if case.action == NOTHING:
        return Decision(case, advice, "", command)
    if judged.nobody_reads:
        return held("no coordinator", "nobody would read the request, or much later")
    if case.action in (FAIL_OVER, MOVE_WITH_STANDBY) and not standbys:
        warm = "warm (samza-dagster lag) and " if remedies.judges_standbys else ""
        return held("no standby", f"none is {warm}on a host that looks well")
    if group in observation.lost:
        return held("changelog lost", f"its state may be nowhere else: {observation.lost[group]}")
    blocking = [a for a in acted if a.group == group and not a.is_acknowledged(acknowledged)]
    if blocking and case.action == RESTART:
        command = f"job relocate_standby with processor {case.processor}: a restart didn't help it"
    if blocking:
        return held(
            "block", f"request {blocking[-1].uuid} acted on this group; acknowledge it first"
        )
    at_once, hosts = together(observation, bad, min(case.suspect.since_ms, now_ms))
    if len(at_once) > 1 and len(at_once) > settings.mass_share * hosts:
        names = ", ".join(sorted(at_once)[:5])
        return held("mass", f"{len(at_once)} of {hosts} hosts went bad together: {names}")
    if mode != "act":
        return Decision(case, advice, "", command)
    lately = sum(_is_lately(a, now_ms) for a in acted)
    if lately >= settings.cap_per_hour:
        return held(
            "cap", f"{lately} requests within the hour, at most {settings.cap_per_hour} are allowed"
        )
    standby = standbys[0].processor_id if case.action == MOVE_WITH_STANDBY else ""
    return Decision(case, FailoverVerdict.ASK, "", command, standby)


def _handled(case: Case, observation: Observation) -> str:
    """What the coordinator is at there; empty: nothing."""
    seen = observation.by_id.get(case.processor)
    host = seen.host if seen is not None else None
    lost = observation.host_states.get(host or "") == LOST
    handled = f"host {host} is lost, which it handles" if lost else ""
    return observation.busy.get(case.group, handled)


def _healthy_standbys(
    observation: Observation, group: str, bad: Collection[str], settings: AutoFailover
) -> list[ContainerSeen]:
    """Standbys of a group that run where nothing looks bad, warm ones where only the sensor judges that."""
    least = settings.standby_behind_records
    return [
        standby
        for standby in observation.standbys.get(group, ())
        if standby.runs
        and standby.host not in bad
        and (not observation.remedies.judges_standbys or standby.is_within(least))
    ]


def _is_lately(acted: Acted, now_ms: int) -> bool:
    """Also by a clock that was set back: it may have been a moment ago."""
    return now_ms - acted.counts_ms < HOUR_MS


def _acted(case: Case, now_ms: int) -> Acted:
    return Acted(case.uuid, case.group, case.processor, now_ms, case.ack)
