"""What is known of one job, put together from what workers found of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from samza_dagster.model.changelogs import StoreChangelog, store_changelogs
from samza_dagster.model.job_model import actives
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import active_task_of, group_of
from samza_dagster.model.numbers import long_or_none
from samza_dagster.snapshots import records
from samza_dagster.snapshots.coordinated import Place
from samza_dagster.snapshots.reading import KEPT_REPORTS, Found, Said, Stated

ACTIVE, STANDBY = "Active", "Standby"
_SOURCES = {"checkpoint": "checkpoint-v1", "checkpoint-v2": "checkpoint-v2"}
_COMMIT_MS = 60_000
"""Samza's default of `task.commit.ms`."""
_LEAST_WINDOW_MS, _MOST_WINDOW_MS = 120_000, 900_000
_INTERVALS = 3


class Task(NamedTuple):
    """An assigned task; a standby without a changelog partition of its own has that of its active."""

    name: str
    processor: str
    mode: str
    partition: int | None


@dataclass
class Job:
    """A job by its facts.

    `places` and `agents` (hosts that have one) are empty where our coordinator doesn't run the
    deployment. `reports` and `checkpoints` are by task, each in order of time. `starts` are hosts, and
    seconds from a start's command to the container's check-in.
    """

    name: str
    id: str
    config: dict[str, str] = field(default_factory=dict[str, str])
    hosts: dict[str, tuple[str, int | None]] = field(default_factory=dict[str, Any])
    reports: dict[str, list[Said]] = field(default_factory=dict[str, list[Said]])
    checkpoints: dict[str, list[Said]] = field(default_factory=dict[str, list[Said]])
    unreadable: int = 0
    example: str = ""
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    agents: set[str] = field(default_factory=set[str])
    starts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    _groups: dict[str, str] = field(default_factory=dict[str, str])
    _containers: dict[str, str] = field(default_factory=dict[str, str])
    _modes: dict[str, str] = field(default_factory=dict[str, str])
    _partitions: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, name: str, job_id: str, every: Iterable[Found]) -> Job:
        """Put it together from pieces, in any order."""
        job = cls(name, job_id)
        facts: dict[tuple[str, str, str], Stated] = {}
        for found in every:
            facts |= found.facts
            job.unreadable += found.unreadable
            job.example = job.example or found.example
            job.starts += found.starts
            for task, reports in found.reports.items():
                job.reports.setdefault(task, []).extend(reports)
        for (kind, about, source), stated in facts.items():
            job._add(kind, about, source, stated)
        for commits in job.checkpoints.values():
            commits.sort(key=lambda one: one.order)
        job.reports = {task: _newest(reports) for task, reports in job.reports.items()}
        job._coordinate(facts)
        return job

    def _add(self, kind: str, name: str, source: str, stated: Stated) -> None:
        value = stated.value
        if kind == records.CONFIG:
            self.config[name] = value
        elif kind == records.HOST:
            self.hosts[name] = (value, stated.at_ms or stated.came_ms)
        elif kind == records.CONTAINER:
            self._containers[name] = value
        elif kind == records.MODE:
            self._modes[name] = value
        elif kind == records.CHANGELOG and value.isdigit():
            self._partitions[name] = int(value)
        elif kind == records.CHECKPOINT:
            order = 0, stated.offset  # in one partition, whatever their writers' clocks say
            said = Said(_SOURCES[source], order, stated.came_ms, value)
            self.checkpoints.setdefault(name, []).append(said)

    def _coordinate(self, facts: Mapping[tuple[str, str, str], Stated]) -> None:
        """Where our coordinator has a container counts, not where that one said that it was."""
        coordinated = facts.get((records.DEPLOYMENT, "", ""))
        if coordinated is None or coordinated.value != self.deployment_id:
            return
        for (kind, name, _), stated in facts.items():
            if kind == records.AGENT:
                self.agents.add(name)
            elif kind == records.GROUP:
                for processor, place in stated.value.items():
                    self.places[processor] = place
                    self._groups[processor] = name
                    self.hosts.pop(processor, None)
                    if place.host is not None:
                        self.hosts[processor] = (place.host, stated.came_ms)

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
        return _INTERVALS * self.report_ms

    def silences_ms(self, newest_ms: Mapping[str, int]) -> dict[str, int]:
        """Task → how long ago its newest report came, by when the newest record of any topic of its came."""
        came = [newest_ms[topic] for topic in metrics_topics(self.config) if topic in newest_ms]
        return {
            task: max(0, max(came) - (reports[-1].came_ms or 0))
            for task, reports in self.reports.items()
            if came
        }

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


def _newest(reports: list[Said]) -> list[Said]:
    """Keep the newest of each host, in order of time."""
    of: dict[str | None, list[Said]] = {}
    for one in sorted(reports, key=lambda one: one.order):
        of.setdefault(one.host, []).append(one)
    newest = (one for mine in of.values() for one in mine[-KEPT_REPORTS:])
    return sorted(newest, key=lambda one: one.order)


def window_ms(configs: Iterable[Mapping[str, str]]) -> int:
    """Return how far back reports and commits are read, for jobs of these settings.

    Three times the longest interval of a reporter or of commits (`task.commit.ms`), and between 2 and 15
    minutes: a job that works has a report and a commit in it.
    """
    longest = max((ms for config in configs for ms in _intervals_ms(config)), default=0)
    return min(max(_INTERVALS * longest, _LEAST_WINDOW_MS), _MOST_WINDOW_MS)


def _intervals_ms(config: Mapping[str, str]) -> Iterator[int]:
    yield from (1_000 * seconds for seconds in metrics_topics(config).values())
    yield max(long_or_none(config.get("task.commit.ms", "")) or _COMMIT_MS, 1)
