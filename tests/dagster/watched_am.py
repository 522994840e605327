"""A job under Samza's own AM as `auto_failover` sees it, in virtual time, with faults to inject.

It tells no more than the real one: no leader, no execution ids in the stream, state `last-seen`, a
locality some seconds after SUCCEEDED. Containers report each minute, Samza's default, each at its own
second, some reports late, and some but no two in turn lost; reports older than three intervals are no longer read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import dagster as dg
from lookout import ListEvents, tick

from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.resource_manager import Application, Cluster, YarnNode
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.model.naming import LAST_SEEN, group_of, is_standby
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.placement import texts
from tests.rig.played_job import BEGIN_MS, PlayedJob
from tests.rig.played_stores import CHANGELOG
from tests.rig.played_topics import Topics, commit, report

REPORT_MS = 60_000
COMMIT_MS = 60_000
A_SECOND = 1_000
"""Records: the rate of each input partition and of each changelog."""
NODE_EXPIRY_MS = 600_000
"""YARN's default."""


@dataclass
class Process:
    """One incarnation of a container; `stopped_ms`: it does nothing from then on, dead or frozen.

    `thread_ms`: since when its restore thread is dead, which nothing but its offset tells.
    """

    name: str
    host: str
    since_ms: int
    stopped_ms: int | None = None
    frozen: bool = False
    thread_ms: int | None = None
    next_ms: int = 0
    reported_ms: int | None = None

    def worked_ms(self, now_ms: int) -> int:
        """The last moment at which it worked."""
        return min(now_ms, self.stopped_ms or now_ms)


class WatchedAm(PlayedJob):
    """Actives 0… with a standby each, on hosts in a ring; time passes by `until`."""

    def __init__(
        self,
        actives: int = 4,
        hosts: int = 4,
        *,
        seed: int = 1,
        lag_as_reported: bool = True,
        resource_manager: bool = False,
        loses_reports: bool = False,
    ) -> None:
        super().__init__(coordinator="samza")
        self.topics = _AmTopics(self)
        self.rng = random.Random(seed)
        self.nodes = [f"nm{n}" for n in range(hosts)]
        self.lag_as_reported, self.resource_manager = lag_as_reported, resource_manager
        self.loses_reports, self.backlog = loses_reports, 0
        self.yarn_state = "RUNNING"
        self.attempts = 1
        self.processes: dict[str, Process] = {}
        self.dead_since: dict[str, int] = {}
        self.placed: list[tuple[str, str]] = []
        self._later: list[tuple[int, Callable[[], None]]] = []
        for n in range(actives):
            self._run(str(n), self.nodes[n % hosts])
            self._run(
                f"{n}-0", self.nodes[(n + actives) % hosts if hosts > actives else (n + 1) % hosts]
            )
        self.at = {p: process.host for p, process in self.processes.items()}
        self._tell_yarn()

    # What happens.

    def until(self, ms: int) -> None:
        """Time goes on to there: what was to happen by then happens."""
        while due := sorted((at, n) for n, (at, _) in enumerate(self._later) if at <= ms):
            at, number = due[0]
            _, act = self._later.pop(number)
            self._report(at)
            self.now_ms = max(self.now_ms, at)
            act()
        self._report(ms)
        self.now_ms = ms
        self._tell_yarn()

    def freeze(self, processor: str) -> None:
        process = self.processes[processor]
        process.stopped_ms, process.frozen = self.now_ms, True

    def thaw(self, processor: str) -> None:
        self.processes[processor].stopped_ms = None

    def kill_restore_thread(self, standby: str) -> None:
        self.processes[standby].thread_ms = self.now_ms

    def kill_node(self, host: str) -> None:
        """All on it is dead at once; YARN notices later, and the AM starts it elsewhere."""
        self.dead_since[host] = self.now_ms
        lost = [p for p, process in self.processes.items() if process.host == host]
        for processor in lost:
            self.processes[processor].stopped_ms = self.now_ms
            self._after(NODE_EXPIRY_MS + 10_000, lambda p=processor: self._start(p, self._other(p)))

    def kill_am(self, down_ms: int = 30_000) -> None:
        """YARN kills its containers and starts another attempt, with a new `app.run.id`."""
        self.kill_job()
        self.yarn_state = "ACCEPTED"
        self._after(down_ms, self.new_attempt)

    def kill_job(self) -> None:
        """The application ends: its AM and every container."""
        for process in self.processes.values():
            process.stopped_ms = self.now_ms
        self.yarn_state = "FAILED"

    def on_asked(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        """As the AM carries it out: about ten seconds until SUCCEEDED."""
        processor, destination = request.processor_id, request.destination_host
        self.placed.append((processor, destination))
        host = self.at[processor] if destination == LAST_SEEN else destination
        deployment = self.deployment

        def answer(status: StatusCode, text: str) -> None:
            told = PlacementResponse(
                uuid=uuid,
                deployment_id=deployment,
                processor_id=processor,
                destination_host=destination,
                status_code=status,
                timestamp=self.now_ms,
                response_message=text,
            )
            self.respond(told)

        def succeeded() -> None:
            if self.deployment == deployment:
                answer(StatusCode.SUCCEEDED, texts.started(host))
                self._start(processor, host)

        answer(StatusCode.IN_PROGRESS, texts.RESOURCES_REQUESTED)
        self._after(self.rng.randrange(5_800, 14_500), succeeded)

    # What is seen.

    def lags_of(self, processor: str) -> list[int | None] | None:
        return [0]

    def report_of(self, processor: str) -> TopicRecord | None:
        """The newest of its process, if one was ever written."""
        process = self.processes[processor]
        if process.reported_ms is None:
            return None
        at_ms = process.reported_ms
        applied = _records(min(at_ms, process.thread_ms or at_ms)) - 1
        return report(processor, process.name, process.host, at_ms, (applied,), at_ms)

    def commits(self) -> Iterable[TopicRecord]:
        actives = [p for p in self.processes if not is_standby(p)]
        found: list[TopicRecord] = []
        for number, pid in enumerate(actives):
            at_ms = self._committed_ms(pid)
            found.append(commit(pid, _records(at_ms) - 1 - self.backlog, number, at_ms))
        return found

    def inputs(self) -> Mapping[int, int]:
        return {int(p): _records(self.now_ms) for p in self.processes if not is_standby(p)}

    def _tell_yarn(self) -> None:
        if self.resource_manager:
            nodes = {
                host: YarnNode(host, "LOST" if self._is_lost(host) else "RUNNING")
                for host in self.nodes
            }
            application = Application("application_1_0001", self.yarn_state)
            self.yarn = Cluster("http://rm:8088", nodes, application)

    def _committed_ms(self, processor: str) -> int:
        worked, second = self.processes[processor].worked_ms(self.now_ms), 7_000 * int(processor)
        return worked - (worked - BEGIN_MS - second - 3_000) % COMMIT_MS

    # How it goes on.

    def _report(self, until_ms: int) -> None:
        for process in self.processes.values():
            while process.next_ms <= process.worked_ms(until_ms):
                former_ms = process.reported_ms or process.next_ms
                came = process.next_ms - former_ms < REPORT_MS * 3 // 2  # the former one did
                if not (self.loses_reports and came and self.rng.random() < 0.05):
                    process.reported_ms = process.next_ms
                late = self.rng.randrange(-2_000, 3_000) if self.loses_reports else 0
                process.next_ms += REPORT_MS + late

    def _run(self, processor: str, host: str) -> None:
        count = len(self.placed) + self.attempts
        name = f"{processor}#container_e01_{self.now_ms}_{count:02}"
        first_ms = self.now_ms + self.rng.randrange(5_000, REPORT_MS)
        self.processes[processor] = Process(name, host, self.now_ms, next_ms=first_ms)

    def _start(self, processor: str, host: str) -> None:
        """A process there; its locality comes later than what the AM says."""
        self._run(processor, host)

        def reported() -> None:
            self.at[processor] = host

        self._after(self.rng.randrange(2_200, 6_300), reported)

    def new_attempt(self) -> None:
        """The job is deployed again, by YARN or by a person: all its containers start anew."""
        self.attempts, self.yarn_state = self.attempts + 1, "RUNNING"
        self.deployment = f"run-{self.attempts}"
        for processor, process in list(self.processes.items()):
            self._after(3_000, lambda p=processor, h=process.host: self._start(p, h))

    def _other(self, processor: str) -> str:
        taken = {self.at[p] for p in self.at if group_of(p) == group_of(processor)}
        return next(h for h in self.nodes if h not in taken and h not in self.dead_since)

    def _after(self, ms: int, act: Callable[[], None]) -> None:
        self._later.append((self.now_ms + ms, act))

    def _is_lost(self, host: str) -> bool:
        since = self.dead_since.get(host)
        return self.resource_manager and since is not None and self.now_ms - since >= NODE_EXPIRY_MS


class _AmTopics(Topics):
    """Changelogs that grow by the clock; `lag_as_reported`: the times of their records are known."""

    _job: WatchedAm

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        found = super().offset_ranges(topics)
        end = OffsetRange(0, _records(self._job.now_ms))
        return {at: end if at[0].startswith(CHANGELOG) else span for at, span in found.items()}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        now_ms = self._job.now_ms
        known = [one for one in asked if self._job.lag_as_reported and one[2] < now_ms]
        return {one: _records(one[2]) for one in known}

    def reports(self) -> Iterable[TopicRecord | None]:
        return [self._job.report_of(pid) for pid in self._job.processes]


@dataclass
class Watching:
    """`auto_failover` over such a world, a tick each five seconds."""

    world: WatchedAm
    settings: AutoFailover = field(default_factory=AutoFailover)
    events: ListEvents = field(default_factory=ListEvents)
    runs: list[dg.RunRequest] = field(default_factory=list[dg.RunRequest])
    cursor: str | None = None

    def go_on(self, for_s: int) -> list[dg.AssetObservation]:
        """What was told in that time."""
        before = len(self.events.kept)
        end_ms = self.world.now_ms + for_s * 1000
        while self.world.now_ms < end_ms:
            self.world.until(self.world.now_ms + 5_000)
            ticked = tick(
                self.world.client(),
                self.events,
                self.settings,
                self.cursor,
                self.world.now_ms,
            )
            self.cursor = ticked.cursor
            self.events.kept += ticked.reported
            self.runs += ticked.runs
        return self.events.kept[before:]


def _records(ms: int) -> int:
    return (ms - BEGIN_MS) * A_SECOND // 1000 + 10_000_000
