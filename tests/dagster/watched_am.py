"""A job under Samza's own AM as `auto_failover` sees it, in virtual time, with faults to inject.

It tells no more than the real one: no leader, no execution ids in the stream, state `last-seen`, a
locality some seconds after SUCCEEDED. Containers report each minute, Samza's default, each at its own
second, some reports late, and some but no two in turn lost; reports older than three intervals are no longer read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import dagster as dg
from lookout import DictKeeper, ListEvents

from samza_dagster.client.views import (
    LAST_SEEN_STATE,
    ActionView,
    HostView,
    InputLag,
    JobView,
    Look,
    ProcessorView,
    ReplicaLag,
)
from samza_dagster.metadata.resource_manager import Application
from samza_dagster.model import PlacementRequest, TaskMode
from samza_dagster.model.naming import LAST_SEEN, group_of, is_standby
from samza_dagster.orchestration.watch.failover_tick import Tick
from samza_dagster.orchestration.watch.settings import AutoFailover

BEGIN_MS = 1_700_000_000_000
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


class WatchedAm:
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
        self.rng = random.Random(seed)
        self.hosts = [f"nm{n}" for n in range(hosts)]
        self.lag_as_reported, self.resource_manager = lag_as_reported, resource_manager
        self.loses_reports, self.backlog = loses_reports, 0
        self.yarn_state = "RUNNING"
        self.now_ms, self.deployment, self.attempts = BEGIN_MS, "run-1", 1
        self.processes: dict[str, Process] = {}
        self.localities: dict[str, str] = {}
        self.dead_since: dict[str, int] = {}
        self.in_flight: dict[str, tuple[str, str]] = {}
        self.asked: list[tuple[str, str]] = []
        self._later: list[tuple[int, Callable[[], None]]] = []
        for n in range(actives):
            self._run(str(n), self.hosts[n % hosts])
            self._run(
                f"{n}-0", self.hosts[(n + actives) % hosts if hosts > actives else (n + 1) % hosts]
            )
        self.localities = {p: process.host for p, process in self.processes.items()}

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

    def place(self, processor: str, destination: str) -> str:
        """A request as the AM carries it out: about ten seconds until SUCCEEDED."""
        uuid = f"request-{len(self.asked)}"
        self.asked.append((processor, destination))
        self.in_flight[uuid] = (processor, destination)
        host = self.localities[processor] if destination == LAST_SEEN else destination

        def succeeded() -> None:
            del self.in_flight[uuid]
            self._start(processor, host, says_so=True)

        self._after(self.rng.randrange(5_800, 14_500), succeeded)
        return uuid

    # What is seen.

    def view(self) -> JobView:
        known = set(self.localities.values()) | (
            set(self.hosts) if self.resource_manager else set[str]()
        )
        application = Application("application_1_0001", self.yarn_state)
        ended = self.resource_manager and application.has_ended
        return JobView(
            job_name="demo",
            job_id="1",
            deployment_id=self.deployment,
            processors={
                p: ProcessorView(
                    p,
                    TaskMode.STANDBY if is_standby(p) else TaskMode.ACTIVE,
                    LAST_SEEN_STATE,
                    host,
                    tasks=(_task(p),),
                    last_seen_host=host,
                )
                for p, host in sorted(self.localities.items())
            },
            hosts={h: HostView(h, "lost" if self._is_lost(h) else LAST_SEEN_STATE) for h in known},
            actions=tuple(
                ActionView(uuid, processor, to, "in_progress", self.now_ms)
                for uuid, (processor, to) in self.in_flight.items()
            ),
            coordinator="samza",
            report_every_s=REPORT_MS // 1000,
            application=application if self.resource_manager else None,
            dead=f"YARN's ResourceManager: {application}" if ended else None,
        )

    def look(self) -> Look:
        lags = tuple(self._lag(p) for p in self.processes)
        inputs = tuple(self._input_lag(p) for p in self.processes if not is_standby(p))
        return Look(self.view(), lags, inputs)

    def _lag(self, processor: str) -> ReplicaLag:
        process = self.processes[processor]
        reported = self._newest_report(process)
        at_ms = reported if reported is not None else self.now_ms
        end = _records(at_ms if self.lag_as_reported else self.now_ms)
        applied = None
        if reported is not None:
            applied = _records(min(at_ms, process.thread_ms or at_ms)) - 1
        observed, basis = reported, "metrics" if reported is not None else "none"
        if reported is None and not is_standby(processor):
            observed, basis = self._committed_ms(processor), "checkpoint"
        return ReplicaLag(
            processor,
            _task(processor),
            TaskMode.STANDBY if is_standby(processor) else TaskMode.ACTIVE,
            "store",
            "changelog",
            int(group_of(processor)),
            self.localities[processor],
            end,
            applied,
            None if applied is None else end - 1 - applied,
            observed,
            basis,
            process.name if reported is not None else "",
        )

    def _input_lag(self, processor: str) -> InputLag:
        at_ms = self._committed_ms(processor)
        committed, end = _records(at_ms) - 1 - self.backlog, _records(self.now_ms)
        return InputLag(
            processor, _task(processor), "input", 0, committed, end, end - 1 - committed, at_ms
        )

    def _committed_ms(self, processor: str) -> int:
        worked, second = self.processes[processor].worked_ms(self.now_ms), 7_000 * int(processor)
        return worked - (worked - BEGIN_MS - second - 3_000) % COMMIT_MS

    def _newest_report(self, process: Process) -> int | None:
        """By the host that the stream shows alone; those that are too old are no longer read."""
        here = self.localities.get(process.name.partition("#")[0]) == process.host
        newest = process.reported_ms if here else None
        return newest if newest is not None and self.now_ms - newest <= 3 * REPORT_MS else None

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
        count = sum(1 for _ in self.asked) + self.attempts
        name = f"{processor}#container_e01_{self.now_ms}_{count:02}"
        first_ms = self.now_ms + self.rng.randrange(5_000, REPORT_MS)
        self.processes[processor] = Process(name, host, self.now_ms, next_ms=first_ms)

    def _start(self, processor: str, host: str, *, says_so: bool = False) -> None:
        """A process there; its locality comes later than what the AM says."""
        self._run(processor, host)

        def reported() -> None:
            self.localities[processor] = host

        if says_so:
            reported()  # the client counts the newest SUCCEEDED
        self._after(self.rng.randrange(2_200, 6_300), reported)

    def new_attempt(self) -> None:
        """The job is deployed again, by YARN or by a person: all its containers start anew."""
        self.attempts, self.yarn_state = self.attempts + 1, "RUNNING"
        self.deployment = f"run-{self.attempts}"
        self.in_flight.clear()
        for processor, process in list(self.processes.items()):
            self._after(3_000, lambda p=processor, h=process.host: self._start(p, h))

    def _other(self, processor: str) -> str:
        taken = {self.localities[p] for p in self.localities if group_of(p) == group_of(processor)}
        return next(h for h in self.hosts if h not in taken and h not in self.dead_since)

    def _after(self, ms: int, act: Callable[[], None]) -> None:
        self._later.append((self.now_ms + ms, act))

    def _is_lost(self, host: str) -> bool:
        since = self.dead_since.get(host)
        return self.resource_manager and since is not None and self.now_ms - since >= NODE_EXPIRY_MS


class AmClient:
    """The part of a client that a tick uses."""

    def __init__(self, world: WatchedAm) -> None:
        self.world = world

    def view(self) -> JobView:
        return self.world.view()

    def look(self) -> Look:
        return self.world.look()

    def asked_before(self, uuids: Collection[str]) -> frozenset[str]:
        return frozenset(uuids) & self.world.in_flight.keys()

    def place(self, processor_id: str, destination: str, *, uuid: str = "") -> PlacementRequest:
        self.world.place(processor_id, destination)
        return PlacementRequest(
            uuid=uuid,
            deployment_id=self.world.deployment,
            processor_id=processor_id,
            destination_host=destination,
            timestamp=self.world.now_ms,
        )


@dataclass
class Watching:
    """`auto_failover` over such a world, a look each five seconds."""

    world: WatchedAm
    settings: AutoFailover = field(default_factory=AutoFailover)
    events: ListEvents = field(default_factory=ListEvents)
    runs: list[dg.RunRequest] = field(default_factory=list[dg.RunRequest])
    cursor: str | None = None
    prefix: str = ""

    def go_on(self, for_s: int) -> list[dg.AssetObservation]:
        """What was told in that time."""
        before = len(self.events.kept)
        end_ms = self.world.now_ms + for_s * 1000
        keeper = DictKeeper()
        while self.world.now_ms < end_ms:
            self.world.until(self.world.now_ms + 5_000)
            tick = Tick(
                AmClient(self.world),  # type: ignore[arg-type]
                self.events,
                keeper,
                self.settings,
                lambda: self.world.now_ms,
                prefix=self.prefix,
            )
            self.cursor = tick.run(self.cursor).to_text()
            self.events.kept += tick.reported
            self.runs += tick.runs
        return self.events.kept[before:]


def _records(ms: int) -> int:
    return (ms - BEGIN_MS) * A_SECOND // 1000 + 10_000_000


def _task(processor: str) -> str:
    active = f"Partition {group_of(processor)}"
    return f"Standby-{active}-0" if is_standby(processor) else active


__all__ = ["BEGIN_MS", "NODE_EXPIRY_MS", "REPORT_MS", "WatchedAm", "Watching", "replace"]
