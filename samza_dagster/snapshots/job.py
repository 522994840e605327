"""What is known of one job, put together from facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from samza_dagster.model.changelogs import StoreChangelog, store_changelogs
from samza_dagster.model.job_model import actives
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import active_task_of, group_of
from samza_dagster.snapshots import facts

ACTIVE, STANDBY = "Active", "Standby"
_SOURCES = {"checkpoint": "checkpoint-v1", "checkpoint-v2": "checkpoint-v2"}
KEPT_REPORTS = 12
"""The newest of a replica that are kept, in one row: its pace is told by no more (`lag.readiness.PACED_BY`)."""
LEAST_WINDOW_MS = 300_000
_REPORTS_READ = 12
_REPORTS_GOOD = 3


class Task(NamedTuple):
    """An assigned task; a standby without a changelog partition of its own has that of its active."""

    name: str
    processor: str
    mode: str
    partition: int | None


class Place(NamedTuple):
    """Where our coordinator has a container, and in which phase (`placement.state.Phase`)."""

    phase: str
    host: str | None
    execution_id: str | None


class Said(NamedTuple):
    """Offsets by changelog gauge, as a report or a checkpoint tells them.

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


@dataclass
class Job:
    """A job by its facts; of each the newest has been chosen, of a replica's reports some.

    `places` and `agents` (hosts that have one) are empty where our coordinator doesn't run the
    deployment. `starts` are hosts, and seconds from a start's command to the container's check-in.
    """

    name: str
    id: str
    config: dict[str, str] = field(default_factory=dict[str, str])
    hosts: dict[str, tuple[str, int | None]] = field(default_factory=dict[str, Any])
    reports: dict[str, list[Said]] = field(default_factory=dict[str, list[Said]])
    checkpoints: dict[str, list[Said]] = field(default_factory=dict[str, list[Said]])
    unreadable: int = 0
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    agents: set[str] = field(default_factory=set[str])
    starts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    _coordinated: str | None = None
    _placed_ms: dict[str, int] = field(default_factory=dict[str, int])
    _groups: dict[str, str] = field(default_factory=dict[str, str])
    _containers: dict[str, str] = field(default_factory=dict[str, str])
    _modes: dict[str, str] = field(default_factory=dict[str, str])
    _partitions: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, name: str, job_id: str, rows: Iterable[Mapping[str, Any]]) -> Job:
        """Put together from rows of table `facts`, in any order."""
        job = cls(name, job_id)
        for row in sorted(rows, key=lambda row: (row["came_ms"] or 0, row["offset"])):
            job._add(row)
        job._coordinate()
        return job

    def _add(self, row: Mapping[str, Any]) -> None:
        kind, name, text = row["kind"], row["name"], row["text"]
        if kind == facts.UNREADABLE:
            self.unreadable += 1
        elif text is None:
            return
        elif kind == facts.CONFIG:
            self.config[name] = text
        elif kind == facts.HOST:
            self.hosts[name] = (text, row["at_ms"] or row["came_ms"])
        elif kind == facts.CONTAINER:
            self._containers[name] = text
        elif kind == facts.MODE:
            self._modes[name] = text
        elif kind == facts.CHANGELOG and text.isdigit():
            self._partitions[name] = int(text)
        elif kind == facts.DEPLOYMENT:
            self._coordinated = text
        elif kind == facts.AGENT:
            self.agents.add(name)
        elif kind == facts.START:
            self.starts.append((row["source"], float(text)))
        elif kind == facts.GROUP:
            for processor, place in orjson.loads(text).items():
                self.places[processor] = Place(*place)
                self._placed_ms[processor] = row["came_ms"]
                self._groups[processor] = name
        elif kind == facts.CHECKPOINT:
            order = (row["came_ms"], row["offset"])
            said = Said(_SOURCES[row["source"]], order, row["came_ms"], orjson.loads(text))
            self.checkpoints.setdefault(name, []).append(said)
        elif kind == facts.REPORT:
            self.reports.setdefault(name, []).extend(_reports(row["source"], text))

    def _coordinate(self) -> None:
        """Where our coordinator has a container counts, not where that one said that it was."""
        if self._coordinated != self.deployment_id:
            self.places.clear()
            self.agents.clear()
            self._groups.clear()
        for processor, place in self.places.items():
            self.hosts.pop(processor, None)
            if place.host is not None:
                self.hosts[processor] = (place.host, self._placed_ms[processor])

    @property
    def deployment_id(self) -> str | None:
        """`app.run.id` of the running deployment."""
        return self.config.get("app.run.id")

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Those that are assigned. Without a recorded mode a task is Active, as Samza takes it."""
        return tuple(
            Task(
                name,
                processor,
                self._modes.get(name, ACTIVE),
                self._partitions.get(name, self._partitions.get(active_task_of(name))),
            )
            for name, processor in sorted(self._containers.items())
        )

    @cached_property
    def changelogs(self) -> tuple[StoreChangelog, ...]:
        """Of the stores whose system is known."""
        return tuple(one for one in store_changelogs(self.config) if one.system)

    @property
    def report_ms(self) -> int:
        """The longest interval of its reporters; 0 without any."""
        return 1_000 * max(metrics_topics(self.config).values(), default=0)

    @property
    def patience_ms(self) -> int:
        """For how long a report is good: three intervals."""
        return _REPORTS_GOOD * self.report_ms

    def silences_ms(self, newest_ms: Mapping[str, int]) -> dict[str, int]:
        """Task → how long ago its newest report came, by when the newest record of any topic of its came."""
        came = [newest_ms[topic] for topic in metrics_topics(self.config) if topic in newest_ms]
        if not came:
            return {}
        reported = {
            task: max(said.came_ms or 0 for said in all_) for task, all_ in self.reports.items()
        }
        return {task: max(0, max(came) - at_ms) for task, at_ms in reported.items()}

    def host_of(self, processor: str) -> str | None:
        """What it reported last; None: nothing, or that was deleted."""
        return self.hosts.get(processor, (None, None))[0]

    @property
    def known_hosts(self) -> set[str]:
        """Where its containers are, and where our coordinator has an agent for it."""
        return {*self.agents, *(host for host, _ in self.hosts.values())}

    def mode_of(self, processor: str) -> str:
        """Of its tasks; of one without tasks its group tells it."""
        modes = {task.mode for task in self.tasks if task.processor == processor}
        if modes:
            return STANDBY if modes == {STANDBY} else ACTIVE
        return STANDBY if self.active_of(processor) != processor else ACTIVE

    def active_of(self, processor: str) -> str:
        """The active whose state it has, which is itself for an active.

        As our coordinator has its groups, else as tasks replicate one another; of a processor of
        neither its id tells it.
        """
        return self._actives.get(processor) or group_of(processor)

    @cached_property
    def _actives(self) -> Mapping[str, str]:
        names: dict[str, list[str]] = {}
        for task in self.tasks:
            names.setdefault(task.processor, []).append(task.name)
        runs_active = {task.processor for task in self.tasks if task.mode != STANDBY}
        return {**actives(names, names.keys() - runs_active), **self._groups}


Kept = tuple[int, int, int, str, Mapping[str, int | None]]
"""Of a report: when it came, its offset, its own time, the process, changelog gauge → offset."""


def kept_reports(reports: Sequence[Kept], record_bytes: Mapping[str, float]) -> str:
    """Reports of one replica in order of their offsets, as table `facts` has them; `record_bytes` of the last."""
    return orjson.dumps([[*reports], record_bytes]).decode()


def newest_reports(*texts: str) -> str:
    """Of reports of one replica out of one partition as many as count, each once; the last text is the newest."""
    groups_read = [orjson.loads(text) for text in texts]
    by_offset: dict[int, Kept] = {one[1]: one for reports, _ in groups_read for one in reports}
    return kept_reports(
        [by_offset[at] for at in sorted(by_offset)[-KEPT_REPORTS:]], groups_read[-1][1]
    )


def _reports(host: str, text: str) -> Iterator[Said]:
    """Of a row of `facts`: the newest of a replica from one host, as they were read together."""
    reports, record_bytes = orjson.loads(text)
    for came_ms, offset, at_ms, process, offsets in reports:
        yield Said(
            "metrics", (came_ms, offset), at_ms, offsets, host, process, came_ms, record_bytes
        )


def window_ms(report_ms: int) -> int:
    """How far back reports are read: so many that a pace can be told, and five minutes at least."""
    return max(LEAST_WINDOW_MS, _REPORTS_READ * report_ms)
