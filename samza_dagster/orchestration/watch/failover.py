"""The judgement of `auto_failover`: a cursor and a look in, a cursor and decisions out. Pure."""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from samza_dagster.orchestration.watch.cursor import (
    BAD_LOOKS,
    OF_NO_CONTAINER,
    Act,
    FailoverCursor,
    Kind,
    Suspect,
)
from samza_dagster.orchestration.watch.observation import LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.remedies import (
    FAIL_OVER,
    LEFT_TO_AM,
    MOVE_WITH_STANDBY,
    NOTHING,
    RESTART,
    action,
    command,
)
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.signals import STANDBY_BEHIND, Look

NAMESPACE = uuid_module.UUID("0b9d3a58-3f8e-5c0c-9a7e-5d0f6f2f3c41")
MOST_SUSPECTS = 100
"""Where more looks bad at once no single failover mends it, and the cursor has to stay small."""


class FailoverVerdict(StrEnum):
    """What becomes of one case."""

    ASK = "ask"  # a run is requested
    ADVISE = "advise"
    SHADOW = "shadow"
    WATCH = "watch"  # the coordinator is at it
    HELD = "held"  # a limit of the rule forbids it


@dataclass(frozen=True, slots=True)
class Case:
    """One container of a suspect, and what would help it."""

    suspect: Suspect
    processor: str
    incarnation: str
    group: str
    host: str
    action: str
    uuid: str
    """The run's key: one failure has one run, whoever derives it, and however often."""

    @property
    def request(self) -> str:
        """Return the id of the report that its run is requested."""
        return f"{self.uuid}/{FailoverVerdict.ASK.value}"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a case."""

    case: Case
    verdict: FailoverVerdict
    because: str = ""
    """Which limit of the rule holds it, or what the coordinator is at."""
    command: str = ""
    standby: str = ""
    """Whose host a move with its standby takes."""

    @property
    def event(self) -> str:
        """Return its report's id: it is made once while its trouble lasts, also by a tick that comes twice."""
        case, suspect = self.case, self.case.suspect
        if self.verdict is FailoverVerdict.ASK:
            return case.request
        rule = self.because.partition(":")[0] if self.verdict is FailoverVerdict.HELD else ""
        return f"{suspect.key}/{suspect.since_ms}/{case.processor}/{self.verdict.value}/{rule}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one look has led to."""

    cursor: FailoverCursor
    advice: tuple[Decision, ...] = ()
    """What wasn't reported before, the most urgent first."""
    over: tuple[Suspect, ...] = ()
    """What was reported and looks well again."""
    too_many: int = 0
    """How many suspects were refused to be judged; 0: none."""


def judge(
    cursor: FailoverCursor, seen: Observation, settings: AutoFailover, now_ms: int
) -> Judgement:
    """Take one look into account; return the next cursor, what is decided and what is over."""
    look = Look.at(seen, cursor, settings, now_ms)
    signals = look.signals()
    after = replace(look.cursor, looked_ms=now_ms).without_old_acts(now_ms)
    if len(signals) > MOST_SUSPECTS:
        return Judgement(after, too_many=len(signals))
    suspects, over = _followed(look, signals)
    after, advice = _decided(replace(look, cursor=replace(after, suspects=suspects)), signals)
    return Judgement(after, advice, over)


def _followed(
    look: Look, signals: Mapping[str, Suspect]
) -> tuple[dict[str, Suspect], tuple[Suspect, ...]]:
    """Return the suspects after this look, and those that were reported and are over."""
    suspects: dict[str, Suspect] = {}
    over: list[Suspect] = []
    for key, new in signals.items():
        old = look.cursor.suspects.get(key)
        if old is None:
            old = replace(new, was=new.was or look.seen.state_of(p for p, _ in new.members))
        bad = min(old.bad + 1, BAD_LOOKS)
        suspects[key] = replace(old, members=new.members, why=new.why, bad=bad, good=0)
    is_dead = any(signal.kind == Kind.JOB_DEAD for signal in signals.values())
    for key, old in look.cursor.suspects.items():
        if key in signals:
            continue
        is_good = not is_dead and _looks_well(old, look)
        now = replace(old, good=old.good + is_good)
        if not now.is_over:
            suspects[key] = now
        elif now.told:
            over.append(replace(now, became=look.seen.state_of(p for p, _ in now.members)))
    return suspects, tuple(over)


def _looks_well(suspect: Suspect, look: Look) -> bool:
    """Return whether what isn't bad any more is known to be well."""
    seen, one = look.seen, look.seen.by_id.get(suspect.subject)
    if one is not None and suspect.kind in (Kind.FALLING_BEHIND, Kind.SILENT, Kind.STANDBY_STALLED):
        # Without its lag, or its reports, recovery can't be judged now.
        no_lag = suspect.kind == Kind.STANDBY_STALLED and one.left is None
        if one.unread or no_lag or one.processor_id in look.overdue:
            return False
    if seen.can.tells_what_runs or suspect.kind not in (Kind.SILENT, Kind.HOST_SICK):
        return True
    # That it was started elsewhere is no sign that it works there: it has to report.
    since_ms = max(look.cursor.deployment_ms, suspect.since_ms)
    there = (p for p, _ in suspect.members if p in seen.by_id)
    return all(look.has_reported(processor, since_ms) for processor in there)


def _decided(
    look: Look, signals: Mapping[str, Suspect]
) -> tuple[FailoverCursor, tuple[Decision, ...]]:
    """Decide on each confirmed suspect that looks bad now; return what is new."""
    cursor, now_ms = look.cursor, look.now_ms
    suspects, acts = dict(cursor.suspects), dict(cursor.acts)
    bad = look.bad_hosts(signals.values())
    nobody_reads = any(s.kind in (Kind.COORDINATOR_GONE, Kind.JOB_DEAD) for s in signals.values())
    found: list[Decision] = []
    judged: set[str] = set()
    for case in _cases(look, signals):
        suspect = suspects[case.suspect.key]
        if case.uuid in judged or case.request in suspect.told:
            continue
        judged.add(case.uuid)
        # An evaluation whose cursor wasn't kept may have asked for the run, or died before that.
        others = {k: a for k, a in acts.items() if k != case.uuid or a.at_ms < suspect.since_ms}
        now = replace(look, cursor=replace(cursor, acts=others))
        decision = _decide(case, now, bad, nobody_reads=nobody_reads)
        if decision.event in suspect.told:
            continue
        suspects[suspect.key] = replace(suspect, told=(*suspect.told, decision.event))
        found.append(decision)
        if decision.verdict is FailoverVerdict.ASK:
            acts.setdefault(case.uuid, Act(case.group, now_ms))
    return replace(cursor, suspects=suspects, acts=acts), tuple(found)


def _cases(look: Look, signals: Mapping[str, Suspect]) -> Iterator[Case]:
    """Return what is confirmed and looks bad now, container by container, the most urgent first."""
    seen = look.seen
    confirmed = (s for key, s in look.cursor.suspects.items() if key in signals and s.is_confirmed)
    for suspect in sorted(confirmed, key=_urgency):
        for processor, incarnation in suspect.members:
            one = seen.by_id.get(processor)
            group, host = (one.group, one.host or "") if one is not None else (processor, "")
            does = action(suspect.kind, seen.can, active=one is not None and one.active)
            what = does if does != NOTHING else suspect.kind
            newest = look.cursor.acknowledged.get(group, 0)
            text = f"{seen.job}/{what}/{processor}/{incarnation}/{newest}"
            uuid = str(uuid_module.uuid5(NAMESPACE, text))
            yield Case(suspect, processor, incarnation, group, host, does, uuid)


def _urgency(suspect: Suspect) -> tuple[bool, int, str]:
    """Sort what concerns many first, then what lasts longest."""
    is_wide = suspect.kind == Kind.HOST_SICK or suspect.kind in OF_NO_CONTAINER
    return not is_wide, suspect.since_ms, suspect.key


def _decide(case: Case, look: Look, bad: Collection[str], *, nobody_reads: bool) -> Decision:
    seen, cursor, settings, group = look.seen, look.cursor, look.settings, case.group
    kind, may_lag = case.suspect.kind, not seen.can.places_tasks
    mode = settings.mode or ("advise" if seen.can.shows_its_life else "shadow")
    advice = FailoverVerdict.SHADOW if mode == "shadow" else FailoverVerdict.ADVISE
    standbys = _healthy_standbys(seen, group, bad, may_lag=may_lag)
    does = command(case, seen, standbys, bad)

    def held(rule: str, why: str) -> Decision:
        return Decision(case, FailoverVerdict.HELD, f"{rule}: {why}", does)

    if kind not in OF_NO_CONTAINER and group in seen.busy:
        return Decision(case, FailoverVerdict.WATCH, seen.busy[group], does)
    if kind == Kind.HOST_SICK and not seen.can.shows_its_life:
        return Decision(case, FailoverVerdict.WATCH, LEFT_TO_AM, does)
    if case.action == NOTHING:
        return Decision(case, advice, "", does)
    if nobody_reads:
        return held("no coordinator", "nobody would read the request, or much later")
    if case.action in (FAIL_OVER, MOVE_WITH_STANDBY) and not standbys:
        warm = "" if may_lag else "warm (samza-dagster lag) and "
        return held("no standby", f"none is {warm}on a host that looks well")
    if group in seen.lost:
        return held("changelog lost", f"its state may be nowhere else: {seen.lost[group]}")
    blocking = [k for k, act in cursor.acts.items() if act.group == group and cursor.blocks(act)]
    if blocking:
        if case.action == RESTART:
            does = f"job relocate_standby with processor {case.processor}: a restart didn't help it"
        return held("block", f"run {blocking[-1]} acted on this group; acknowledge it first")
    alive = {h for h, state in seen.host_states.items() if state != LOST}
    hosts = len(alive | {c.host for c in seen.containers if c.host} | set(bad))
    if len(bad) > 1 and len(bad) > settings.mass_share * hosts:
        names = ", ".join(sorted(bad)[:5])
        return held("mass", f"{len(bad)} of {hosts} hosts look bad: {names}")
    if mode != "act":
        return Decision(case, advice, "", does)
    lately = cursor.acts_lately(look.now_ms)
    if lately >= settings.cap_per_hour:
        return held(
            "cap", f"{lately} requests within the hour, at most {settings.cap_per_hour} are allowed"
        )
    standby = standbys[0].processor_id if case.action == MOVE_WITH_STANDBY else ""
    return Decision(case, FailoverVerdict.ASK, "", does, standby)


def _healthy_standbys(
    seen: Observation, group: str, bad: Collection[str], *, may_lag: bool
) -> list[ContainerSeen]:
    """Return a group's standbys that run where nothing looks bad.

    Where nobody refuses one that is far behind (`may_lag` is False), only those that are warm.
    """
    return [
        standby
        for standby in seen.standbys.get(group, ())
        if standby.runs
        and standby.host not in bad
        and (may_lag or (standby.left is not None and standby.left < STANDBY_BEHIND))
    ]
