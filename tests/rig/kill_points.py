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
from pathlib import Path
from typing import Any

from samza_dagster.client.audit_history import read_history
from samza_dagster.placement.audit_codec import audit_from_json
from samza_dagster.placement.verification import verify
from tests.rig.job import Job, alive, kill, until

CRASHING = "tests.rig.crashing_coordinator"
POINTS = ("before-commit", "after-commit", "after-effect", "before-acknowledgement")
GONE = "gone"
Processors = dict[str, dict[str, Any]]


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
    happens: Callable[[Job, Processors], str | None]
    moved: Callable[[Job, Processors], Mapping[str, str | None]]
    prepare: Callable[[Job], None] = lambda _job: None
    restore: Callable[[Job, Processors], None] = lambda _job, _before: None
    extra: tuple[int, int] = (0, 0)
    options: Mapping[str, Any] = field(default_factory=dict)


def unsettled(job: Job, extra: int = 0) -> str:
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
    up = {host for host in job.host_names if job.agents[host].poll() is None}
    for what in ("actions", "failovers"):
        if status[what]:
            return f"{what}: {status[what]}"
    for ghost in status["ghosts"]:
        if ghost["ended"] is None or ghost["host"] in up:
            return f"ghost: {ghost}"
    known = {name for name, host in status["hosts"].items() if "free_memory_mb" in host}
    if known != up:
        return f"hosts that registered: {sorted(known)}"
    current = {found["execution_id"] for found in processors.values()}
    started = {line["pid"]: line["execution"] for line in job.journal()}
    for pid, execution_id in started.items():
        if execution_id not in current and alive(pid) and _is_stub(pid, execution_id):
            return f"pid {pid} of {execution_id} lives for nobody"
    for host in up:
        here = {f["execution_id"] for f in processors.values() if f["host"] == host}
        directory = job.directory / host
        books = directory / "reservations.json"
        held = json.loads(books.read_text())["held"] if books.exists() else []
        if {h["execution_id"] for h in held} != here or len(held) != len(here):
            return f"{host} holds {held} for {here}"
        records = {path.name for path in (directory / "incarnations").iterdir()}
        if records != here:
            return f"{host} has records of {records}, {here} run there"
    return ""


def _is_stub(pid: int, execution_id: str) -> bool:
    """The pid is still that container's, by the environment that the kernel shows."""
    try:
        return execution_id.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@dataclass
class KilledJob:
    """A job whose coordinators are killed; one that waits takes over from each."""

    job: Job
    spare: Any = None
    arms: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)

    def settle(self, extra: int = 0, *, seconds: float = 60.0) -> Processors:
        """All at rest; fails with what isn't, and the end of the coordinators' log."""
        last = [""]

        def at_rest() -> bool:
            last[0] = unsettled(self.job, extra)
            return not last[0]

        try:
            until("at rest", at_rest, seconds=seconds)
        except AssertionError as error:
            log = (self.job.directory / "coordinator.log").read_text()[-2000:]
            raise AssertionError(f"{error}: {last[0]}\n{log}") from None
        return self.job.processors()

    def wait_beside(self) -> None:
        """A second coordinator, which leads when the first is dead."""
        leader = self.job.coordinator
        self.spare = self.job.start_coordinator()
        self.job.coordinator = leader

    def _arm(self, point: KillPoint | None) -> str:
        assert self.job.coordinator is not None
        self.arms += 1
        arm = {
            "pid": self.job.coordinator.pid,
            "arm": str(self.arms),
            "point": point.point if point else "",
            "number": point.number if point else 0,
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

    def run(self, scenario: Scenario, point: KillPoint | None) -> bool:
        """Once, with a kill at `point`; whether it was reached. Raises what isn't as it has to be."""
        job, coordinator = self.job, self.job.coordinator
        assert coordinator is not None
        self.settle()
        scenario.prepare(job)
        before = self.settle(scenario.extra[0])
        journalled = len(job.journal())
        moved = scenario.moved(job, before)
        self._arm(point)
        uuid = scenario.happens(job, before)
        rest_since: list[float] = []

        def dead_or_over() -> bool:
            if coordinator.poll() is not None:
                return True
            if unsettled(job, scenario.extra[1]):
                rest_since.clear()
                return False
            rest_since.append(time.monotonic())
            return rest_since[-1] - rest_since[0] > 0.5

        until(f"death at {point}, or the end of {scenario.name}", dead_or_over, seconds=60)
        killed = coordinator.poll() is not None
        job.kill_file.unlink()
        others = {name: p["pid"] for name, p in before.items() if name not in moved}
        if killed:
            assert coordinator.returncode == -signal.SIGKILL, coordinator.returncode
            assert not [name for name, pid in others.items() if not alive(pid)]
            job.coordinator = self.spare or job.start_coordinator()
        after = self.settle(scenario.extra[1])
        if killed:  # not before: of two that find nobody leading, the later ends the other
            self.wait_beside()
        if uuid is not None:
            self.asked.append((uuid, str(point)))
        assert {name: after[name]["pid"] for name in others} == others
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
        assert not [line for line in new if line["what"] == "VIOLATION"], new
        starts = Counter(line["processor"] for line in new if line["what"] == "started")
        assert starts == {name: 1 for name, host in moved.items() if host != GONE}, starts
        scenario.restore(job, before)
        return killed

    def judge(self) -> None:
        """What is on record at the end, read by a consumer that knows nothing of ours."""
        job = self.job
        responses: dict[str, list[dict[str, Any]]] = {}
        requests: dict[str, bytes | None] = {}
        stream = job.connection.coordinator_stream_topic
        for key, value in records_of(job.bootstrap_servers, stream):
            uuid, _, kind = json.loads(key)[2].partition(".")
            if kind == "ContainerPlacementResponseMessage" and value is not None:
                responses.setdefault(uuid, []).append(json.loads(value))
            elif kind == "ContainerPlacementRequestMessage":
                requests[uuid] = value
        for key, value in records_of(job.bootstrap_servers, job.connection.state_topic):
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
        topic = f"__samza_dagster_audit_{job.name}_1"
        history = [
            audit_from_json(json.loads(value), f"record {n}")
            for n, (_, value) in enumerate(records_of(job.bootstrap_servers, topic))
            if value is not None
        ]
        verdict = verify(history, read_history(job.connection).head)
        assert verdict.ok, verdict.violation
        assert verdict.complete
        recorded = Counter(r.execution_id for r in history if r.kind == "start")
        assert set(recorded.values()) == {1}
        assert {line["execution"] for line in job.journal()} <= recorded.keys()


def records_of(bootstrap_servers: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """All committed records of a topic of one partition, in order."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes, bytes | None]] = []
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append((message.key(), message.value()))
    finally:
        consumer.close()
    return found


# The scenarios


def free_host(job: Job, processors: Processors, group: str = "0") -> str:
    """A host without a member of the group."""
    taken = {p["host"] for name, p in processors.items() if name.split("-")[0] == group}
    return next(host for host in job.host_names if host not in taken)


def _ask(job: Job, how: str, *arguments: str, **more: Any) -> str:
    with job.client() as client:
        return getattr(client, how)(*arguments, **more).uuid


def _done(job: Job, uuid: str) -> None:
    with job.client() as client:
        assert client.wait(uuid, timeout_s=60).status_code == "SUCCEEDED"


def _kill_active(job: Job, before: Processors) -> None:
    kill(before["0"]["pid"])


def _swapped(_job: Job, before: Processors) -> dict[str, str | None]:
    return {"0": before["0-0"]["host"], "0-0": None}


def _fill_up(job: Job, before: Processors) -> None:
    """The active's host has no room but for what runs there, and then the active dies."""
    host = before["0"]["host"]
    _resize(job, host, 1)
    _kill_active(job, before)


def _resize(job: Job, host: str, memory_mb: int) -> None:
    job.kill_agent(host)
    job.start_agent(host, memory_mb=memory_mb)

    def known() -> bool:
        status = job.status()
        return status is not None and status["hosts"][host].get("memory_mb") == memory_mb

    until(f"{host} with {memory_mb} MiB", known)


def _refuse(job: Job, before: Processors) -> None:
    (job.state_dir(before["0"]["host"]) / "refuse-starts-0").touch()
    _kill_active(job, before)


def _set_apart(job: Job) -> None:
    """Nobody but the active is on its host: how much there is to do is the same each time."""
    for name in ("1", "1-0"):
        processors = job.processors()
        lost = processors["0"]["host"]
        if processors[name]["host"] == lost:
            taken = {lost, *(processors[member]["host"] for member in ("1", "1-0"))}
            host = next(host for host in job.host_names if host not in taken)
            _done(job, _ask(job, "place", name, host, request_expiry_s=60))


def _spin_up(job: Job) -> None:
    _done(job, _ask(job, "start_standby", "0", free_host(job, job.processors())))


SCENARIOS = (
    Scenario(
        "move",
        lambda job, before: _ask(job, "place", "0", free_host(job, before), request_expiry_s=60),
        lambda job, before: {"0": free_host(job, before)},
    ),
    Scenario(
        "swap",
        lambda job, _: _ask(job, "place", "0", "STANDBY", request_expiry_s=60),
        _swapped,
    ),
    Scenario(
        "spin-up",
        lambda job, before: _ask(job, "start_standby", "0", free_host(job, before)),
        lambda job, before: {"0-1": free_host(job, before)},
        restore=lambda job, _: _done(job, _ask(job, "stop_standby", "0-1")),
        extra=(0, 1),
    ),
    Scenario(
        "stop-standby",
        lambda job, _: _ask(job, "stop_standby", "0-1"),
        lambda _job, _before: {"0-1": GONE},
        prepare=_spin_up,
        extra=(1, 0),
    ),
    Scenario(
        "failover-refused",
        _refuse,
        _swapped,
        restore=lambda job, before: (
            job.state_dir(before["0"]["host"]) / "refuse-starts-0"
        ).unlink(),
    ),
    Scenario(
        "failover-full",
        _fill_up,
        _swapped,
        restore=lambda job, before: _resize(job, before["0"]["host"], job.memory_mb),
    ),
    Scenario(
        "host-lost",
        lambda job, before: job.kill_host(before["0"]["host"]),
        _swapped,
        prepare=_set_apart,
        restore=lambda job, before: job.start_agent(before["0"]["host"]),
        options={"lease_ms": 9_000, "host_timeout_ms": 4_000},
    ),
)
SETTINGS = {
    # Long enough for hosts to register with a new leader, short enough to be waited for.
    "cluster-manager.container.request.timeout.ms": "4000",
    "cluster-manager.container.retry.count": "-1",
}
