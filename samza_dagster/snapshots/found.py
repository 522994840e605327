"""A job by its streams' records. Pure.

Of a job's records the one written last counts, as for Samza, and a null value deletes (`CoordinatorStreamStore`).
Anybody may write to these topics: a record that can't be read raises `MalformedRecord`, and costs no other record.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, Self

from samza_dagster.errors import MalformedRecord
from samza_dagster.lag import PACED_BY
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.state_topic import decode_record, is_state
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.checkpoints import V1, checkpoint_key, decode_checkpoint
from samza_dagster.model.job_model import actives
from samza_dagster.model.metrics_snapshots import (
    STANDBY_TASK,
    TaskSample,
    decode_report,
    metrics_topics,
)
from samza_dagster.model.naming import active_task_of, group_of
from samza_dagster.model.numbers import long_or_none
from samza_dagster.placement import codec
from samza_dagster.placement.restoring import GROUP, HOST, JOB
from samza_dagster.placement.state import Phase

ACTIVE, STANDBY = "Active", "Standby"
_COMMIT_MS = 60_000
"""Samza's default of `task.commit.ms`."""
_LEAST_WINDOW_MS, _MOST_WINDOW_MS = 120_000, 900_000
_INTERVALS = 3
_NEEDED = {"job.name", "job.id", "app.run.id", "app.mode", "job.changelog.system", "job.default.system", "metrics.reporters", "task.commit.ms"}  # fmt: skip
_NEEDED_ENDS = (".changelog", ".factory", ".stream", ".interval")
_OF_STREAM = {
    stream.SET_CONFIG: ("config", "value"),
    stream.SET_CONTAINER_HOST: ("hosts", "host"),
    stream.SET_TASK_CONTAINER: ("containers", "containerId"),
    stream.SET_TASK_MODE: ("modes", "taskMode"),
    stream.SET_CHANGELOG: ("partitions", "Partition"),
}
"""Namespace of the coordinator stream → what of `Found` it is about, and the field that tells it."""
HUGE_BYTES = 4 << 20
_DAY_MS = 86_400_000


class Said(NamedTuple):
    """Offsets by changelog gauge, as a report or a checkpoint has them.

    `host`, `process` and `came_ms` are None of a checkpoint. `order` sorts those of one source by when they
    were written. `record_bytes` is by store.
    """

    source: str
    order: tuple[int, int]
    at_ms: int | None
    offsets: Mapping[str, int | None]
    host: str | None = None
    process: str | None = None
    came_ms: int | None = None
    record_bytes: Mapping[str, float] = {}


class Place(NamedTuple):
    """Where our coordinator has a container, in which phase (`placement.state.Phase`), and since when."""

    group: str
    phase: str
    host: str | None
    execution_id: str | None
    since_ms: int


@dataclass
class Found:
    """The records of one job, of all its topics or of some.

    `config` has the settings that a snapshot goes by, `hosts` the host that each processor reported, and when by
    its own clock. `containers`, `modes` and `partitions` are by task. `coordinated` is the deployment that our
    coordinator runs, `groups` where it has each group's containers, `agents` the hosts that have an agent.
    `starts` are hosts, and seconds from the command to start a container until it checked in. `checkpoints` are by
    task and version, `reports` by task. `unreadable` counts records, `example` names one of them and says why.
    """

    config: dict[str, str] = field(default_factory=dict[str, str])
    hosts: dict[str, tuple[str, int | None]] = field(default_factory=dict[str, Any])
    containers: dict[str, str] = field(default_factory=dict[str, str])
    modes: dict[str, str] = field(default_factory=dict[str, str])
    partitions: dict[str, int] = field(default_factory=dict[str, int])
    coordinated: str = ""
    groups: dict[str, dict[str, Place]] = field(default_factory=dict[str, dict[str, Place]])
    agents: set[str] = field(default_factory=set[str])
    starts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    starting_ms: dict[str, int] = field(default_factory=dict[str, int])
    checkpoints: dict[tuple[str, str], Said] = field(default_factory=dict[tuple[str, str], Said])
    reports: dict[str, list[Said]] = field(default_factory=dict[str, list[Said]])
    unreadable: int = 0
    example: str = ""

    @classmethod
    def of(cls, pieces: Iterable[Self]) -> Self:
        """Put pieces together, in any order: each partition but those of metrics is in one of them."""
        whole = cls()
        for one, each in product(pieces, fields(cls)):
            mine: Any = getattr(whole, each.name)
            its: Any = getattr(one, each.name)
            if each.name == "reports":
                for task, reports in its.items():
                    mine.setdefault(task, []).extend(reports)
            elif hasattr(mine, "update"):
                mine.update(its)
            else:  # texts: the first that isn't empty; what can be added is
                setattr(whole, each.name, mine or its if isinstance(mine, str) else mine + its)
        return whole

    def packed(self) -> bytes:
        """Return it as bytes, which travel between workers unread."""
        return zlib.compress(pickle.dumps(self, pickle.HIGHEST_PROTOCOL), 1)

    @staticmethod
    def unpacked(piece: bytes) -> Found:
        """Read what `packed` wrote."""
        return pickle.loads(zlib.decompress(piece))  # noqa: S301 - our own workers wrote it

    def read_stream(self, key: bytes | None, value: bytes | None, came_ms: int) -> None:
        """Take a record of the coordinator stream."""
        namespace, name = stream.decode_key(key)
        if namespace not in _OF_STREAM:
            return
        about, wanted = _OF_STREAM[namespace]
        kept: dict[str, Any] = getattr(self, about)
        told = {} if value is None else stream.decode_fields(value)
        if kept is self.config and not is_needed(name):
            return
        text = told["values"].get(wanted) if told else None
        kept.pop(name, None)
        if text is None:
            return
        if kept is self.hosts:
            kept[name] = text, long_or_none(told.get("timestamp")) or came_ms
        elif kept is not self.partitions:
            kept[name] = text
        elif text.isdigit():
            kept[name] = int(text)

    def read_checkpoint(
        self, key: bytes | None, value: bytes | None, came_ms: int, offset: int
    ) -> None:
        """Take a record of the checkpoint topic; of two versions the one written later counts, per changelog."""
        about = checkpoint_key(key)
        if about is None:
            return
        at = about.task_name, about.version
        if value is None:
            self.checkpoints.pop(at, None)
            return
        source = "checkpoint-v1" if about.version == V1 else about.version
        offsets = decode_checkpoint(about, value).changelog_offsets
        # In one partition offsets tell the order, whatever their writers' clocks say.
        self.checkpoints[at] = Said(source, (0, offset), came_ms, offsets)

    def read_state(self, key: bytes | None, value: bytes | None, came_ms: int) -> None:
        """Take a record of our coordinator's state: its deployment, a host, or a group of containers.

        A start that is seen from its command to its container's check-in tells how long it took, by the times of
        the two records; what the container restores comes after that.
        """
        name = key.decode() if key is not None and is_state(key) else ""
        if not name.startswith((JOB, HOST, GROUP)):
            return
        content = decode_record("of its coordinator", TopicRecord(key, value, came_ms)).value
        if name.startswith(HOST):
            alive = content is not None and content.get("alive") is True
            (self.agents.add if alive else self.agents.discard)(name.removeprefix(HOST))
        elif not name.startswith(GROUP):
            job = None if content is None else codec.job_from_json(content.get("state"))
            self.coordinated = "" if job is None else job.deployment_id
        elif content is None:
            self.groups.pop(name.removeprefix(GROUP), None)
        else:
            self._read_group(name.removeprefix(GROUP), content, came_ms)

    def _read_group(self, name: str, content: Mapping[str, Any], came_ms: int) -> None:
        places: dict[str, Place] = {}
        for one in codec.group_from_json(content.get("group")).processors.values():
            run = one.incarnation
            host, execution = (None, None) if run is None else (run.host, run.execution_id)
            places[one.processor_id] = Place(name, one.phase.value, host, execution, came_ms)
            if run is None:
                continue
            if one.phase is Phase.STARTING:
                self.starting_ms.setdefault(run.execution_id, came_ms)
            elif one.phase is Phase.RUNNING and run.execution_id in self.starting_ms:
                took_ms = came_ms - self.starting_ms.pop(run.execution_id)
                self.starts.append((run.host, max(0, took_ms) / 1000))
        self.groups[name] = places


def standby_report(
    value: bytes | None, jobs: Collection[tuple[str, str]] | None = None
) -> TaskSample | None:
    """Decode a record of a metrics topic: the report of a standby's task of these jobs, of any where none is named."""
    if value is None or len(value) > HUGE_BYTES:
        seen = "it has no value" if value is None else f"it has {len(value):,} bytes"
        raise MalformedRecord("read a report", seen=seen)
    return decode_report(value, jobs=jobs, source=STANDBY_TASK)


def refuse_future(came_ms: int, now_ms: int) -> None:
    """A record that claims to be of tomorrow or later hides every one that comes before."""
    if came_ms > now_ms + _DAY_MS:
        seen = f"its time is {(came_ms - now_ms) // _DAY_MS} days ahead"
        raise MalformedRecord("read a report", seen=seen)


def is_needed(name: str) -> bool:
    """Return whether a snapshot uses this setting of a job."""
    return name in _NEEDED or (
        name.startswith(("stores.", "metrics.reporter.")) and name.endswith(_NEEDED_ENDS)
    )


class Task(NamedTuple):
    """An assigned task; a standby without a changelog partition of its own has that of its active."""

    name: str
    processor: str
    mode: str
    partition: int | None


class Job:
    """A job by the records that were found.

    `deployment_id` is `app.run.id` of the running deployment. `report_ms` is the longest interval of
    its reporters, 0 without any; a report is good for `patience_ms`, three of them. `changelogs` are of
    the stores with a known system. `places` and `agents` (hosts that have one) are empty if our
    coordinator doesn't run the deployment; where it places a container counts more than where the
    container reported itself. `reports` and `checkpoints` are by task, each in order of time.
    """

    def __init__(self, name: str, job_id: str, found: Found) -> None:
        self.name, self.id, self.found = name, job_id, found
        self.ident = name, job_id
        self.config, self.hosts = found.config, dict(found.hosts)
        self.deployment_id = self.config.get("app.run.id")
        self.report_ms = 1_000 * max(metrics_topics(self.config).values(), default=0)
        self.patience_ms = _INTERVALS * self.report_ms
        self.changelogs = tuple(one for one in store_changelogs(self.config) if one.system)
        self.reports = {task: _newest(reports) for task, reports in found.reports.items()}
        self.checkpoints: dict[str, list[Said]] = {}
        for (task, _), said in sorted(found.checkpoints.items(), key=lambda each: each[1].order):
            self.checkpoints.setdefault(task, []).append(said)
        is_ours = self.deployment_id is not None and found.coordinated == self.deployment_id
        self.agents = found.agents if is_ours else set[str]()
        self.places: dict[str, Place] = {}
        for places in found.groups.values() if is_ours else ():
            self.places |= places
            for processor, place in places.items():
                self.hosts.pop(processor, None)
                if place.host is not None:
                    self.hosts[processor] = place.host, place.since_ms

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Assigned tasks. A task without a recorded mode is Active, as Samza takes it."""
        modes, partitions = self.found.modes, self.found.partitions
        return tuple(
            Task(
                name,
                processor,
                modes.get(name, ACTIVE),
                partitions.get(name, partitions.get(active_task_of(name))),
            )
            for name, processor in sorted(self.found.containers.items())
        )

    @cached_property
    def tasks_of(self) -> Mapping[str, Sequence[Task]]:
        """Processor → its tasks, in order."""
        found: dict[str, list[Task]] = {}
        for task in sorted(self.tasks, key=lambda task: task.processor):
            found.setdefault(task.processor, []).append(task)
        return found

    def silences_ms(self, newest_ms: Mapping[str, int]) -> dict[str, int]:
        """Task → how long ago its newest report came, by when the newest record of any topic of its came."""
        came = [newest_ms[topic] for topic in metrics_topics(self.config) if topic in newest_ms]
        return {
            task: max(0, max(came) - (reports[-1].came_ms or 0))
            for task, reports in self.reports.items()
            if came
        }

    def host_of(self, processor: str) -> str | None:
        """Return the host that it reported last; None: none, or the report was deleted."""
        return self.hosts.get(processor, (None, None))[0]

    @property
    def known_hosts(self) -> set[str]:
        """Where its containers are, and where our coordinator has an agent for it."""
        return {*self.agents, *(host for host, _ in self.hosts.values())}

    def mode_of(self, processor: str) -> str:
        """Return the mode of its tasks; for one without tasks its group tells it."""
        modes = {task.mode for task in self.tasks_of.get(processor, ())}
        if modes:
            return STANDBY if modes == {STANDBY} else ACTIVE
        return STANDBY if self.active_of(processor) != processor else ACTIVE

    def active_of(self, processor: str) -> str:
        """Return the active that it replicates; an active replicates itself.

        As our coordinator has its groups, else as tasks replicate one another; of a processor of
        neither its id tells it.
        """
        return self._actives.get(processor) or group_of(processor)

    @cached_property
    def _actives(self) -> Mapping[str, str]:
        names = {processor: [t.name for t in tasks] for processor, tasks in self.tasks_of.items()}
        runs_active = {task.processor for task in self.tasks if task.mode != STANDBY}
        groups = {processor: place.group for processor, place in self.places.items()}
        return {**actives(names, names.keys() - runs_active), **groups}


def _newest(reports: list[Said]) -> list[Said]:
    """Keep the newest of each host, in order of time."""
    of: dict[str | None, list[Said]] = {}
    for one in sorted(reports, key=lambda one: one.order):
        of.setdefault(one.host, []).append(one)
    newest = (one for mine in of.values() for one in mine[-PACED_BY:])
    return sorted(newest, key=lambda one: one.order)


def window_ms(configs: Iterable[Mapping[str, str]]) -> int:
    """Return how far back reports and commits are read, for jobs of these settings.

    Three times the longest interval of a reporter or of commits (`task.commit.ms`), and between 2 and 15
    minutes: a job that works has a report and a commit in it.
    """
    longest = 0
    for config in configs:
        commits = long_or_none(config.get("task.commit.ms", "")) or _COMMIT_MS
        longest = max(longest, commits, *(1_000 * s for s in metrics_topics(config).values()))
    return min(max(_INTERVALS * longest, _LEAST_WINDOW_MS), _MOST_WINDOW_MS)
