"""A look at a job as plain values, for the rules that judge it. Pure."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from samza_dagster.model.capabilities import Capabilities, capabilities
from samza_dagster.orchestration.plans.conditions import changelogs_lost
from samza_dagster.orchestration.watch.invariants import coordinated

if TYPE_CHECKING:
    from samza_dagster.client import InputLag, JobView, LeaderView, ReplicaLag

L = TypeVar("L", "ReplicaLag", "InputLag")
RUNNING = ("running", "last-seen")
ALIVE = "alive"
LOST = "lost"
_NO_PROCESSOR = "no processor of the group is registered in ZooKeeper"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """A container at one look. Sums are None where one of their parts isn't known."""

    processor_id: str
    active: bool
    state: str
    host: str | None
    incarnation: str = ""
    """Its execution id; empty: the coordinator doesn't say."""
    reported_ms: int | None = None
    """The time of its newest report by its host's clock: it tells one report from another alone."""
    reporter: str = ""
    """The incarnation that its newest report names."""
    left: int | None = None
    """Records before it: of an active's input, of a standby's changelogs."""
    position: int | None = None
    """Offsets that an active has committed, or a standby has applied."""
    end: int | None = None
    """Where a standby's changelogs end."""
    unread: bool = False
    """Something can't be read that would tell how it is: nothing of it is held against it."""
    of: str = ""
    """The active that a standby replicates; empty for an active."""
    holder: str = ""
    """The processor that has it, where it is a task."""

    @property
    def identity(self) -> int:
        """Return what tells it from another incarnation; under Samza's AM another host does."""
        return zlib.crc32((self.incarnation or self.host or "").encode())

    @property
    def group(self) -> str:
        """Return the active's id."""
        return self.of or self.processor_id

    @property
    def runs(self) -> bool:
        """Return whether it has checked in, or was last seen somewhere under Samza's AM."""
        return self.state in RUNNING and self.host is not None

    @property
    def can_be_heard(self) -> bool:
        """Return whether it runs, and its reports aren't where nothing can be read."""
        return self.runs and (self.reported_ms is not None or not self.unread)


@dataclass(frozen=True)
class Observation:
    """A job at one look."""

    job: str
    coordinator: str
    containers: tuple[ContainerSeen, ...]
    host_states: Mapping[str, str] = field(default_factory=dict[str, str])
    """Host → `alive`, `lost` or `last-seen`."""
    host_words: Mapping[str, int] = field(default_factory=dict[str, int])
    """Host → ms since its agent's last word, where that is known."""
    busy: Mapping[str, str] = field(default_factory=dict[str, str])
    """Group → what its coordinator is at there."""
    leader: LeaderView | None = None
    unread: tuple[str, ...] = ()
    """What can't be read now, or is lost."""
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    """Group → what is wrong with a changelog of its (`changelogs_lost`)."""
    deployment: str = ""
    application: str = ""
    """YARN's word on the job's state; empty: it isn't known."""
    dead: str = ""
    """The source that says nothing of it runs any more; empty: none does."""
    report_patience_ms: int = 0
    """For how long a container may report nothing: three of the job's intervals; 0: not known."""

    @property
    def can(self) -> Capabilities:
        """Return what its coordinator can do and tells."""
        return capabilities(self.coordinator)

    def free_for(self, seen: ContainerSeen) -> set[str]:
        """Return the living hosts without a member of its group."""
        taken = {c.host for c in self.containers if c.group == seen.group}
        return {h for h, state in self.host_states.items() if state == ALIVE and h not in taken}

    def on_host(self) -> dict[str, list[ContainerSeen]]:
        """Return the containers that run on each host that isn't lost."""
        found: dict[str, list[ContainerSeen]] = defaultdict(list)
        for container in self.containers:
            if container.runs and container.host and self.host_states.get(container.host) != LOST:
                found[container.host].append(container)
        return found

    @cached_property
    def by_id(self) -> dict[str, ContainerSeen]:
        """Each container by its processor id."""
        return {c.processor_id: c for c in self.containers}

    @cached_property
    def standbys(self) -> dict[str, list[ContainerSeen]]:
        """Each group's standbys."""
        found: dict[str, list[ContainerSeen]] = {}
        for container in self.containers:
            found.setdefault(container.group, []).extend([] if container.active else [container])
        return found

    def state_of(self, processors: Iterable[str]) -> str:
        """Return where these containers run, and which processes they are; empty: not all is known.

        Of what is about no container it is the leader's epoch, or the deployment.
        """
        about = [c for p in processors if (c := self.by_id.get(p)) is not None]
        if not about:
            epoch = f"epoch {self.leader.epoch}" if self.leader is not None else ""
            return epoch or (self.deployment and f"deployment {self.deployment}")
        processes = [c.incarnation or c.reporter for c in about]
        told = (
            f"{c.processor_id} on {c.host} as {p}" for c, p in zip(about, processes, strict=True)
        )
        return ", ".join(told) if all(processes) else ""


def observation_of(
    view: JobView,
    lags: Sequence[ReplicaLag] = (),
    inputs: Sequence[InputLag] = (),
    words: Mapping[str, int] | None = None,
    unread: str | None = None,
) -> Observation:
    """Return one look, from what a client read; `unread`: why it read no lag of replicas, or of inputs."""
    replicas, input_lags = _by_processor(lags), _by_processor(inputs)
    lost = {view.group_of(pid): why for pid, why in changelogs_lost(lags).items()}
    holders = {task: pid for pid, member in view.members.items() for task in member.tasks}
    is_empty = view.agreement is not None and view.agreement.leader is None
    read = (lag for lag in lags if not lag.is_changelog_lost)
    reasons = {lag.processor_id: lag.reason for lag in (*read, *inputs) if lag.reason}
    containers: list[ContainerSeen] = []
    for processor_id, processor in sorted(view.processors.items()):
        mine, pending = replicas.get(processor_id, ()), input_lags.get(processor_id, ())
        standby = view.is_standby(processor_id)
        reported = [lag for lag in mine if lag.reported_ms is not None]
        newest = max(reported, key=lambda lag: lag.reported_ms or 0, default=None)
        positions = (
            [lag.applied_offset for lag in mine]
            if standby
            else [lag.committed_offset for lag in pending]
        )
        containers.append(
            ContainerSeen(
                processor_id=processor_id,
                active=not standby,
                state=processor.state,
                host=processor.host,
                incarnation=processor.execution_id or "",
                reported_ms=newest.reported_ms if newest is not None else None,
                reporter=newest.execution_id if newest is not None else "",
                left=_sum(lag.lag for lag in (mine if standby else pending)),
                position=_sum(positions),
                end=_sum(lag.end_offset for lag in mine) if standby else None,
                unread=unread is not None or processor_id in reasons,
                of=view.group_of(processor_id) if standby else "",
                holder=holders.get(processor_id, ""),
            )
        )
    yarn = (f"YARN's ResourceManager: {view.yarn_unread}",) if view.yarn_unread else ()
    return Observation(
        job=f"{view.job_name}/{view.job_id}",
        coordinator=view.coordinator,
        containers=tuple(containers),
        host_states={name: host.state for name, host in view.hosts.items()},
        host_words=dict(words or {}),
        busy=busy_groups(view),
        leader=view.leader,
        unread=tuple(
            sorted({*reasons.values(), *lost.values(), *((unread,) if unread else ()), *yarn})
        ),
        lost=lost,
        deployment=view.deployment_id or "",
        application=view.application.state if view.application is not None else "",
        dead=view.dead or (_NO_PROCESSOR if is_empty else ""),
        report_patience_ms=3_000 * (view.report_every_s or 0),
    )


def busy_groups(view: JobView) -> dict[str, str]:
    """Return what is under way in each group, by its coordinator's word."""
    busy: dict[str, str] = {}
    for action in (*view.actions, *view.queued):
        busy[view.group_of(action.processor_id)] = f"request {action.uuid} is {action.stage}"
    for failover in view.failovers:
        busy[view.group_of(failover.active_id)] = f"its failover is under way: {failover.why}"
    for earlier in view.orphans:
        if earlier.ended is None:
            busy.setdefault(
                view.group_of(earlier.processor_id),
                f"its host {earlier.host} fell silent, which it handles",
            )
    if view.agreement is not None and (trouble := coordinated(view)):
        # While the group makes no other version, no request of any task is carried out.
        busy |= dict.fromkeys(map(view.group_of, view.processors), trouble[0].seen)
    return busy


def _by_processor(lags: Iterable[L]) -> dict[str, list[L]]:
    found: dict[str, list[L]] = defaultdict(list)
    for lag in lags:
        found[lag.processor_id].append(lag)
    return found


def _sum(values: Iterable[int | None]) -> int | None:
    """None where one of them isn't known, or there are none."""
    known = list(values)
    return None if None in known or not known else sum(value or 0 for value in known)
