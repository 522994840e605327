"""What was said and done so far: the memory of the judges, from events and commands alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import FIRST_HASH, AuditRecord
from samza_dagster.placement.state import Fencing, Group, Limits, Phase, PlacementAsk, SpinUp
from tests.simulation.copies import copied
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import InvariantViolated

TERMINAL = frozenset({"SUCCEEDED", "FAILED", "BAD_REQUEST"})
CONTROLS = frozenset({"commit", "release", "cancel"})


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request of this deployment, and what became of it.

    `group_id` is "" when no processor had this id. `subject` is the processor that it is
    about: a new standby for one that is spun up. `source` is the incarnation and the
    host that this had when the request's action began, `standby_hosts` those of the others.
    """

    ask: PlacementAsk
    place: int
    group_id: str
    subject: str
    begun: bool = False
    terminal: str = ""
    last: tuple[str, str] | None = None
    source: tuple[str, str] | None = None
    standby_hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Started:
    """An incarnation that was started: its epoch and where."""

    execution_id: str
    epoch: int
    host: str


@dataclass(frozen=True, slots=True)
class Open:
    """A resource that was asked for; `host` None is any."""

    processor_id: str
    host: str | None


@dataclass(slots=True)
class Chronicle:
    """Facts by id. A step that a judge is shown was committed: nothing here is taken back.

    `ended` has every way in which records say that an incarnation ended. `overlapping` are those
    whose lease was over while their host was frozen, so that a successor owned their tasks too.
    `fenced` are those that the brokers were asked to shut out, `unfenced` those that only a
    lease could end when it did, whatever the job has had since; up to `leased_epoch` they were
    started while leases counted, or before.
    `commanded_to_stop` doesn't have those whose stop failed, nor those that had ended before (their host
    listed them still), `ever_commanded` does. `lost` were on a
    host that fell silent, and haven't checked in since. `held` is what the cluster said it
    holds and nothing has used or released. `left` is the group that last lost a process on a
    host, `left_by` the processor; `beside` are the hosts that shared its host's fault domain when it started. `grants` is the last grant of each host lost in this
    term; `agents` the directory and boot of who registered last as a host, `strayed` until when
    others could renew the lease of what these don't list. `falling_back` has the source host of each container that a failed action
    left down.
    `kept_down` is since when a container that is down has waited for its action's destination.
    `overtaken` are fail-overs that waited while their active failed over by itself.
    `refused` are the uuids of what was answered without the reducer, by their order. Of
    requests and refusals the first so many (`forgotten`, `forgotten_refusals`) were more than
    the memory had room for when the next one came; a limit that is raised later brings none back.
    `layout` says which tasks each group of the deployment has, `layouts` those that an incarnation began under.
    """

    premises: Counter[str] = field(default_factory=Counter[str])
    asked: dict[str, SeenRequest] = field(default_factory=dict[str, SeenRequest])
    newest: dict[str, Started] = field(default_factory=dict[str, Started])
    started: dict[str, tuple[str, Started]] = field(default_factory=dict[str, tuple[str, Started]])
    ended: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    overlapping: set[str] = field(default_factory=set[str])
    fenced: set[str] = field(default_factory=set[str])
    unfenced: set[str] = field(default_factory=set[str])
    commanded_to_stop: set[str] = field(default_factory=set[str])
    ever_commanded: set[str] = field(default_factory=set[str])
    lost: set[str] = field(default_factory=set[str])
    checked_in: dict[str, str] = field(default_factory=dict[str, str])
    requested: dict[str, Open] = field(default_factory=dict[str, Open])
    held: dict[str, str] = field(default_factory=dict[str, str])
    falling_back: dict[str, str] = field(default_factory=dict[str, str])
    left: dict[str, str] = field(default_factory=dict[str, str])
    left_by: dict[str, str] = field(default_factory=dict[str, str])
    beside: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    groups: dict[str, str] = field(default_factory=dict[str, str])
    removed: set[str] = field(default_factory=set[str])
    registered: set[str] = field(default_factory=set[str])
    domains: dict[str, str] = field(default_factory=dict[str, str])
    agents: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    strayed: dict[str, int] = field(default_factory=dict[str, int])
    grants: dict[str, int] = field(default_factory=dict[str, int])
    term_began_ms: int = 0
    epoch: int = 0
    leased_epoch: int = 0
    trail: list[AuditRecord] = field(default_factory=list[AuditRecord])
    layout: frozenset[str] = frozenset()
    layouts: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    kept_down: dict[tuple[str, str, str], int] = field(
        default_factory=dict[tuple[str, str, str], int]
    )
    overtaken: set[str] = field(default_factory=set[str])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    arrivals: int = 0
    refusals: int = 0
    forgotten: int = 0
    forgotten_refusals: int = 0
    steps: int = 0
    digest: str = FIRST_HASH
    limits: Limits = field(default_factory=Limits)

    def fork(self) -> Chronicle:
        """A copy that goes its own way."""
        return copied(self)

    def lease_over_ms(self, execution_id: str) -> int:
        """From when this leader may count every lease of a lost host as over.

        The last grant of this term, or the term's begin for a host that never
        registered in it, and a whole lease and its bound after that.
        """
        host = self.started[execution_id][1].host
        given = self.strayed.get(execution_id, self.grants.get(host, 0))
        last = max(given, self.term_began_ms)
        return last + self.limits.lease_ms + self.limits.lease_bound_ms

    def begin(self, taken: Taken) -> None:
        """What a step tells by its event and by who is a member of what, before it is judged.

        A processor that was removed begins anew.
        """
        before, after, event = taken.before, taken.after, taken.event
        self.limits = after.limits
        if after.limits.fencing is Fencing.LEASE:
            self.leased_epoch = self.epoch
        self.hear(event)
        if taken.redeployed:
            self.falling_back.clear()
        for both in taken.both:
            pid = both.processor_id
            if both.now is None or both.group is None:
                self.removed.add(pid)
                self.falling_back.pop(pid, None)
            else:
                self.groups[pid] = both.group.group_id
                if both.now.phase is Phase.RUNNING:
                    self.falling_back.pop(pid, None)
        if isinstance(event, ev.TimePassed) and before.hosts is not after.hosts:
            # Those that never registered with this leader.
            silent = {host for host, it in before.hosts.items() if it.alive}
            self.fell_silent({host for host in silent if not after.hosts[host].alive})

    def hear(self, event: ev.Event) -> None:
        """What an event tells, before the step that takes it is judged."""
        match event:
            case ev.ContainerCheckedIn(execution_id=execution_id, host=host):
                self.checked_in[execution_id] = host
                self.lost.discard(execution_id)
                if execution_id in self.started:
                    self._is_back(execution_id)
            case ev.ResourceAllocated(request_id=request_id, host=host):
                if request_id in self.requested:
                    self.held[request_id] = host
            case ev.RequestExpired(request_id=request_id):
                self.held.pop(request_id, None)
            case ev.StopFailed(execution_id=execution_id):
                self.commanded_to_stop.discard(execution_id)
            case ev.HostRegistered(host=host, fault_domain=domain):
                agent = (event.journal, event.boot_id)
                if self.agents.setdefault(host, agent) != agent:
                    gone = {e for e, (_, it) in self.started.items() if it.host == host}
                    gone -= event.execution_ids
                    self.lost |= gone
                    since_ms = event.at_ms if host in self.registered else 0
                    last_ms = self.grants.get(host, since_ms)
                    self.strayed.update((e, last_ms) for e in gone - self.strayed.keys())
                for execution_id in event.execution_ids:
                    self.strayed.pop(execution_id, None)
                self.agents[host] = agent
                self.registered.add(host)
                self.domains[host] = domain
                self.grants.pop(host, None)
            case ev.HostLost(host=host, last_grant_ms=last_grant_ms):
                if host in self.registered:
                    self.grants[host] = last_grant_ms
                self.fell_silent({host})
                self.held = {r: h for r, h in self.held.items() if h != host}
            case ev.JobDeployed(groups=groups, grouping=grouping):
                self.layout = frozenset({*groups, f"grouping {grouping}"})
            case ev.CoordinatorRestarted(at_ms=at_ms):
                self.term_began_ms = at_ms
                self.registered.clear()
                self.grants.clear()
                self.strayed = dict.fromkeys(self.strayed, 0)  # before it, by whatever clock
            case _:
                pass

    def fell_silent(self, hosts: Collection[str]) -> None:
        """They are lost, each with what was started there."""
        self.lost.update(e for e, (_, it) in self.started.items() if it.host in hosts)

    def _is_back(self, execution_id: str) -> None:
        processor_id = self.started[execution_id][0]
        if self.is_current(processor_id, execution_id):
            self.falling_back.pop(processor_id, None)

    def lay_down(self, command: cmd.Command) -> None:
        """What a command does, after it was judged."""
        match command:
            case cmd.RequestResource(request_id=request_id, processor_id=pid, host=host):
                self.requested[request_id] = Open(pid, host)
            case cmd.ReleaseResource(request_id=request_id):
                self.held.pop(request_id, None)
            case cmd.StartContainer(request_id=request_id):
                self.held.pop(request_id, None)
            case cmd.FencePrincipal(execution_id=execution_id):
                self.fenced.add(execution_id)
            case cmd.StopContainer(execution_id=execution_id):
                if execution_id not in self.ended:
                    self.commanded_to_stop.add(execution_id)
                self.ever_commanded.add(execution_id)
            case _:
                pass

    def arrived(self, ask: PlacementAsk, group_id: str) -> None:
        """A request of this deployment was taken for the first time, or after it was forgotten."""
        self.asked[ask.uuid] = SeenRequest(ask, self.arrivals, group_id, ask.processor_id)
        self.arrivals += 1
        self.forgotten = max(self.forgotten, self.arrivals - self.limits.remembered_uuids)
        self.overtaken.discard(ask.uuid)

    def was_refused(self, uuid: str) -> None:
        """A request was answered without the reducer; nobody knew its uuid."""
        self.refused[uuid] = self.refusals
        self.refusals += 1
        limit = self.limits.remembered_uuids
        self.forgotten_refusals = max(self.forgotten_refusals, self.refusals - limit)

    def remembers(self, uuid: str) -> bool:
        """Whether the job's memory must still hold this request, or that it was refused unread."""
        known, place = self.asked.get(uuid), self.refused.get(uuid)
        if place is not None and place >= self.forgotten_refusals:
            return True
        return known is not None and (not known.terminal or known.place >= self.forgotten)

    def begun(self, uuid: str, group: Group) -> SeenRequest:
        """A request's action began; raises when it is not the first time."""
        asked = self.asked.get(uuid)
        if asked is None:
            raise InvariantViolated("acted-once", f"an action began for {uuid}, never asked")
        if asked.begun or asked.terminal:
            raise InvariantViolated("acted-once", f"request {uuid} began a second time")
        subject = asked.subject
        was = self.newest.get(subject)
        if isinstance(group.action, SpinUp):
            subject, was = group.action.standby_id, None
        processor = group.processors.get(subject)
        if processor is None or processor.incarnation is None:
            was = None  # it was down already: the action takes nothing from anywhere
        asked = replace(
            asked,
            begun=True,
            subject=subject,
            source=(was.execution_id, was.host) if was is not None else None,
            standby_hosts=frozenset(
                self.newest[pid].host
                for pid in group.processors
                if pid != subject and pid in self.newest
            ),
        )
        self.asked[uuid] = asked
        return asked

    def is_left_behind(self, execution_id: str, host: str) -> bool:
        """Whether it has ended, and `host`, where it lives, isn't called as when it started."""
        known = self.started.get(execution_id)
        return known is not None and known[1].host != host and execution_id in self.ended

    def is_current(self, processor_id: str, execution_id: str) -> bool:
        """Whether this is the newest incarnation and nothing has ended it."""
        newest = self.newest.get(processor_id)
        return (
            newest is not None
            and newest.execution_id == execution_id
            and execution_id not in self.ended
        )
