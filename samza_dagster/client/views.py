"""Views of a job for people and programs: frozen values, each with `to_json()`.

Times are ms since the epoch, memory is MiB, offsets are Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, cast

from samza_dagster.client.stop_budget import StopBudget
from samza_dagster.metadata.resource_manager import Application
from samza_dagster.model import TaskMode
from samza_dagster.model.capabilities import Capabilities, capabilities
from samza_dagster.model.job_model import actives
from samza_dagster.model.naming import ONE_MORE, group_of
from samza_dagster.placement.state import JobState

CoordinatorKind = str
"""A name of `model.capabilities.COORDINATORS`."""

LAST_SEEN_STATE = "last-seen"
UNKNOWN_STATE = "unknown"
LEAVING_STATE = "leaving"
ALIVE_STATE = "alive"
LOST_STATE = "lost"
CLOSED_STATE = "closed"

NO_CHANGELOG, BEYOND_END = "no-changelog", "beyond-end"
NO_LEADER = "no-leader"
NO_OBSERVATION, UNREAD_OBSERVATIONS = "no-observation", "no-leader-of-observations"


def _plain(value: Any) -> Any:
    if isinstance(value, View):
        return value.to_json()
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {key: _plain(items[key]) for key in sorted(items)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in cast("tuple[Any, ...]", value)]
    return value


def over_with(deployment_id: str, running: str | None, dead: str | None = None) -> str:
    """Return the reason why a request without an end gets none; else empty.

    Its deployment isn't the running one, or all processes of the job have ended by the source `dead`.
    """
    if running not in (None, deployment_id):
        return f"over: deployment {deployment_id} ended; {running} runs"
    return "" if dead is None else f"over: nothing of the job runs any more: {dead}"


@dataclass(frozen=True)
class View:
    """A value to show; `to_json` has its fields by name."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field, mappings in order of their keys."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True)
class ProcessorView(View):
    """A container of the job.

    `state` is the coordinator's phase (`running`, `starting`, …), or `leaving` for one
    that the deployment no longer has. From the coordinator
    stream alone it is `last-seen` (a host was reported) or `unknown`: Samza writes
    where a container started, not whether it still runs. `host` is where a process or
    its reservation is; `last_seen_host` stays when there is neither. `flapping`: it fails
    again and again, so that it is started at longer intervals. `paused_for_ms` is how long it isn't
    started yet (None: it isn't paused). `failures` counts all of the
    job's life. `extra`: a standby that was spun up on request. `pinned`: somebody asked for its host.

    Of a standalone group each task is one of these, and so is each processor in `JobView.members`.
    """

    processor_id: str
    mode: TaskMode
    state: str
    host: str | None
    execution_id: str | None = None
    tasks: tuple[str, ...] = ()
    last_seen_host: str | None = None
    flapping: bool = False
    failures: int = 0
    extra: bool = False
    paused_for_ms: int | None = None
    pinned: bool = False

    @property
    def is_running(self) -> bool:
        """The coordinator says that it runs and has checked in."""
        return self.state == "running"


@dataclass(frozen=True)
class HostView(View):
    """A host: `alive` or `lost` by its agent, `last-seen` from localities alone.

    `yarn_state` is YARN's report on its node. Under Samza's own Application Master that alone makes it
    `alive`, or `lost` with all that ran there. `closed`: it takes no more containers, whatever runs
    there. `unknown`: a person named it. Hosts of one `fault_domain` may fail together; empty if unknown
    or ignored.
    """

    host: str
    state: str
    memory_mb: int | None = None
    free_memory_mb: int | None = None
    cores: int | None = None
    free_cores: int | None = None
    fault_domain: str = ""
    yarn_state: str = ""


@dataclass(frozen=True)
class ActionView(View):
    """A placement action in flight, or one that waits (`stage` is then `queued`).

    `kind` is the kind of request: `place`, or one of our own (`fail-over`, …). `expiry_ms` is the
    requested timeout; None: the job's. `trouble` is what holds it up or, once it is over, the reason;
    empty: nothing.
    """

    uuid: str
    processor_id: str
    destination: str
    stage: str
    since_ms: int
    source_host: str | None = None
    reserved_host: str | None = None
    kind: str = "place"
    expiry_ms: int | None = None
    trouble: str = ""


@dataclass(frozen=True)
class FailoverView(View):
    """An active on its way to the host of its standby, which gives way."""

    active_id: str
    standby_id: str
    host: str
    since_ms: int
    why: str


@dataclass(frozen=True)
class OrphanView(View):
    """An incarnation on a silent host, which may be alive or dead.

    `ended` says how it lost its tasks since (`dead`, `fenced`, `lease`); None: it may own them.
    `elsewhere`: another machine has its host's name by now.
    """

    processor_id: str
    execution_id: str
    host: str
    lost_at_ms: int
    lease_ends_ms: int | None
    ended: str | None = None
    elsewhere: bool = False


@dataclass(frozen=True)
class LeaderView(View):
    """The coordinator that leads, by its last sign of life (`beat_ms`); `ended` in an orderly way.

    `counters` are Samza's counters and ours, by name, since it leads (`since_ms`). It commits
    something at least every `beat_every_ms`.
    """

    epoch: int
    host: str
    url: str
    since_ms: int | None
    beat_ms: int | None
    ended: bool
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    beat_every_ms: int | None = None


@dataclass(frozen=True)
class Agreement:
    """The agreement of a group at one reading.

    `leader` is the processor that leads, None where nobody is registered. `version` is the newest
    JobModel, `agreed` the newest that all had joined. `awaited` are the processors that the newest one waits
    for. `twice` are ids that two processors have, for which no version is made.
    `registrations` is the number that ZooKeeper gave each processor's node: another one each time that it
    registers. `silent_ms` is how long active tasks that stayed at a processor were without a container at its
    newest change; 0 where theirs ran on.
    """

    leader: str | None
    version: int
    agreed: int
    awaited: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    registrations: Mapping[str, str] = field(default_factory=dict[str, str])
    silent_ms: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class JobView(View):
    """A job as its metadata tells it, at one time.

    `coordinator` names the source: `samza_dagster` if our state topic holds
    this deployment, `standalone` if a group in ZooKeeper does, else `samza`. `unreadable` names records that were
    skipped. `fatal` names those that end Samza's reader, so that no container can start. `poison` maps keys of
    placement records to the reason why Samza's AM throws at every reading and serves no request. `deployed`: all actives and
    all standbys run (None: Samza's metadata doesn't tell). `degraded`: processor → why, of those
    that should run and have no place. `unread`: why our coordinator's state couldn't be read, so
    that this is the coordinator stream's word alone (None: it was). `tells_lag`: its config has a
    metrics reporter that writes to a topic, by which alone standbys tell how far they are;
    `report_every_s` is the interval of the least frequent one (None: it has none).
    `stop_budgets`: processor → what Samza's AM counts against it, where that coordinates.
    `application` is the job as YARN's ResourceManager reports it, `yarn_unread` why that
    couldn't be asked (None: it was, or its address isn't given). `dead`: the source that says nothing of the
    job runs any more, so that nobody would read a request (None: no source does). `over` are requests
    without an end that have none to come (`why_over`). Of a standalone group `members` are the registered
    processors by id, `agreement` is how far they agree on the assignment of tasks, `troubles` what
    somebody should look at. `state` is the
    recorded state as our coordinator's rules read it; it isn't shown.
    """

    job_name: str
    job_id: str
    deployment_id: str | None
    processors: Mapping[str, ProcessorView]
    hosts: Mapping[str, HostView]
    actions: tuple[ActionView, ...] = ()
    queued: tuple[ActionView, ...] = ()
    coordinator: CoordinatorKind = "samza"
    host_affinity: bool = True
    container_memory_mb: int | None = None
    container_cores: int | None = None
    unreadable: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()
    poison: Mapping[str, str] = field(default_factory=dict[str, str])
    failovers: tuple[FailoverView, ...] = ()
    orphans: tuple[OrphanView, ...] = ()
    max_standbys: int | None = None
    leader: LeaderView | None = None
    deployed: bool | None = None
    degraded: Mapping[str, str] = field(default_factory=dict[str, str])
    unread: str | None = None
    tells_lag: bool = True
    stop_budgets: Mapping[str, StopBudget] = field(default_factory=dict[str, StopBudget])
    report_every_s: int | None = None
    application: Application | None = None
    yarn_unread: str | None = None
    dead: str | None = None
    over: tuple[ActionView, ...] = ()
    members: Mapping[str, ProcessorView] = field(default_factory=dict[str, ProcessorView])
    agreement: Agreement | None = None
    troubles: tuple[str, ...] = ()
    state: JobState | None = field(default=None, compare=False, repr=False)

    def group_of(self, processor_id: str) -> str:
        """Return the active that the processor replicates; an active replicates itself.

        One that the job hasn't is in the group that its name says, as `one_more_of` an active.
        """
        known, active = self._actives, processor_id.rpartition(ONE_MORE)[0]
        return known.get(processor_id) or known.get(active) or group_of(processor_id)

    def is_standby(self, processor_id: str) -> bool:
        """Return whether it is, or would be, a standby."""
        known = self.processors.get(processor_id)
        if known is not None:
            return known.mode is TaskMode.STANDBY
        return self.group_of(processor_id) != processor_id

    @cached_property
    def _actives(self) -> Mapping[str, str]:
        """Processor → its active, by our coordinator's groups, else by the replication of tasks."""
        if self.state is not None:
            return {
                pid: group.group_id
                for group in self.state.groups.values()
                for pid in (*group.processors, *(orphan.processor_id for orphan in group.orphans))
            }
        tasks = {pid: processor.tasks for pid, processor in self.processors.items()}
        return actives(tasks, {p for p, v in self.processors.items() if v.mode is TaskMode.STANDBY})

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the job's coordinator."""
        return capabilities(self.coordinator)

    @property
    def takes_any_host(self) -> bool:
        """Samza's AM takes every destination for `ANY_HOST` where host affinity is off."""
        return not (self.capabilities.heeds_destination or self.host_affinity)

    @property
    def report_patience_s(self) -> int:
        """A reporter that is late by two intervals isn't taken for dead."""
        return 3 * (self.report_every_s or 0)

    def why_over(self, deployment_id: str) -> str:
        """Why a request to this deployment that has no end has none to come; else empty."""
        return over_with(deployment_id, self.deployment_id, self.dead)

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field that is shown."""
        shown = super(JobView, replace(self, state=None)).to_json()
        del shown["state"]
        return shown


@dataclass(frozen=True)
class ReplicaLag(View):
    """How far one replica of one store partition is behind its changelog.

    `applied_offset` is the last record that the replica has; `basis` says how it is
    known: `metrics` (a standby's own gauge), `running` (an active whose own report shows that
    it has processed or committed since it started has all that it wrote: end - 1),
    `checkpoint` (the last commit of an active that isn't known to run), `none`: also an
    active that has checked in and may still restore. `lag` is in records still to be
    read, None when it isn't known, as when the changelog ends before what was applied. A standby's
    is what it was when its report came: `end_offset` is where the changelog ended then, and
    `written_since` the records that have been written since; of a report older than three intervals
    all of them count as lag.
    `observed_at_ms` is by the clock of the host that reported, `execution_id` the incarnation
    that did; empty when its report doesn't say. `came_ms` is the time of the record that brought the
    report. `reason`: what couldn't be read of what tells
    the lag, the replica's own reports included, for how long it has reported nothing new, or what is
    wrong with the changelog; None: all of it was read, and lately.
    `unknown_because` is empty while the lag is known, else one of the words of dataset `changelog_lag`:
    `no-changelog` (no such topic or partition), `beyond-end` (what was applied lies behind the
    changelog's end: the topic was deleted and made anew, or cut), `no-leader` (the changelog can't be
    read), `no-observation`, `no-leader-of-observations` (none was read, and not all could be).
    """

    processor_id: str
    task_name: str
    mode: TaskMode
    store: str
    changelog: str
    partition: int
    host: str | None
    end_offset: int | None
    applied_offset: int | None
    lag: int | None
    observed_at_ms: int | None
    basis: str = "none"
    execution_id: str = ""
    reason: str | None = None
    written_since: int = 0
    came_ms: int | None = None
    unknown_because: str = ""

    @property
    def is_changelog_lost(self) -> bool:
        """The changelog that the replica was made of isn't there any more, or not whole."""
        return self.unknown_because in (NO_CHANGELOG, BEYOND_END)

    @property
    def reported_ms(self) -> int | None:
        """`observed_at_ms` where that is a report's; a commit, to which an active's lag falls back, is none."""
        return None if self.basis == "checkpoint" else self.observed_at_ms


@dataclass(frozen=True)
class InputLag(View):
    """How far a task is behind one input partition, by its newest commit.

    `committed_offset` is the last record that the commit covers, `lag` the records after
    it. `at_ms` is when it was committed, by the broker's or the producer's clock. `reason`:
    why the end, and so the lag, couldn't be read. None without one: the topic ends before what
    was committed, so it was deleted or cut since.
    """

    processor_id: str
    task_name: str
    topic: str
    partition: int
    committed_offset: int
    end_offset: int | None
    lag: int | None
    at_ms: int
    reason: str | None = None


@dataclass(frozen=True)
class Look(View):
    """A job and all that is known of its lags, from one reading of its metadata.

    `unread`: why the lags of all replicas or of all inputs couldn't be read, None: they were.
    `host_words`: host → ms since its agent's last word, where the leader can be asked.
    """

    job: JobView
    lags: tuple[ReplicaLag, ...] = ()
    input_lags: tuple[InputLag, ...] = ()
    host_words: Mapping[str, int] = field(default_factory=dict[str, int])
    unread: str | None = None
