"""The judgement of `auto_failover`: a cursor and a look in, a cursor and decisions out. Pure.

What helps against a trouble is told by what the coordinator can do: jobs to launch, commands to run.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote

from samza_dagster.model.capabilities import Capabilities
from samza_dagster.orchestration.watch.cursor import (
    BAD_LOOKS,
    OF_NO_CONTAINER,
    Act,
    FailoverCursor,
    Kind,
    Suspect,
)
from samza_dagster.orchestration.watch.observation import LOST, ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.signals import STANDBY_BEHIND, Look

NAMESPACE = uuid_module.UUID("0b9d3a58-3f8e-5c0c-9a7e-5d0f6f2f3c41")
MOST_SUSPECTS = 100
"""Where more looks bad at once no single failover mends it, and the cursor has to stay small."""

# Named as the jobs that carry them out.
FAIL_OVER = "fail_over"
MOVE_WITH_STANDBY = "move_with_standby"
"""The active takes its standby's place, where there is no fail-over."""
RESTART = "restart_container"
NOTHING = "nothing"

LEFT_TO_AM = "Samza's AM starts its containers elsewhere once YARN takes the node for lost"
_RUN_COORDINATOR = (
    "samza-dagster coordinator run --config <the job's properties> --launch"
    " <how a container is started> --token-file <the job's token> --url-file <where agents look>"
)
_RUN_PROCESSORS = (
    "samza-dagster processor run --config <the job's properties> --launch <how a"
    " container is started> --processor-id <its id> --directory <its directory>, on each host"
)
_DEPLOY_AGAIN = (
    "deploy the job again, as it was submitted before, if its YARN application has ended"
    " (yarn application -list): nobody would read a request"
)
_AM_GONE = "wait: YARN starts another Application Master by itself; else its log says why not"
_AM_REPLACED = (
    "samza-dagster status: what was in flight ended without an answer; what is still wanted is to"
    " be asked again"
)


class FailoverVerdict(StrEnum):
    """The verdict on one case."""

    ASK = "ask"  # a run is requested
    ADVISE = "advise"
    SHADOW = "shadow"
    WATCH = "watch"  # the coordinator is at it
    HELD = "held"  # a limit of the rule forbids it


@dataclass(frozen=True, slots=True)
class Decision:
    """A container of a suspect, what would help it, and what is to be done about it."""

    suspect: Suspect
    processor: str
    incarnation: str
    group: str
    host: str
    action: str
    uuid: str
    """The run key: each failure has one run, however often it is derived."""
    verdict: FailoverVerdict = FailoverVerdict.ASK
    because: str = ""
    """Which limit of the rule holds it, or what the coordinator is at."""
    command: str = ""
    standby: str = ""
    """The standby whose host a move takes."""

    @property
    def event(self) -> str:
        """Return its report's id: it is made once while its trouble lasts, also by a tick that comes twice."""
        if self.verdict is FailoverVerdict.ASK:
            return f"{self.uuid}/{self.verdict.value}"
        rule = self.because.partition(":")[0] if self.verdict is FailoverVerdict.HELD else ""
        begin = f"{self.suspect.key}/{self.suspect.since_ms}"
        return f"{begin}/{self.processor}/{self.verdict.value}/{rule}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one look."""

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
        if case.uuid in judged or case.event in suspect.told:  # that its run is requested
            continue
        judged.add(case.uuid)
        # An evaluation whose cursor was lost may or may not have asked for the run.
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


def _cases(look: Look, signals: Mapping[str, Suspect]) -> Iterator[Decision]:
    """Return what would be asked for what is confirmed and looks bad now, the most urgent first."""
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
            yield Decision(suspect, processor, incarnation, group, host, does, uuid)


def _urgency(suspect: Suspect) -> tuple[bool, int, str]:
    """Sort what concerns many first, then what lasts longest."""
    is_wide = suspect.kind == Kind.HOST_SICK or suspect.kind in OF_NO_CONTAINER
    return not is_wide, suspect.since_ms, suspect.key


def _decide(case: Decision, look: Look, bad: Collection[str], *, nobody_reads: bool) -> Decision:
    seen, cursor, settings, group = look.seen, look.cursor, look.settings, case.group
    kind, may_lag = case.suspect.kind, not seen.can.places_tasks
    mode = settings.mode or ("advise" if seen.can.shows_its_life else "shadow")
    advice = FailoverVerdict.SHADOW if mode == "shadow" else FailoverVerdict.ADVISE
    standbys = _healthy_standbys(seen, group, bad, may_lag=may_lag)
    does = command(case, seen, standbys, bad)

    def decided(verdict: FailoverVerdict, because: str = "") -> Decision:
        return replace(case, verdict=verdict, because=because, command=does)

    def held(rule: str, why: str) -> Decision:
        return decided(FailoverVerdict.HELD, f"{rule}: {why}")

    if kind not in OF_NO_CONTAINER and group in seen.busy:
        return decided(FailoverVerdict.WATCH, seen.busy[group])
    if kind == Kind.HOST_SICK and not seen.can.shows_its_life:
        return decided(FailoverVerdict.WATCH, LEFT_TO_AM)
    if case.action == NOTHING:
        return decided(advice)
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
        return decided(advice)
    lately = cursor.acts_lately(look.now_ms)
    if lately >= settings.cap_per_hour:
        return held(
            "cap", f"{lately} requests within the hour, at most {settings.cap_per_hour} are allowed"
        )
    standby = standbys[0].processor_id if case.action == MOVE_WITH_STANDBY else ""
    return replace(case, command=does, standby=standby)


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


def action(kind: Kind, can: Capabilities, *, active: bool) -> str:
    """Return the job that helps against a signal about such a container."""
    if active and (
        kind in (Kind.FALLING_BEHIND, Kind.SILENT)
        or (kind == Kind.HOST_SICK and can.shows_its_life)
    ):
        return FAIL_OVER if can.has_own_requests else MOVE_WITH_STANDBY
    # Our coordinator restarts a standby by itself; a standalone group restarts none alone.
    is_restarted = kind in (Kind.SILENT, Kind.STANDBY_STALLED) and not can.shows_its_life
    return RESTART if is_restarted and not active else NOTHING


def command(
    case: Decision, seen: Observation, standbys: Sequence[ContainerSeen], bad: Collection[str]
) -> str:
    """Return what a person would run, where this coordinator takes it.

    `standbys` may take the container's place; `bad` are the hosts that look bad.
    """
    kind, can, unit = case.suspect.kind, seen.can, quote(case.processor)
    if kind in OF_NO_CONTAINER:
        if can.shows_its_life:
            return _RUN_PROCESSORS if can.places_tasks else _RUN_COORDINATOR
        return {Kind.COORDINATOR_GONE: _AM_GONE, Kind.JOB_DEAD: _DEPLOY_AGAIN}.get(
            kind, _AM_REPLACED
        )
    if can.has_own_requests:
        if standbys:
            return f"samza-dagster fail-over {unit}"
        return f"samza-dagster place {unit} --to ANY_HOST, which restores its state anew"
    if can.places_tasks:
        return _of_a_task(case, seen, standbys, bad)
    if kind == Kind.HOST_SICK:
        return f"samza-dagster status {unit}, until it is on another host"
    if case.action == RESTART:
        return f"samza-dagster place {unit} --to LAST_SEEN"
    if not standbys:
        return f"samza-dagster place {unit} --to LAST_SEEN, where its state is"
    standby = standbys[0]
    return (
        f"job move_with_standby with processor {case.processor} and standby {standby.processor_id};"
        f" or samza-dagster place {quote(standby.processor_id)} --to ANY_HOST, then samza-dagster place"
        f" {unit} --to {standby.host}"
    )


def _of_a_task(
    case: Decision, seen: Observation, standbys: Sequence[ContainerSeen], bad: Collection[str]
) -> str:
    """Return the command of a standalone group: a task is moved by itself, and restarts with its processor."""
    one, unit = seen.by_id.get(case.processor), quote(case.processor)
    if case.action == MOVE_WITH_STANDBY and standbys:
        if len(seen.standbys[case.group]) == 1:
            return f"samza-dagster place {unit} --to STANDBY"
        standby = standbys[0].processor_id
        return f"job move_with_standby with processor {case.processor} and standby {standby}"
    if one is not None and not one.active and (free := seen.free_for(one) - set(bad)):
        return f"samza-dagster place {unit} --to {min(free)}"
    if one is None or not one.holder:
        return f"samza-dagster explain {unit}"
    return (
        f"samza-dagster place {quote(one.holder)} --to LAST_SEEN, which restarts that processor"
        " with all its tasks where they are"
    )
