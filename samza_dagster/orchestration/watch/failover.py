"""The judgement of `auto_failover`: a cursor and a look in, a cursor and decisions out. Pure."""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from samza_dagster.orchestration.watch.cursor import (
    COORDINATOR_GONE,
    FALLING_BEHIND,
    FLAPPING,
    JOB_DEAD,
    OF_A_HOST,
    OF_NO_CONTAINER,
    SILENT,
    STANDBY_DOWN,
    STANDBY_STALLED,
    Act,
    FailoverCursor,
    Suspect,
)
from samza_dagster.orchestration.watch.hysteresis import is_another_look
from samza_dagster.orchestration.watch.observation import LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.outcomes import as_it_is, awaits_report, with_news
from samza_dagster.orchestration.watch.remedies import (
    FAIL_OVER,
    MOVE_WITH_STANDBY,
    NOTHING,
    RESTART,
)
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.signals import STANDBY_BEHIND, Look

NAMESPACE = uuid_module.UUID("0b9d3a58-3f8e-5c0c-9a7e-5d0f6f2f3c41")
MOST_SUSPECTS = 100
"""Where more looks bad at once no single failover mends it, and the cursor has to stay small."""
_BY_LAG = (FALLING_BEHIND, SILENT, STANDBY_STALLED)


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
    action: str
    uuid: str
    """The run's key: one failure has one run, whoever derives it, and however often."""

    @property
    def asked(self) -> str:
        """What it is reported as when its run is requested."""
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
    def told(self) -> str:
        """What it is reported as, once while its trouble lasts."""
        if self.verdict is FailoverVerdict.ASK:
            return self.case.asked
        rule = self.because.partition(":")[0] if self.verdict is FailoverVerdict.HELD else ""
        return "/".join(filter(None, (self.case.processor, self.verdict.value, rule)))

    @property
    def event(self) -> str:
        """Its report's id, by which a tick that comes twice finds it."""
        suspect, is_run = self.case.suspect, self.verdict is FailoverVerdict.ASK
        return self.told if is_run else f"{suspect.key}/{suspect.since_ms}/{self.told}"


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

    @property
    def asked(self) -> tuple[Decision, ...]:
        """The decisions that a run carries out."""
        return tuple(d for d in self.advice if d.verdict is FailoverVerdict.ASK)


def judge(
    cursor: FailoverCursor, seen: Observation, settings: AutoFailover, now_ms: int
) -> Judgement:
    """Take one look into account."""
    look = Look.at(seen, cursor, settings, now_ms)
    signals = look.signals()
    counts = is_another_look(cursor.looked_ms, now_ms)
    after = replace(look.cursor, looked_ms=now_ms if counts else cursor.looked_ms)
    after = after.without_old_acts(now_ms)
    if len(signals) > MOST_SUSPECTS:
        return Judgement(after, too_many=len(signals))
    suspects, over = _followed(look, signals, counts=counts)
    after, advice = _decided(replace(look, cursor=replace(after, suspects=suspects)), signals)
    return Judgement(after, advice, over)


def _followed(
    look: Look, signals: Mapping[str, Suspect], *, counts: bool
) -> tuple[dict[str, Suspect], tuple[Suspect, ...]]:
    """Return the suspects after this look, and those that were reported and are over."""
    seen, now_ms, rule = look.seen, look.now_ms, look.settings.hysteresis
    suspects: dict[str, Suspect] = {}
    over: list[Suspect] = []
    for key, new in signals.items():
        old = look.cursor.suspects.get(key) or replace(new, was=as_it_is(new, seen))
        bad = replace(old, members=new.members, why=new.why, well_ms=0)
        suspects[key] = with_news(rule.after_bad(bad, now_ms, counts=counts), seen, now_ms)
    is_dead = any(signal.kind == JOB_DEAD for signal in signals.values())
    for key, old in look.cursor.suspects.items():
        if key in signals:
            continue
        if is_dead or _is_unknown(old, seen):
            suspects[key] = old
        elif awaits_report(old, look):
            suspects[key] = with_news(old, seen, now_ms)
        else:
            good = replace(rule.after_good(old, counts=counts), well_ms=old.well_ms or now_ms)
            good = with_news(good, seen, now_ms)
            if not rule.is_over(good):
                suspects[key] = good
            elif good.told:
                over.append(good)
    return suspects, tuple(over)


def _is_unknown(suspect: Suspect, seen: Observation) -> bool:
    """Return whether recovery can't be judged now, because lags are unreadable."""
    one = seen.by_id.get(suspect.subject)
    if one is None:
        return False
    # It reports, and its changelog isn't there to hold that against.
    no_lag = suspect.kind == STANDBY_STALLED and one.behind is None and one.applied is not None
    return no_lag or (one.unread and suspect.kind in _BY_LAG)


def _decided(
    look: Look, signals: Mapping[str, Suspect]
) -> tuple[FailoverCursor, tuple[Decision, ...]]:
    """Decide on each confirmed suspect that looks bad now; return what is new."""
    cursor, now_ms = look.cursor, look.now_ms
    suspects, acts = dict(cursor.suspects), dict(cursor.acts)
    bad = look.went_bad(suspects[key] for key in signals)
    nobody_reads = any(s.kind in (COORDINATOR_GONE, JOB_DEAD) for s in signals.values())
    found: list[Decision] = []
    judged: set[str] = set()
    for case in _cases(look, signals):
        if case.uuid in judged:
            continue
        judged.add(case.uuid)
        suspect = suspects[case.suspect.key]
        if case.asked in suspect.told:
            continue
        # An evaluation whose cursor wasn't kept may have asked for the run, or died before that.
        others = {
            k: a for k, a in acts.items() if k != case.uuid or a.at_ms < case.suspect.since_ms
        }
        now = replace(look, cursor=replace(cursor, acts=others))
        decision = _decide(case, now, bad, nobody_reads=nobody_reads)
        if decision.told in suspect.told:
            continue
        suspects[suspect.key] = replace(suspect, told=(*suspect.told, decision.told))
        found.append(decision)
        if decision.verdict is FailoverVerdict.ASK:
            acts.setdefault(case.uuid, Act(case.group, now_ms))
    return replace(cursor, suspects=suspects, acts=acts), tuple(found)


def _cases(look: Look, signals: Mapping[str, Suspect]) -> Iterator[Case]:
    """Return what is confirmed and looks bad now, container by container, the most urgent first."""
    seen, remedies = look.seen, look.seen.remedies
    confirmed = (s for key, s in look.cursor.suspects.items() if key in signals and s.confirmed)
    for suspect in sorted(confirmed, key=_urgency):
        for processor, incarnation in suspect.members:
            one, group = seen.by_id.get(processor), seen.group_of(processor)
            action = remedies.action(suspect.kind, active=one is not None and one.active)
            newest = look.cursor.acknowledged.get(group)
            what = action if action != NOTHING else suspect.kind
            text = f"{seen.job}/{what}/{processor}/{incarnation}/{newest.ident if newest else 0}"
            uuid = str(uuid_module.uuid5(NAMESPACE, text))
            yield Case(suspect, processor, incarnation, group, action, uuid)


def _urgency(suspect: Suspect) -> tuple[int, int, str]:
    """Sort what concerns many first, then what can be acted on, then what lasts longest."""
    is_wide = suspect.kind in (*OF_NO_CONTAINER, *OF_A_HOST)
    weight = 0 if is_wide else 2 if suspect.kind in (STANDBY_DOWN, FLAPPING) else 1
    return weight, suspect.since_ms, suspect.key


def _decide(
    case: Case, look: Look, bad: Mapping[str, tuple[int, ...]], *, nobody_reads: bool
) -> Decision:
    seen, cursor, settings = look.seen, look.cursor, look.settings
    remedies, group = seen.remedies, case.group
    mode = settings.mode or remedies.mode
    advice = FailoverVerdict.SHADOW if mode == "shadow" else FailoverVerdict.ADVISE
    standbys = _healthy_standbys(seen, group, bad)
    command = remedies.command(case, seen, standbys, bad)

    def held(rule: str, why: str) -> Decision:
        return Decision(case, FailoverVerdict.HELD, f"{rule}: {why}", command)

    busy = "" if case.suspect.kind in OF_NO_CONTAINER else _handled(case, seen)
    if busy:
        return Decision(case, FailoverVerdict.WATCH, busy, command)
    if case.suspect.kind in OF_A_HOST and remedies.left_to:
        return Decision(case, FailoverVerdict.WATCH, remedies.left_to, command)
    if case.action == NOTHING:
        return Decision(case, advice, "", command)
    if nobody_reads:
        return held("no coordinator", "nobody would read the request, or much later")
    if case.action in (FAIL_OVER, MOVE_WITH_STANDBY) and not standbys:
        warm = "warm (samza-dagster lag) and " if remedies.judges_standbys else ""
        return held("no standby", f"none is {warm}on a host that looks well")
    if group in seen.lost:
        return held("changelog lost", f"its state may be nowhere else: {seen.lost[group]}")
    blocking = [k for k, act in cursor.acts.items() if act.group == group and cursor.blocks(act)]
    if blocking:
        if case.action == RESTART:
            command = (
                f"job relocate_standby with processor {case.processor}: a restart didn't help it"
            )
        return held("block", f"run {blocking[-1]} acted on this group; acknowledge it first")
    at_once, hosts = look.together(bad, case.suspect.since_ms)
    if len(at_once) > 1 and len(at_once) > settings.mass_share * hosts:
        names = ", ".join(at_once[:5])
        return held("mass", f"{len(at_once)} of {hosts} hosts went bad together: {names}")
    if mode != "act":
        return Decision(case, advice, "", command)
    lately = cursor.acts_lately(look.now_ms)
    if lately >= settings.cap_per_hour:
        return held(
            "cap", f"{lately} requests within the hour, at most {settings.cap_per_hour} are allowed"
        )
    standby = standbys[0].processor_id if case.action == MOVE_WITH_STANDBY else ""
    return Decision(case, FailoverVerdict.ASK, "", command, standby)


def _handled(case: Case, seen: Observation) -> str:
    """Return what the coordinator is at there; empty: nothing."""
    one = seen.by_id.get(case.processor)
    host = one.host if one is not None else None
    lost = seen.host_states.get(host or "") == LOST
    handled = f"host {host} is lost, which it handles" if lost else ""
    return seen.busy.get(case.group, handled)


def _healthy_standbys(seen: Observation, group: str, bad: Collection[str]) -> list[ContainerSeen]:
    """Return a group's standbys that run where nothing looks bad.

    They are warm, too, where nobody but the sensor judges that.
    """
    return [
        standby
        for standby in seen.standbys.get(group, ())
        if standby.runs
        and standby.host not in bad
        and (not seen.remedies.judges_standbys or standby.is_within(STANDBY_BEHIND))
    ]
