"""A tick of `auto_failover`: looks at what a coordinator can't see, and shadows, advises or acts.

What it asks, it asks within its tick; the run that follows watches and records it. Dagster
begins a tick every 5 s at best, so a tick looks again and again until there is something to
tell. Dagster keeps its cursor when it has ended: what the next look may act on is kept before
that look, so that a tick that is killed after it asked leaves what the next one finds it by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import InvalidInput, Unreachable, some_of
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.history.names import HISTORY, KEY
from samza_dagster.orchestration.job_sensor import JobTick, TickResult
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tag
from samza_dagster.orchestration.ticks import since_boot, steady_now
from samza_dagster.orchestration.watch.audit import move_request, run_request
from samza_dagster.orchestration.watch.cases import Case
from samza_dagster.orchestration.watch.hysteresis import SAME_LOOK_MS
from samza_dagster.orchestration.watch.memory import Memory
from samza_dagster.orchestration.watch.observation import Observation, busy_groups, observation_of
from samza_dagster.orchestration.watch.policy import (
    Decision,
    FailoverVerdict,
    cases_left_out,
    decide,
    least_looks,
    may_be_known,
    mode_of,
    remembered,
    still_blocking,
)
from samza_dagster.orchestration.watch.remedies import FAIL_OVER, MOVE_WITH_STANDBY, RESTART
from samza_dagster.orchestration.watch.reported import (
    acknowledged,
    decision_event,
    event_id,
    recovered_event,
    recovered_id,
    reports,
    restored,
    with_episodes,
    with_reports,
)
from samza_dagster.orchestration.watch.score import incidents, score_metadata
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.signals import JudgedSignals, judge
from samza_dagster.orchestration.watch.stored import InstanceEvents, InstanceKeeper, Log

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

Members = tuple[tuple[str, str], ...]
SHARE_OF_LOOKING = 4
"""So much longer than the last look took is the pause before the next, while all looks well."""
LONGEST_TICK_S = 55.0
"""Dagster gives up on a tick after 60 s, and its cursor is lost then."""


@dataclass
class Tick:
    """One tick: the events, the runs and the cursor that it ends with."""

    client: PlacementClient
    events: InstanceEvents
    keeper: InstanceKeeper
    settings: AutoFailover
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    since_boot: Callable[[], tuple[str, int]] = lambda: ("", 0)
    say: Callable[[str], None] = lambda _text: None
    key: dg.AssetKey = KEY
    prefix: str = ""
    now_ms: int = 0
    reported: list[dg.AssetObservation] = field(default_factory=list[dg.AssetObservation])
    runs: list[dg.RunRequest] = field(default_factory=list[dg.RunRequest])
    unread: tuple[str, ...] = ()
    _lasting: dict[str, Members] | None = None

    def run(self, cursor: str | None) -> Memory:
        """Looks, decides, asks. Raises `Unreachable` when nothing could be read.

        `unread` is what couldn't, where something could.
        """
        observation = look(self.client)
        if set(observation.unread) - set(self.unread):
            self.say(f"not known at this look: {some_of(observation.unread)}; the rest is judged")
        self.unread = observation.unread
        before = self._before(cursor, observation.job)
        kept = before.clock if before is not None else ""
        self.now_ms, clock = steady_now(kept, self.now(), *self.since_boot())
        if before is not None and before.clock != clock:
            before = before.by_another_clock(self.now_ms)
        log: Log | None = None
        if before is None or before.acted or before.suspects:
            log = self._read(0 if before is None else before.read_to)
            before = restored(log.events, observation.job) if before is None else before
            before = replace(before, read_to=log.read_to)
        before = replace(before, clock=clock)
        known = log.events if log is not None else ()
        judged = judge(
            observation, with_reports(before, known, observation.job), self.settings, self.now_ms
        )
        if not (judged.ended or before.acted or before.suspects or judged.memory.suspects):
            return judged.memory
        log = self._read(before.read_to) if log is None else log
        said = {**reports(log.events, observation.job), **judged.memory.reported}
        known_acks = {**before.acks, **acknowledged(log.events, observation.job)}
        memory = still_blocking(judged.memory, known_acks, self.now_ms)
        memory = replace(with_episodes(memory, said), acks=known_acks, reported=said)
        memory = replace(memory, read_to=log.read_to)
        judged = replace(judged, memory=memory)
        decisions = decide(
            observation,
            before,
            judged,
            self.settings,
            self.now_ms,
            acknowledged=known_acks,
            known=self._known(observation, before, judged, known_acks),
        )
        new: dict[str, int] = {}
        carried_out: list[Decision] = []
        for decision in decisions:
            refused = ""
            if decision.verdict is FailoverVerdict.ASK:
                try:
                    self._ask(decision.case)
                except InvalidInput as error:
                    refused = str(error)
                except _Changed as changed:
                    self.say(f"{decision.case.processor}: {changed}: nothing is asked")
                    continue
                except Unreachable as error:
                    self.say(f"{decision.case.processor}: {error}: asked again in the next tick")
                    continue
            if not refused:
                carried_out.append(decision)
                if decision.verdict in (FailoverVerdict.ASK, FailoverVerdict.ADOPT):
                    self.runs.append(self._run_of(decision, job_tag(observation.job, self.prefix)))
            ident = event_id(decision, refused)
            is_new = ident not in said and ident not in new
            new[ident] = self.now_ms  # what stands is remembered before what is long over
            if is_new:
                self.reported.append(
                    decision_event(
                        decision,
                        job=observation.job,
                        host=_host_of(observation, decision.case),
                        now_ms=self.now_ms,
                        refused=refused,
                        key=self.key,
                    )
                )
        for suspect in judged.ended:
            ident = recovered_id(suspect)
            new[ident] = said.get(ident, self.now_ms)
            if ident not in said:
                over = recovered_event(
                    suspect, job=observation.job, now_ms=self.now_ms, key=self.key
                )
                self.reported.append(self._scored(over, log, observation.job))
        left_out = judged.memory.left_out + cases_left_out(observation, judged, known_acks)
        after = remembered(judged.memory, tuple(carried_out), new, self.now_ms, observation)
        return replace(after, left_out=left_out)

    def goes_on(self, memory: Memory) -> bool:
        """Whether another look may lead to something before the next tick.

        What is confirmed is over after good looks, and those are counted from tick to tick.
        """
        lasting = self._lasting or {}
        due = any(
            s.confirmed and lasting.get(key) == s.members for key, s in memory.suspects.items()
        )
        return not (self.reported or self.runs or due)

    def keep(self, memory: Memory) -> None:
        """Makes last what one more bad look would confirm, before that look."""
        near = _near(memory, self.settings)
        if near.items() - (self._lasting or {}).items():
            self.keeper.keep(memory.job, memory.to_text())
            self._lasting = near

    def _read(self, back_to: int) -> Log:
        """Dagster's events since they were read last: an acknowledgement may stand behind many."""
        log = self.events.read(back_to)
        if log.cut:
            self.say(
                f"only the newest {len(log.events):,} events of {self.key.to_user_string()} were"
                " read: if a block should have been lifted before them, acknowledge it again"
            )
        return log

    def _before(self, cursor: str | None, job: str) -> Memory | None:
        """What is known from before this look; at the first, also of a tick that was cut off."""
        memory = Memory.read(cursor, job, self.say)
        if self._lasting is not None:
            return memory
        text = self.keeper.kept(job)
        kept = Memory.read(text, job, self.say)
        if kept is not None and (memory is None or memory.looks < kept.looks):
            memory = kept
        elif text:
            self.keeper.keep(job, "")  # so that it can't outlive a cursor that is reset
        self._lasting = {} if memory is None else _near(memory, self.settings)
        return memory

    def _scored(self, over: dg.AssetObservation, log: Log, job: str) -> dg.AssetObservation:
        """The event of a trouble's end, with what became of it and of those before it."""
        found = incidents((*reversed(log.events), *self.reported, over), job)
        own = [one.sooner_s for one in found if one.suspect == over.metadata["suspect"].value]
        sooner = own[-1] if own else None
        return dg.AssetObservation(
            asset_key=over.asset_key,
            description=over.description,
            metadata={
                **over.metadata,
                **score_metadata(found),
                **({} if sooner is None else {"sooner_seconds": sooner}),
            },
            tags=over.tags,
        )

    def _run_of(self, decision: Decision, job: str) -> dg.RunRequest:
        """The run that watches what was asked; or that asks it, in more than one request."""
        case = decision.case
        if case.action == MOVE_WITH_STANDBY:
            return move_request(job, self.prefix, case, decision.standby)
        return run_request(job, self.prefix, case, self.settings.watch_s)

    def _known(
        self, observation: Observation, before: Memory, judged: JudgedSignals, acks: dict[str, str]
    ) -> frozenset[str]:
        if mode_of(self.settings, observation) != "act":
            return frozenset()
        asked = may_be_known(observation, before, judged, self.settings, acks)
        return self.client.asked_before(asked)

    def _ask(self, case: Case) -> None:
        """Asks, unless the coordinator has begun something since the look."""
        view = self.client.view()
        processor = view.processors.get(case.processor)
        if processor is None or (processor.execution_id or "") != case.incarnation:
            raise _Changed("it is another incarnation by now")
        busy = busy_groups(view).get(case.group)
        if busy is not None:
            raise _Changed(busy)
        if case.action == RESTART:
            self.client.place(case.processor, LAST_SEEN, uuid=case.uuid)
        elif case.action == FAIL_OVER:
            # The coordinator may begin a failover of its own before it reads this.
            self.client.fail_over(
                case.processor, uuid=case.uuid, execution_id=case.incarnation or None
            )


class _Changed(Exception):
    """The world isn't what was looked at any more."""


def look(client: PlacementClient) -> Observation:
    """One look at the job."""
    seen = client.look()
    return observation_of(seen.job, seen.lags, seen.input_lags, seen.host_words, seen.unread)


def watch(
    tick: Tick,
    cursor: str | None,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
    began: float | None = None,
) -> Memory:
    """Looks until there is something to tell, or `look_for_s` is over.

    At most a fifth of the time is spent looking while all looks well, half of it once
    something looks bad. A look that would end after `LONGEST_TICK_S`, should it take as long
    as the last, is left to the next tick. `began`: when the tick did, by `clock`; None: now.
    Raises `Unreachable` when the first look failed; a later failure ends the tick with what
    was seen before it.
    """
    looked_at, settings = clock(), tick.settings
    began = looked_at if began is None else began
    memory = tick.run(cursor)
    took = clock() - looked_at
    while tick.goes_on(memory) and clock() - began < settings.look_for_s:
        pause_s = _pause_s(memory, settings, took)
        if clock() - began + pause_s + took > LONGEST_TICK_S:
            break
        tick.keep(memory)
        pause(pause_s)
        looked_at = clock()
        try:
            memory = tick.run(memory.to_text())
        except Unreachable as error:
            tick.say(f"no further look in this tick: {error}")
            break
        took = clock() - looked_at
    return memory


def evaluated(
    one: JobTick, samza: SamzaClientResource, client: PlacementClient, settings: AutoFailover
) -> TickResult:
    """One tick of the sensor: what it tells, launches and remembers."""
    key = samza.asset_key(HISTORY)
    tick = Tick(
        client,
        InstanceEvents(one.instance, key),
        InstanceKeeper(one.instance, key),
        settings,
        since_boot=since_boot,
        say=one.log.info,
        key=key,
        prefix=samza.prefix,
    )
    memory = watch(tick, one.cursor, began=one.began_s)
    skip = None if tick.reported or tick.runs else dg.SkipReason(quiet(memory, tick.unread))
    return dg.SensorResult(
        run_requests=tick.runs,
        asset_events=tick.reported,
        skip_reason=skip if not tick.runs else None,
        cursor=memory.to_text(),
    )


def _pause_s(memory: Memory, settings: AutoFailover, took_s: float) -> float:
    """Until the next look: once something looks bad, about the shortest after which a look counts.

    Looks differ: one that takes half as long as the last still counts. Half the time is for
    others then too.
    """
    if memory.suspects:
        return max(took_s, SAME_LOOK_MS / 1000 - took_s / 2)
    return max(settings.look_every_s, SHARE_OF_LOOKING * took_s)


def _near(memory: Memory, settings: AutoFailover) -> dict[str, Members]:
    """What the next look may act on, with the incarnations that it is about."""
    nearly = least_looks(settings)
    return {key: s.members for key, s in memory.suspects.items() if s.confirmed or s.bad >= nearly}


def _host_of(observation: Observation, case: Case) -> str | None:
    seen = observation.by_id.get(case.processor)
    return seen.host if seen is not None else None


def quiet(memory: Memory, unread: Sequence[str] = ()) -> str:
    """What a tick says that has nothing to tell; `unread`: what it couldn't read."""
    if unread:
        return f"{quiet(memory)}; not known: {some_of(unread)}"
    if not memory.suspects:
        return "all looks well"
    bad = sorted({f"{s.subject} {s.kind}" for s in memory.suspects.values()})
    more = f"; {memory.left_out} more for which there is no room now" if memory.left_out else ""
    return f"nothing new; looks bad: {', '.join(bad[:10])}{more}"
