"""Decide a standalone processor's next step, as member of its group and as its leader. Pure.

`step` derives commands from one reading of the group. It is called again after every event, so a
command that lost a race to another processor is simply not repeated. The rules are
`ZkJobCoordinator`'s (Samza 1.8), so that its Java processors may be in the group:

- The member with the lowest sequence leads. After a change of members, and when it begins to
  lead, it waits until they have been the same for the debounce time, and publishes a new version.
- A member stops the containers of which a version takes tasks away, then joins that version's
  barrier; active tasks that stay go on (`work`). Samza's own stop all.
- When all that were expected have joined, the version is agreed: each writes where its tasks are
  and starts what is new to it. A barrier that isn't complete in time is given up, and the leader
  tries anew.
- A leader of a settled group asks its grouper again from time to time: Samza has no such rule, and
  no standbys.
- A leader takes up placement requests (`requests`), and makes a version where one asks for it.
- A processor gives up when a container doesn't check in in time, or ends by itself: its tasks go to
  the others.
- No processor works without ZooKeeper: its work has stopped before the session can have expired.
  Samza's own may stop later, so after one has left a leader waits for a session's time at least.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from samza_dagster.assignment.comparison import inputs_of, places_of, uneven
from samza_dagster.model import JobModel
from samza_dagster.standalone import requests
from samza_dagster.standalone.commands import (
    Command,
    EndBarrier,
    Expect,
    GiveUp,
    JoinBarrier,
    Publish,
    Register,
    ReportRunning,
    StartWork,
    StopWork,
)
from samza_dagster.standalone.group import BarrierState, GroupView, Member, Running
from samza_dagster.standalone.work import NO_WORK, ProcessorWork

VERSIONS_KEPT = 10
_RUNS_ON_MS = 8_000
PINS_WAIT_MS = 1_000
"""So long a version waits for more requests, at most; the debounce time is for members that come and go."""


@dataclass(frozen=True)
class Settings:
    """Times in ms: `job.debounce.time.ms`, `job.coordinator.zk.consensus.timeout.ms`, `…session.timeout.ms`.

    `probe_ms`: this long after a version was agreed on the leader calls its grouper again. A new
    processor got standbys first, and gets actives once these have had that time to catch up.
    `start_ms` is how long a container may take from its start to its check-in:
    `samza.dagster.start.timeout.ms`. `stop_ms` is how long the end of its containers may take at
    most: so much earlier than its session can expire a processor that hears nothing of ZooKeeper
    begins to stop. `containers` is how many its active tasks may have, each a process, but for the
    moment of a change.
    """

    debounce_ms: int = 20_000
    consensus_ms: int = 40_000
    session_ms: int = 30_000
    start_ms: int = 120_000
    stop_ms: int = 10_000
    probe_ms: int = 600_000
    containers: int = 3

    @property
    def runs_on_ms(self) -> int:
        """How long a container that a version ends may run on: a part of the barrier's time, ms."""
        return min(_RUNS_ON_MS, self.consensus_ms // 4)


@dataclass(frozen=True)
class Round:
    """A version that this leader has published, and until when its members are awaited."""

    version: int
    ends_ms: int


@dataclass(frozen=True)
class ProcessorState:
    """A processor's state, by its own clock.

    `sequence` is its node's while it is registered, since `registered_ms`. `heard_ms` is when the
    last answered question to ZooKeeper was sent. `found` is the version at its registration, which
    may not expect this processor. `samza` are the registered processors of Samza's own, and one of
    them may have left at `samza_left_ms`. `work` are its containers. `joined` is the version of the
    newest barrier that it has joined. `restarted` is the request of its last restart, `running` its
    last report.

    The other fields are a leader's: `counted` are the members that it saw last, and `plan_ms` is when it
    publishes for them. `served` are the members of its last version, and `round` is that version until it
    has ended. `probe_ms` is when it checks the spread again. `trouble` is why it can't make a version, and
    `refused` why the newest isn't for all inputs.
    """

    processor_id: str
    location: str
    settings: Settings
    heard_ms: int
    sequence: str | None = None
    registered_ms: int = 0
    found: int | None = None
    samza: frozenset[str] = frozenset()
    samza_left_ms: int | None = None
    work: ProcessorWork = NO_WORK
    joined: int = 0
    restarted: str | None = None
    running: Running | None = None
    counted: tuple[Member, ...] | None = None
    plan_ms: int | None = None
    served: tuple[Member, ...] = ()
    round: Round | None = None
    probe_ms: int | None = None
    trouble: str = ""
    refused: str = ""

    @property
    def said(self) -> str:
        """Return the text of its report."""
        return self.trouble or self.refused


Grouper = Callable[[GroupView, Set[str]], JobModel]
"""The JobModel for the members of a group, from where the tasks were before; some are to stay where they are. Pure.

It has a container for each member, without tasks where none are left; every member in it is expected.
"""


Step = tuple[ProcessorState, tuple[Command, ...]]
"""What a processor is from now on, and what it does."""


def registered(state: ProcessorState, sequence: str, now_ms: int) -> ProcessorState:
    """Return the state after its node was made."""
    return replace(state, sequence=sequence, registered_ms=now_ms, found=None)


def expired(state: ProcessorState) -> ProcessorState:
    """Return the state after its session: its node is gone, and another processor leads."""
    return replace(_without_lead(state), sequence=None, joined=0, running=None)


def inputs_changed(state: ProcessorState, now_ms: int) -> ProcessorState:
    """Return the state after new partitions of inputs: a leader plans for them."""
    is_settled = state.counted is not None and state.plan_ms is None and state.round is None
    return replace(state, plan_ms=now_ms) if is_settled else state


def step(
    state: ProcessorState,
    group: GroupView | None,
    now_ms: int,
    grouper: Grouper,
    asked_ms: int | None = None,
) -> Step:
    """Take a step after a reading that was asked for at `asked_ms`.

    None where ZooKeeper doesn't answer.

    Commands to containers are last, a start, which writes, before the others: after a failed write
    all commands may be repeated. `now_ms` is this processor's own clock, which never goes back.
    """
    if group is not None:
        state = replace(state, heard_ms=now_ms if asked_ms is None else asked_ms)
    if state.sequence is None or now_ms >= silent_from(state):
        state, ended = without_work(state, now_ms)
        if group is not None and state.sequence is None and not state.work.running:
            return state, (*ended, Register())
        return state, ended
    if group is None:
        return state, ()
    if not any(member.sequence == state.sequence for member in group.members):
        why = f"its node {state.sequence} was deleted, or overwritten, while its session lived: others get its tasks"
        return state, (GiveUp(why),)
    first = group.first_of(state.processor_id)
    if first is not None and first.sequence != state.sequence:
        return _as_duplicate(state, first, now_ms)
    late = state.work.longest_start
    if late is not None and now_ms >= late.since_ms + state.settings.start_ms:
        why = f"container {late.container} hasn't checked in {state.settings.start_ms / 1_000:g} s after its start"
        return state, (GiveUp(why),)
    state = _with_samza(replace(state, running=group.running.get(state.sequence)), group, now_ms)
    state, as_leader = _as_leader(state, group, now_ms, grouper)
    said = (state.running or Running(0))._replace(trouble=state.said)
    state, told = _reporting(state, said) if state.running or state.said else (state, ())
    state, as_member = _as_member(state, group, now_ms)
    return state, (*as_leader, *told, *as_member)


def decides(state: ProcessorState, now_ms: int) -> bool:
    """Return whether it leads and its next step may give tasks away, which takes a whole reading."""
    return any(at is not None and now_ms >= at for at in (state.plan_ms, state.probe_ms))


def wake_ms(state: ProcessorState) -> int | None:
    """Return when `step` is due without an event, or None."""
    ends_ms = None if state.round is None else state.round.ends_ms
    at_ms = (state.plan_ms, state.probe_ms, state.work.wake_ms, ends_ms)
    due = [at for at in at_ms if at is not None]
    late = state.work.longest_start
    due += [late.since_ms + state.settings.start_ms] if late is not None else []
    if len(state.work.running) > len(state.work.ending):
        due.append(silent_from(state))
    return min(due, default=None)


def silent_from(state: ProcessorState) -> int:
    """Return when it begins to stop, unless ZooKeeper answers a question sent after `heard_ms`."""
    return state.heard_ms + state.settings.session_ms - state.settings.stop_ms


def without_work(state: ProcessorState, now_ms: int) -> tuple[ProcessorState, tuple[StopWork, ...]]:
    """Return the commands that stop all that it runs, and the state after them."""
    work, orders = state.work.without().ordered(now_ms, state.settings.runs_on_ms)
    return replace(state, work=work), (StopWork(orders.ends),) if orders.ends else ()


def _with_samza(state: ProcessorState, group: GroupView, now_ms: int) -> ProcessorState:
    """Note which of Samza's own processors are there, and when one may have left.

    A processor that registers doesn't know the absent members of the newest version, which may
    include an earlier processor with its own id.
    """
    samza = frozenset(m.sequence for m in group.members if not m.holds_standbys)
    has_left = bool(state.samza - samza)
    if state.found is None:
        ids = {m.processor_id for m in group.members if m.sequence != state.sequence}
        has_left = group.model is not None and not group.model.containers.keys() <= ids
        state = replace(state, found=group.version)
    return replace(state, samza=samza, samza_left_ms=now_ms if has_left else state.samza_left_ms)


def _as_duplicate(state: ProcessorState, first: Member, now_ms: int) -> Step:
    if now_ms < state.registered_ms + 2 * state.settings.session_ms:
        return state, ()
    why = f"processor id {state.processor_id} is taken by {first.location} ({first.sequence})"
    return state, (GiveUp(why),)


def _as_member(state: ProcessorState, group: GroupView, now_ms: int) -> Step:
    barrier, model = group.barrier, group.model
    if model is None or barrier is None or group.version < state.joined:
        return state, ()  # it never takes up again what it has given up
    is_expected = state.processor_id in model.containers or state.found != group.version
    if barrier.state is BarrierState.NEW and is_expected and state.joined < group.version:
        state, ordered = _joined(state, group)
    elif barrier.state is BarrierState.DONE:
        state, ordered = _agreed(state, group, now_ms)
    else:
        ordered = ()
    work, orders = state.work.ordered(now_ms, state.settings.runs_on_ms)
    start = (StartWork(orders.starts, work.wanted, model),) if orders.starts else ()
    stop = (StopWork(orders.ends),) if orders.ends else ()
    is_news = work.expected != state.work.expected
    expect = (Expect(work.expected, work.wanted, model),) if is_news else ()
    return replace(state, work=work), (*ordered, *start, *stop, *expect)


def _joined(state: ProcessorState, group: GroupView) -> Step:
    """Join the barrier once nothing runs any more that the version takes away."""
    given, most = group.work_of(state.processor_id), state.settings.containers
    work = state.work.by(group.version, state.processor_id, given, most)
    state = replace(state, work=work)
    if work.gives_up(given):
        return state, ()
    return replace(state, joined=group.version), (JoinBarrier(group.version),)


def _agreed(state: ProcessorState, group: GroupView, now_ms: int) -> Step:
    """Run what the agreed version gives it, and report that once all of its containers have checked in."""
    restart = group.restarts.get(state.processor_id, state.restarted)
    work = state.work if restart == state.restarted else state.work.without()
    given, most = group.work_of(state.processor_id), state.settings.containers
    work = work.by(group.version, state.processor_id, given, most)
    state = replace(state, work=work, restarted=restart)
    if state.joined < group.version:
        return state, ()
    work = work.agreed(state.processor_id, most, now_ms)
    state = replace(state, work=work)
    if not work.has_checked_in:
        return state, ()
    return _reporting(state, Running(group.version, state.restarted, work.silent_ms, state.said))


def _reporting(state: ProcessorState, running: Running) -> Step:
    if running == state.running:
        return state, ()
    return replace(state, running=running), (ReportRunning(running),)


def _as_leader(state: ProcessorState, group: GroupView, now_ms: int, grouper: Grouper) -> Step:
    if group.members[0].sequence != state.sequence:
        return _without_lead(state), ()
    if state.counted != group.members:
        plan_ms = now_ms + state.settings.debounce_ms
        if state.samza_left_ms is not None:
            plan_ms = max(plan_ms, state.samza_left_ms + state.settings.session_ms)
        state = replace(state, counted=group.members, plan_ms=plan_ms)
    state, ended = _with_round(state, group, now_ms)
    # A newer one was agreed on, and somebody has deleted its barrier: nothing is so by this one.
    is_newest = group.version >= max(state.joined, group.agreed)
    is_usable = is_newest and _is_for(group)
    if state.plan_ms is None and state.round is None and not is_usable:
        state = _anew(state, now_ms)
    asked = requests.commands_for(group, is_settled=state.plan_ms is None) if is_newest else ()
    if state.plan_ms is None and state.round is None and requests.awaits_version(group):
        # A Java container that is starting survives no version: there the debounce time is longer than that.
        most_ms = state.settings.debounce_ms if state.samza else PINS_WAIT_MS
        plan_ms = now_ms + min(state.settings.debounce_ms, most_ms)
        state = replace(state, plan_ms=plan_ms)
    state = _probed(state, group, now_ms, grouper)
    is_due = state.plan_ms is not None and now_ms >= state.plan_ms and group.is_whole
    if not is_due or group.has_duplicates or asked:
        return state, (*ended, *asked)
    is_done = group.barrier is not None and group.barrier.state is BarrierState.DONE
    # Without this, no processor would end the barrier of a version if its answer was lost.
    is_same = group.members == state.served and is_usable and (is_done or state.round is not None)
    staying = requests.staying(group) if is_same else frozenset[str]()
    state, model = _planned(state, group, grouper, staying)
    if model is None:
        return replace(state, plan_ms=now_ms + PINS_WAIT_MS), ended
    if unmet := requests.unmet(group, model):
        return state, (*ended, *unmet)
    if is_same and not _is_news(group, model, is_asked=requests.awaits_version(group)):
        return replace(state, plan_ms=None), (*ended, *requests.commands_for(group))
    version = group.highest + 1
    published = Round(version, now_ms + state.settings.consensus_ms)
    state = replace(state, plan_ms=None, served=group.members, round=published)
    idle = requests.idle_pins(group, model)
    return state, (*ended, *idle, Publish(version, model, group.revision))


def _without_lead(state: ProcessorState) -> ProcessorState:
    return replace(
        state,
        counted=None,
        plan_ms=None,
        served=(),
        round=None,
        probe_ms=None,
        trouble="",
        refused="",
    )


def _planned(
    state: ProcessorState, group: GroupView, grouper: Grouper, staying: Set[str] = frozenset()
) -> tuple[ProcessorState, JobModel | None]:
    """Return the grouper's model.

    None where the grouper, maybe another package's, fails: the last version is kept.
    """
    try:
        return replace(state, trouble=""), grouper(group, staying)
    except Exception as error:
        return replace(state, trouble=str(error) or repr(error)), None


def _with_round(state: ProcessorState, group: GroupView, now_ms: int) -> Step:
    own = state.round
    if own is None:
        return state, ()
    barrier = group.barrier if own.version == group.version else None
    if barrier is not None and barrier.state is BarrierState.NEW:
        if _is_complete(state.served, group, barrier.participants):
            return replace(state, round=None), (EndBarrier(own.version, BarrierState.DONE),)
        if now_ms < own.ends_ms:
            return state, ()
        return _anew(state, now_ms), (EndBarrier(own.version, BarrierState.TIMED_OUT),)
    if barrier is not None and barrier.state is BarrierState.DONE:
        return replace(state, round=None), ()
    if group.version > own.version or now_ms >= own.ends_ms:
        return _anew(state, now_ms), ()
    return state, ()


def _is_complete(served: tuple[Member, ...], group: GroupView, joined: frozenset[str]) -> bool:
    """Return whether all expected members have joined from the same locations.

    Elsewhere a standby could be beside its active.
    """
    places = {each.processor_id: each.location for each in served}
    moved = any(places.get(m.processor_id, m.location) != m.location for m in group.members)
    return not moved and places.keys() <= joined


def _probed(
    state: ProcessorState, group: GroupView, now_ms: int, grouper: Grouper
) -> ProcessorState:
    """Plan once more when a settled group's tasks can be spread better by now.

    Each such version is better than the last, so a group to which nothing happens comes to rest
    whatever its grouper does.
    """
    if state.plan_ms is not None or state.round is not None or not group.is_at_work:
        return replace(state, probe_ms=None)
    if state.probe_ms is None:
        return replace(state, probe_ms=now_ms + state.settings.probe_ms)
    if now_ms < state.probe_ms or not group.is_whole:
        return state
    state, model = _planned(state, group, grouper)
    is_better = model is not None and _is_news(group, model, is_asked=False)
    return replace(state, probe_ms=None, plan_ms=now_ms if is_better else None)


def _is_news(group: GroupView, model: JobModel, *, is_asked: bool) -> bool:
    """Return whether a model is worth a version: requested places, other inputs, or a better spread."""
    if group.model is None or is_asked:
        return group.model is None or places_of(model) != places_of(group.model)
    return inputs_of(model) != inputs_of(group.model) or uneven(model) < uneven(group.model)


def _is_for(group: GroupView) -> bool:
    """Return whether the newest version has a barrier, and a container for each member."""
    ids = {member.processor_id for member in group.members}
    return group.barrier is not None and set(group.containers) == ids


def _anew(state: ProcessorState, now_ms: int) -> ProcessorState:
    plan_ms = now_ms + state.settings.debounce_ms
    return replace(state, round=None, plan_ms=plan_ms if state.plan_ms is None else state.plan_ms)
