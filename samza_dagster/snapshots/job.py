"""What is known of one job, put together from what workers found of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from samza_dagster.model.changelogs import StoreChangelog, store_changelogs
from samza_dagster.model.job_model import actives
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import active_task_of, group_of
from samza_dagster.model.numbers import long_or_none
from samza_dagster.snapshots.found import Found, Place, Said

ACTIVE, STANDBY = "Active", "Standby"
KEPT_REPORTS = 12
"""The newest of a replica that are kept: its pace is computed from no more (`lag.readiness.PACED_BY`)."""
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


class Job:
    """A job by what was found of it.

    `places` and `agents` (hosts that have one) are empty where our coordinator doesn't run the deployment:
    where that one has a container counts, not where the container said that it was. `reports` and `checkpoints`
    are by task, each in order of time.
    """

    def __init__(self, name: str, job_id: str, found: Found) -> None:
        self.name, self.id, self.found = name, job_id, found
        self.ident = name, job_id
        self.config, self.hosts = found.config, dict(found.hosts)
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

    @property
    def deployment_id(self) -> str | None:
        """`app.run.id` of the running deployment."""
        return self.config.get("app.run.id")

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Those that are assigned. Without a recorded mode a task is Active, as Samza takes it."""
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
        modes = {task.mode for task in self.tasks_of.get(processor, ())}
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
        names = {processor: [t.name for t in tasks] for processor, tasks in self.tasks_of.items()}
        runs_active = {task.processor for task in self.tasks if task.mode != STANDBY}
        groups = {processor: place.group for processor, place in self.places.items()}
        return {**actives(names, names.keys() - runs_active), **groups}


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
