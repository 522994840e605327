"""What `auto_failover` decides: whom to fail over or restart, and why not. Pure.

A request's UUID is derived from the job, the action, the processor, its incarnation and the
last acknowledgement of its group: whoever decides the same again, after a lost cursor or a
tick that was killed, asks nothing new.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from samza_dagster.model.naming import group_of
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.failover.memory import Acted, Memory, Suspect
from samza_dagster.orchestration.failover.sight import LOST, ContainerSeen, Sight
from samza_dagster.orchestration.failover.signals import (
    COORDINATOR_GONE,
    FALLING_BEHIND,
    FLAPPING,
    HOST_SICK,
    SILENT,
    STANDBY_DOWN,
    STANDBY_STANDS,
    Judged,
    Limits,
    bad_hosts,
)

NAMESPACE = uuid_module.UUID("0b9d3a58-3f8e-5c0c-9a7e-5d0f6f2f3c41")
FAIL_OVER = RequestKind.FAIL_OVER.value
RESTART = "restart"
NOTHING = "nothing"
HOUR_MS = 3_600_000
MOST_IN_A_LOOK = 20


class Mode(StrEnum):
    """How far the sensor goes."""

    SHADOW = "shadow"
    ADVISE = "advise"
    ACT = "act"


class Verdict(StrEnum):
    """What becomes of one decision."""

    ASK = "ask"  # now, within this tick
    ADOPT = "adopt"  # an earlier tick asked and ended before it could say so
    ADVISE = "advise"
    SHADOW = "shadow"
    WATCH = "watch"  # the coordinator is at it
    HELD = "held"  # a bound of the policy forbids it


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy of a job."""

    mode: Mode = Mode.ADVISE
    limits: Limits = field(default_factory=Limits)
    cap_per_hour: int = 3
    mass_share: float = 0.4


@dataclass(frozen=True, slots=True)
class Case:
    """A confirmed suspect's processor, and what would help it. `uuid` is the request's."""

    uuid: str
    kind: str
    subject: str
    processor: str
    incarnation: str
    action: str
    since_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a case. `because`: which bound or whose work holds it."""

    case: Case
    verdict: Verdict
    because: str = ""
    command: str = ""

    @property
    def event(self) -> str:
        """What this is reported as, once."""
        word = "ask" if self.verdict is Verdict.ADOPT else self.verdict.value
        rule = self.because.partition(":")[0] if self.verdict is Verdict.HELD else ""
        return "/".join((self.case.uuid, word, *((rule,) if rule else ())))


def request_uuid(
    job: str, action: str, processor: str, incarnation: str, acknowledged_ms: int
) -> str:
    """The request of one failure: the same whoever derives it, and however often."""
    text = f"{job}/{action}/{processor}/{incarnation}/{acknowledged_ms}"
    return str(uuid_module.uuid5(NAMESPACE, text))


def cases(
    job: str,
    suspects: Mapping[str, Suspect],
    acknowledged: Mapping[str, int],
    *,
    sight: Sight | None = None,
    least_looks: int = 0,
) -> tuple[Case, ...]:
    """What the suspects are about, one case a request; at most `MOST_IN_A_LOOK`.

    With a `sight` only processors that run there as that incarnation. `least_looks`: suspects
    that looked bad less often are left out; 0: those that aren't confirmed.
    """
    now = {c.processor_id: c for c in (sight.containers if sight is not None else ())}
    found: dict[str, Case] = {}
    for _, suspect in sorted(suspects.items()):
        if not (suspect.confirmed or (least_looks and len(suspect.bad_ms) >= least_looks)):
            continue
        for processor, incarnation in suspect.members:
            seen = now.get(processor)
            judged = sight is not None and suspect.kind != COORDINATOR_GONE
            if judged and (seen is None or seen.incarnation != incarnation):
                continue
            action = action_for(suspect.kind, seen, processor)
            uuid = request_uuid(
                job, action if action != NOTHING else suspect.kind, processor, incarnation,
                acknowledged.get(group_of(processor), 0),
            )  # fmt: skip
            found.setdefault(
                uuid,
                Case(
                    uuid=uuid,
                    kind=suspect.kind,
                    subject=suspect.subject,
                    processor=processor,
                    incarnation=incarnation,
                    action=action,
                    since_ms=suspect.since_ms,
                    why=suspect.why,
                ),
            )
    return tuple(found.values())[:MOST_IN_A_LOOK]


def action_for(kind: str, seen: ContainerSeen | None, processor: str) -> str:
    """What helps against a signal."""
    active = seen.active if seen is not None else group_of(processor) == processor
    if kind in (HOST_SICK, FALLING_BEHIND) or (kind == SILENT and active):
        return FAIL_OVER
    if kind in (STANDBY_STANDS, SILENT):
        return RESTART
    return NOTHING


def least_looks(limits: Limits) -> int:
    """Bad looks at which a suspect has to be remembered lastingly: one more may confirm it."""
    return max(1, limits.bad_looks - 1)


def decide(
    sight: Sight,
    before: Memory,
    judged: Judged,
    rules: Rules,
    now_ms: int,
    *,
    acknowledged: Mapping[str, int],
    known: frozenset[str],
) -> tuple[Decision, ...]:
    """A decision on each case. `acknowledged`: group → when its last failover was.

    `known` are requests, of the cases asked about, that exist already: they are adopted,
    whatever else holds, for an earlier tick decided so and was ended before its cursor was kept.
    """
    found: list[Decision] = []
    has_acted = {acted.uuid for acted in before.acted}
    least = least_looks(rules.limits)
    late = cases(sight.job, before.suspects, acknowledged, least_looks=least)
    current = _current(sight, judged, acknowledged)
    remembered_before = {case.uuid for case in late}
    acted = list(before.acted)
    for case in {c.uuid: c for c in (*late, *current)}.values():
        if case.uuid in known and case.uuid not in has_acted:
            found.append(Decision(case, Verdict.ADOPT))
            acted.append(_acted(case, now_ms))
    bad = bad_hosts(sight, judged.signals)
    for case in current:
        if case.uuid in known or case.uuid in has_acted:
            continue
        if case.uuid not in remembered_before:
            continue  # should this tick be killed, the next one must find what it asked
        decision = _decide(case, sight, judged, rules, bad, acted, acknowledged, now_ms)
        found.append(decision)
        if decision.verdict is Verdict.ASK:
            acted.append(_acted(case, now_ms))
    return tuple(found)


def may_be_known(
    sight: Sight,
    before: Memory,
    judged: Judged,
    rules: Rules,
    acknowledged: Mapping[str, int],
) -> tuple[str, ...]:
    """Requests that an earlier tick may have asked: `decide` has to be told which exist."""
    least = least_looks(rules.limits)
    late = cases(sight.job, before.suspects, acknowledged, least_looks=least)
    current = _current(sight, judged, acknowledged)
    has_acted = {acted.uuid for acted in before.acted}
    return tuple(
        dict.fromkeys(
            c.uuid for c in (*late, *current) if c.action != NOTHING and c.uuid not in has_acted
        )
    )


def remembered(
    memory: Memory, decisions: tuple[Decision, ...], told: Mapping[str, int], now_ms: int
) -> Memory:
    """The memory after the decisions were carried out; `told` are ids of what was reported."""
    acted = {a.uuid: a for a in memory.acted}
    for decision in decisions:
        if decision.verdict in (Verdict.ASK, Verdict.ADOPT):
            acted.setdefault(decision.case.uuid, _acted(decision.case, now_ms))
    return replace(memory, acted=tuple(acted.values()), told={**memory.told, **told}).bounded()


def still_blocking(memory: Memory, acknowledged: Mapping[str, int], now_ms: int) -> Memory:
    """Without what is acknowledged and no longer counts for the cap of the hour."""
    return replace(
        memory,
        acted=tuple(
            a
            for a in memory.acted
            if acknowledged.get(a.group, 0) < a.at_ms or now_ms - a.at_ms < HOUR_MS
        ),
    )


def _current(sight: Sight, judged: Judged, acknowledged: Mapping[str, int]) -> tuple[Case, ...]:
    """What looks bad now too: one that has begun to look well is left to itself."""
    now = {signal.key for signal in judged.signals}
    suspects = {key: s for key, s in judged.memory.suspects.items() if key in now}
    return cases(sight.job, suspects, acknowledged, sight=sight)


def _decide(
    case: Case,
    sight: Sight,
    judged: Judged,
    rules: Rules,
    bad: set[str],
    acted: list[Acted],
    acknowledged: Mapping[str, int],
    now_ms: int,
) -> Decision:
    group = group_of(case.processor)
    command = _command(case, sight, bad)
    if case.kind == COORDINATOR_GONE or case.action == NOTHING:
        gone = case.kind == COORDINATOR_GONE
        busy = "" if gone else sight.busy.get(group, "")
        if busy:
            return Decision(case, Verdict.WATCH, busy, command)
        shadow = rules.mode is Mode.SHADOW
        return Decision(case, Verdict.SHADOW if shadow else Verdict.ADVISE, "", command)

    def held(rule: str, why: str) -> Decision:
        return Decision(case, Verdict.HELD, f"{rule}: {why}", command)

    busy = sight.busy.get(group)
    if busy is not None:
        return Decision(case, Verdict.WATCH, busy, command)
    host = next((c.host for c in sight.containers if c.processor_id == case.processor), None)
    if sight.host_states.get(host or "") == LOST:
        return Decision(case, Verdict.WATCH, f"host {host} is lost, which it handles", command)
    if judged.nobody_reads:
        return held("no coordinator", "nobody would read the request, or much later")
    if case.action == FAIL_OVER and not sight.ours:
        why = "Samza's AM has no request for a failover"
        return Decision(case, _advice(rules), why, command)
    if case.action == FAIL_OVER and not healthy_standbys(sight, group, bad):
        return held("no standby", "none runs on a host that looks well")
    blocking = [a for a in acted if a.group == group and acknowledged.get(group, 0) < a.at_ms]
    if blocking:
        return held(
            "block", f"request {blocking[-1].uuid} acted on this group; acknowledge it first"
        )
    hosts = len({*sight.host_states, *(c.host for c in sight.containers if c.host)})
    if len(bad) > 1 and len(bad) > rules.mass_share * hosts:
        return held(
            "mass", f"{len(bad)} of {hosts} hosts look bad at once: {', '.join(sorted(bad)[:5])}"
        )
    if rules.mode is not Mode.ACT:
        return Decision(case, _advice(rules), "", command)
    lately = sum(0 <= now_ms - a.at_ms < HOUR_MS for a in acted)
    if lately >= rules.cap_per_hour:
        return held(
            "cap", f"{lately} requests within the hour, at most {rules.cap_per_hour} are allowed"
        )
    return Decision(case, Verdict.ASK, "", command)


def healthy_standbys(sight: Sight, group: str, bad: set[str]) -> list[ContainerSeen]:
    """Standbys of a group that run where nothing looks bad."""
    return [s for s in sight.standbys(group) if s.runs and s.host not in bad]


def _advice(rules: Rules) -> Verdict:
    return Verdict.SHADOW if rules.mode is Mode.SHADOW else Verdict.ADVISE


def _acted(case: Case, now_ms: int) -> Acted:
    return Acted(case.uuid, group_of(case.processor), case.processor, now_ms)


def _command(case: Case, sight: Sight, bad: set[str]) -> str:
    """What a person would run."""
    if case.kind == COORDINATOR_GONE:
        return (
            "samza-dagster coordinator run --config <the job's properties> --launch <how a"
            " container is started> --token-file <the job's token> --url-file <where agents look>"
        )
    if case.kind == FLAPPING:
        return f"samza-dagster status {case.processor}, then its log on its host"
    if case.kind == STANDBY_DOWN:
        return f"samza-dagster explain {case.processor}"
    if case.action == RESTART:
        return f"samza-dagster place {case.processor} --to LAST_SEEN"
    standbys = healthy_standbys(sight, group_of(case.processor), bad)
    if not standbys:
        return f"samza-dagster place {case.processor} --to ANY_HOST, which restores its state anew"
    if not sight.ours:
        return f"job move_with_standby with processor {case.processor}"
    return f"samza-dagster fail-over {case.processor}"
