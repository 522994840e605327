"""The kill matrix: what can be interrupted × where the coordinator is killed, and the judges.

A scenario is first run to its end without a kill, which tells every commit, effect and
acknowledgement that it has; each of them before or after which a coordinator can die is
a kill point. The job goes on from one point to the next: agents and containers stay, a
coordinator that waits takes over from each that was killed.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from samza_dagster.client.audit_history import read_history
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.responses import terminal
from samza_dagster.metadata.connection import Connection
from samza_dagster.placement.audit_codec import audit_from_json
from samza_dagster.placement.verification import verify
from tests.rig.crashing_points import same_in_each_run
from tests.rig.job import alive
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

CRASHING = "tests.rig.crashing_coordinator"
POINTS = ("before-commit", "after-commit", "after-effect", "before-acknowledgement")
GONE = "gone"
Processors = dict[str, dict[str, Any]]


class KillableJob(Protocol):
    """What the matrix needs of a job: one of stubs (`Job`) or a sandbox's (`SandboxJob`)."""

    coordinator: Any
    actives: int
    standbys: int
    connection: Connection
    memory_mb: int

    @property
    def host_names(self) -> list[str]: ...
    @property
    def kill_file(self) -> Path: ...
    @property
    def coordinator_log(self) -> Path: ...
    def host_directory(self, host: str) -> Path: ...
    def is_up(self, host: str) -> bool: ...
    def status(self) -> dict[str, Any] | None: ...
    def processors(self) -> Processors: ...
    def client(self) -> PlacementClient: ...
    def start_coordinator(self) -> Any: ...
    def kill_agent(self, host: str) -> None: ...
    def start_agent(self, host: str, *, memory_mb: int | None = None) -> None: ...
    def journal(self) -> list[dict[str, Any]]:
        """Each start of a container as an outsider saw it (`what`: `started`), and each `VIOLATION`."""
        ...


@dataclass(frozen=True)
class KillPoint:
    """The `number`th time, from 1, that a scenario comes to `point`; `what` happens there."""

    point: str
    number: int
    what: str = ""

    def __str__(self) -> str:
        return f"{self.point}:{self.number} ({self.what})"


@dataclass(frozen=True)
class Scenario:
    """What the coordinator is killed in.

    `happens` makes it happen and returns the UUID of its request, if it has one. `moved`
    says where each processor that may get another process is at the end, by where all
    were (None: anywhere legal, `GONE`: nowhere). Each of them starts once, all others keep their pid.
    `extra`: so many more processors than planned, before and after.
    """

    name: str
    happens: Callable[[Any, Processors], str | None]
    moved: Callable[[Any, Processors], Mapping[str, str | None]]
    prepare: Callable[[Any], None] = lambda _job: None
    restore: Callable[[Any, Processors], None] = lambda _job, _before: None
    extra: tuple[int, int] = (0, 0)
    options: Mapping[str, Any] = field(default_factory=dict)


def unanswered(client: PlacementClient, uuid: str) -> str:
    """That the request has no end yet; or "" .

    Whoever takes over is at rest until it has read the request: the state alone can't tell.
    """
    response = client.response(uuid)
    ended = response is not None and terminal(response)
    return "" if ended else f"the request {uuid} has no end: {response}"


def unsettled(job: KillableJob, extra: int = 0) -> str:
    """What isn't at rest yet, by the coordinator, the agents' records and the kernel; or "" ."""
    status = job.status()
    if status is None:
        return "no coordinator answers"
    processors: Processors = status["processors"]
    wanted = job.actives * (1 + job.standbys) + extra
    if len(processors) != wanted:
        return f"{sorted(processors)}: {wanted} are wanted"
    for name, found in processors.items():
        if found["state"] != "running" or not found["pid"] or not alive(found["pid"]):
            return f"{name} is {found['state']}, pid {found['pid']}"
    up = {host for host in job.host_names if job.is_up(host)}
    for what in ("actions", "failovers"):
        if status[what]:
            return f"{what}: {status[what]}"
    for ghost in status["ghosts"]:
        if ghost["ended"] is None or ghost["host"] in up:
            return f"ghost: {ghost}"
    known = {name for name, host in status["hosts"].items() if "free_memory_mb" in host}
    if known != up:
        return f"hosts that registered: {sorted(known)}"
    for host in up:
        here = {f["execution_id"] for f in processors.values() if f["host"] == host}
        directory = job.host_directory(host)
        books = directory / "reservations.json"
        held = json.loads(books.read_text())["held"] if books.exists() else []
        if {h["execution_id"] for h in held} != here or len(held) != len(here):
            return f"{host} holds {held} for {here}"
        of_incarnations = directory / "incarnations"  # from a host's first one on
        records = {p.name for p in of_incarnations.iterdir()} if of_incarnations.exists() else set()
        if records != here:
            return f"{host} has records of {records}, {here} run there"
    current = {found["execution_id"] for found in processors.values()}
    journal = job.journal()
    if violations := [line for line in journal if line["what"] == "VIOLATION"]:
        raise AssertionError(violations)
    started = {line["pid"]: line["execution"] for line in journal}
    for pid, execution_id in started.items():
        if execution_id not in current and alive(pid) and _is_container(pid, execution_id):
            return f"pid {pid} of {execution_id} lives for nobody"
    return ""


def _is_container(pid: int, execution_id: str) -> bool:
    """The pid is still that container's, by the environment that the kernel shows."""
    try:
        return execution_id.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@dataclass
class KilledJob:
    """A job whose coordinators are killed; one that waits takes over from each."""

    job: KillableJob
    spare: Any = None
    patience_s: float = 60.0
    arms: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    outsider: Callable[[], None] = lambda: None
    """Judges, after each run of a scenario, what containers have done; raises `AssertionError`."""

    def settle(
        self, extra: int = 0, *, seconds: float | None = None, asked: Callable[[], str] = lambda: ""
    ) -> Processors:
        """All at rest; fails with what isn't, and the end of the coordinators' log.

        `asked` tells what has to end before that, and is looked at first.
        """
        last = [""]

        def at_rest() -> bool:
            last[0] = asked() or unsettled(self.job, extra)
            return not last[0]

        try:
            until("at rest", at_rest, seconds=seconds or self.patience_s)
        except AssertionError as error:
            log = self.job.coordinator_log.read_text()[-2000:]
            raise AssertionError(f"{error}: {last[0]}\n{log}") from None
        return self.job.processors()

    def wait_beside(self) -> None:
        """A second coordinator, which leads when the first is dead."""
        leader = self.job.coordinator
        self.spare = self.job.start_coordinator()
        self.job.coordinator = leader

    def _arm(self, point: KillPoint | None, *, by_what: bool) -> str:
        assert self.job.coordinator is not None
        self.arms += 1
        arm = {
            "pid": self.job.coordinator.pid,
            "arm": str(self.arms),
            "point": point.point if point else "",
            "number": point.number if point and not by_what else 0,
            "what": same_in_each_run(point.what) if point and by_what else "",
        }
        beside = self.job.kill_file.with_suffix(".new")
        beside.write_text(json.dumps(arm))
        beside.replace(self.job.kill_file)
        return arm["arm"]

    def points_of(self, scenario: Scenario) -> list[KillPoint]:
        """Runs it undisturbed; every point that it came to, in order."""
        assert self.run(scenario, None) is False
        trace = self.job.kill_file.with_suffix(".trace").read_text().splitlines()
        found = [line for line in map(json.loads, trace) if line["arm"] == str(self.arms)]
        return [KillPoint(line["point"], line["number"], line["what"]) for line in found]

    def run(self, scenario: Scenario, point: KillPoint | None, *, by_what: bool = False) -> bool:
        """Once, with a kill at `point`; whether it was reached. Raises what isn't as it has to be.

        `by_what`: at the first of its kind where the same happens, whichever number it has.
        """
        job, coordinator = self.job, self.job.coordinator
        assert coordinator is not None
        self.settle(scenario.extra[0])
        scenario.prepare(job)
        before = self.settle(scenario.extra[0])
        journalled = len(job.journal())
        moved = scenario.moved(job, before)
        self._arm(point, by_what=by_what)
        uuid = scenario.happens(job, before)
        client = job.client()
        asked = partial(unanswered, client, uuid) if uuid else lambda: ""
        rest_since: list[float] = []

        def dead_or_over() -> bool:
            if coordinator.poll() is not None:
                return True
            if asked() or unsettled(job, scenario.extra[1]):
                rest_since.clear()
                return False
            rest_since.append(time.monotonic())
            return rest_since[-1] - rest_since[0] > 0.5

        until(
            f"death at {point}, or the end of {scenario.name}",
            dead_or_over,
            seconds=self.patience_s,
        )
        killed = coordinator.poll() is not None
        job.kill_file.unlink()
        others = {name: p["pid"] for name, p in before.items() if name not in moved}
        if killed:
            assert coordinator.returncode == -signal.SIGKILL, coordinator.returncode
            assert not [name for name, pid in others.items() if not alive(pid)]
            job.coordinator = self.spare or job.start_coordinator()
        after = self.settle(scenario.extra[1], asked=asked)
        client.close()
        if killed:  # not before: of two that find nobody leading, the later ends the other
            self.wait_beside()
        if uuid is not None:
            self.asked.append((uuid, str(point)))
        found = {name: after[name]["pid"] for name in others}
        assert found == others, f"pids {found}, they were {others}; {after}"
        for name, host in moved.items():
            if host == GONE:
                assert name not in after, after
                assert not alive(before[name]["pid"])
                continue
            assert name in after, name
            assert host in (None, after[name]["host"]), (name, host, after[name])
        for group in {name.split("-")[0] for name in after}:
            places = [p["host"] for name, p in after.items() if name.split("-")[0] == group]
            assert len(set(places)) == len(places), after
        new = job.journal()[journalled:]
        starts = Counter(line["processor"] for line in new if line["what"] == "started")
        assert starts == {name: 1 for name, host in moved.items() if host != GONE}, starts
        scenario.restore(job, before)
        self.outsider()
        return killed

    def judge(self) -> None:
        """What is on record at the end, read by a consumer that knows nothing of ours."""
        job = self.job
        responses: dict[str, list[dict[str, Any]]] = {}
        requests: dict[str, bytes | None] = {}
        stream = job.connection.coordinator_stream_topic
        for key, value in records_of(job.connection, stream):
            uuid, _, kind = json.loads(key)[2].partition(".")
            if kind == "ContainerPlacementResponseMessage" and value is not None:
                responses.setdefault(uuid, []).append(json.loads(value))
            elif kind == "ContainerPlacementRequestMessage":
                requests[uuid] = value
        for key, value in records_of(job.connection, job.connection.state_topic):
            kind, _, uuid = key.decode().partition("/")
            if kind == "response" and value is not None:
                responses.setdefault(uuid, []).append(json.loads(value))
            elif kind == "request":
                requests[uuid] = value
        for uuid, point in self.asked:
            said = [(r["statusCode"], r["responseMessage"]) for r in responses[uuid]]
            ends = [each for each in said if each[0] in ("SUCCEEDED", "FAILED", "BAD_REQUEST")]
            assert len(set(ends)) == 1, (point, said)
            assert said[-len(ends) :] == ends, (point, said)
            assert ends[0][0] == "SUCCEEDED", (point, said)
            assert requests[uuid] is None, point
        history = [
            audit_from_json(json.loads(value), f"record {n}")
            for n, (_, value) in enumerate(records_of(job.connection, job.connection.audit_topic))
            if value is not None
        ]
        verdict = verify(history, read_history(job.connection).head)
        assert verdict.ok, verdict.violation
        assert verdict.complete
        recorded = Counter(r.execution_id for r in history if r.kind == "start")
        assert set(recorded.values()) == {1}
        assert {line["execution"] for line in job.journal()} <= recorded.keys()
