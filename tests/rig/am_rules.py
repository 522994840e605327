"""Samza's own AM as it was recorded: its words, its order, its times, its limits.

`RecordedAm` is the AM without a topic: it is shown what others write (`saw`) and says what it
writes up to a moment (`due`). `recorded_am` has it on a real topic, `am_in_memory` without one. It
shares no code with what it answers.
"""

from __future__ import annotations

import heapq
import json
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

JOB = "yw"
"""The job that was recorded, with id 1: its config names it."""
WIRE = Path(__file__).resolve().parents[1] / "data" / "wire"
NAMESPACE = "samza-place-container-v1"
REQUEST, RESPONSE = "ContainerPlacementRequestMessage", "ContainerPlacementResponseMessage"
LOCALITY, CONFIG = "set-container-host-assignment", "set-config"
AFFINITY = "job.host-affinity.enabled"
FIELDS = {"subType", "uuid", "deploymentId", "processorId", "destinationHost", "statusCode"}
MOST_FAILURES, WINDOW_S = 8, 300.0
POLL_S = 5.0
EXPIRY_S = 5.0
LOCALITY_S, BACK_S = 3.2, 12.5
"""From SUCCEEDED until the container has written its host, the median of 31 moves; and from a stop
by `FORCE_RESTART_LAST_SEEN`, after which the AM says nothing more."""
FALLS_BACK = (
    "allocated resource {} does not meet standby constraints now, falling back to source host"
)
"""As Samza's source words it: no recording of it is left."""

Steps = Generator[float, None, None]


class Record(NamedTuple):
    """`key` is the stream's (version, type, key); `value` None deletes."""

    key: tuple[int, str, str]
    value: str | None


@dataclass(frozen=True)
class Answer:
    """A status, `pause_s` after the one before (the first: after the request was taken)."""

    pause_s: float
    status: str
    text: str


def recorded() -> list[dict[str, Any]]:
    """The recorded topic, in order: `key`, `value` (text), `ts`."""
    return [json.loads(line) for line in (WIRE / "coordinator-stream.jsonl").open()]


def deployed(job: str) -> list[Record]:
    """What the topic held beside placements when the recording ended, for a job of that name."""
    last: dict[str, str | None] = {}
    for record in recorded():
        last[record["key"]] = record["value"]
    return [
        Record(
            (1, kind, key),
            value.replace(f'"{JOB}"', f'"{job}"') if key == "job.name" and value else value,
        )
        for (_, kind, key), value in ((json.loads(key), value) for key, value in last.items())
        if kind != NAMESPACE
    ]


@cache
def answers(scenario: str) -> tuple[Answer, ...]:
    """What the AM answered in a recorded scenario."""
    scenarios = [json.loads(line) for line in (WIRE / "scenarios.jsonl").open()]
    (found,) = [s for s in scenarios if s["scenario"] == scenario]
    before = next(e["t"] for e in found["events"] if e["kind"] == "req" and not e.get("status"))
    told: list[Answer] = []
    for event in found["events"]:
        if event.get("kind") == "resp" and event.get("status"):
            told.append(Answer(event["t"] - before, event["status"], event["msg"]))
            before = event["t"]
    return tuple(told)


@dataclass
class Cluster:
    """What is true in YARN, whatever the topic says. A test may change it at any time."""

    hosts: set[str] = field(default_factory=lambda: {"nm1", "nm2", "nm3", "nm4"})
    places: dict[str, str] = field(default_factory=dict[str, str])
    down: set[str] = field(default_factory=set[str])
    any_host: str = ""
    """The host that YARN gives for `ANY_HOST`; by default the first that isn't the container's own."""


class RecordedAm:
    """One job's AM. Seconds are those of whoever calls `due`, pauses a `faster`-th of the recorded.

    What it is told to do to a processor it does as recorded, one request of a group of active and
    standby after another, while two standbys go at once. A stop for a placement counts as a failure:
    after more than 8 of a processor, each within 300 s of the one before, the job has `failed`.
    """

    def __init__(
        self,
        now: float = 0.0,
        *,
        faster: float = 1.0,
        affinity: bool = True,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.cluster = Cluster()
        self.failed = ""
        self.stops: list[tuple[str, float]] = []
        """Each time that it stopped a container: processor and moment."""
        self._now, self._faster, self._affinity, self._clock_ms = now, faster, affinity, clock_ms
        self._written: list[Record] = []
        self._values: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._acting: set[str] = set()
        self._failures: dict[str, list[float]] = {}
        self._order = count()
        self._steps: list[tuple[float, int, Steps]] = []

    @property
    def run_id(self) -> str:
        """The running deployment's."""
        return json.loads(self._values[CONFIG, "app.run.id"])["values"]["value"]

    def deploy(self, job: str) -> None:
        """Writes what the recorded AM wrote, and begins to serve."""
        for (_, kind, key), value in deployed(job):
            self._write(kind, key, value)
        self.cluster.places = self._localities()
        if not self._affinity:
            setting = json.loads(self._values[CONFIG, AFFINITY])
            setting["values"]["value"] = "false"
            self._write(CONFIG, AFFINITY, compact(setting))
            for processor in self.cluster.places:
                self._write(LOCALITY, processor, None)  # no container of such a job writes one
        self._begin(self._poll())

    def replaced(self, run_id: str) -> None:
        """The AM dies with all containers: YARN starts a new one, which starts them where they were.

        Nothing is left of what was under way; a request that wasn't taken is dropped.
        """
        self._steps.clear()
        self._taken.clear()
        self._acting.clear()
        self._failures.clear()
        self.cluster.places = self.cluster.places or self._localities()
        self.cluster.down = set(self.cluster.places)
        self._begin(self._new_attempt(run_id))

    def saw(self, key: list[Any] | tuple[Any, ...], value: str | None) -> None:
        """A record in the topic, be it somebody else's or its own."""
        _, kind, name = key
        if value is None:
            self._values.pop((kind, name), None)
            return
        self._values[kind, name] = value

    def next_due(self) -> float:
        """When it writes next, if nobody else writes before."""
        return self._steps[0][0] if self._steps and not self.failed else float("inf")

    def due(self, now: float) -> list[Record]:
        """What it writes up to that moment, in order."""
        while self.next_due() <= now:
            self._now, _, steps = heapq.heappop(self._steps)
            pause = next(steps, None)
            if pause is not None:
                self._begin(steps, pause / self._faster)
        self._now = max(self._now, now)
        written, self._written = self._written, []
        return written

    def _begin(self, steps: Steps, after: float = 0.0) -> None:
        heapq.heappush(self._steps, (self._now + after, next(self._order), steps))

    def _poll(self) -> Steps:
        while True:
            asked = [(k, v) for (kind, k), v in self._values.items() if kind == NAMESPACE]
            # One record that can't be read ends the reading of all of them.
            if all(_is_readable(key, value) for key, value in asked):
                requests = [json.loads(value) for key, value in asked if key.endswith(REQUEST)]
                for request in sorted(requests, key=lambda each: each["timestamp"]):
                    if not self._take(request):
                        break
            yield POLL_S

    def _take(self, request: dict[str, Any]) -> bool:
        """False: the thread has thrown, and what was asked later isn't seen."""
        processor, destination = request["processorId"], request["destinationHost"]
        if request["deploymentId"] != self.run_id:
            for kind in (REQUEST, RESPONSE):
                self._write(NAMESPACE, f"{request['uuid']}.{kind}", None)
            return True
        if processor not in self.cluster.places and "-" not in processor:
            return False
        busy = self._acting & {processor, *self._others(processor)}
        if busy or processor not in self.cluster.places or processor in self.cluster.down:
            return True  # it waits, and nobody says so
        self._write(NAMESPACE, f"{request['uuid']}.{REQUEST}", None)
        if request["uuid"] in self._taken:
            self._answer(request, *answers("dup uuid second"))
            return True
        self._taken.add(request["uuid"])
        if destination == "FORCE_RESTART_LAST_SEEN":
            self._begin(self._force(request))
        elif self._affinity and not self._may_be_on(processor, destination):
            self._answer(request, *answers("active to host of its own standby"))
        else:
            self._acting.add(processor)
            self._begin(self._act(request))
        return True

    def _force(self, request: dict[str, Any]) -> Steps:
        processor = request["processorId"]
        (told,) = answers("FORCE_RESTART_LAST_SEEN active")
        yield told.pause_s
        self._answer(request, told)
        self._stop(processor)
        yield BACK_S
        self._started(processor, self.cluster.places[processor])

    def _act(self, request: dict[str, Any]) -> Steps:
        """A move or a restart: reserves, stops, starts."""
        processor, destination = request["processorId"], request["destinationHost"]
        reserved, stopping, succeeded = answers("move active to free host")
        source = self.cluster.places[processor]
        yield reserved.pause_s
        self._answer(request, reserved)
        target = self._target(processor, destination)
        if target not in self.cluster.hosts:
            _, expired = answers("unknown host")
            expiry_s = request.get("requestExpiry", EXPIRY_S * 1000) / 1000
            yield expired.pause_s + expiry_s - EXPIRY_S
            self._end(request, expired)
            return
        yield stopping.pause_s
        self._answer(request, stopping)
        self._stop(processor)
        yield succeeded.pause_s
        if target not in self.cluster.hosts:
            *_, failed = answers("destination NM dies between reserve and start")
            yield failed.pause_s - succeeded.pause_s
            text = failed.text.replace("nm4", target).replace("nm1", source)
            self._end(request, Answer(0, failed.status, text))
            target = source
        elif self._affinity and not self._may_be_on(processor, target):
            self._end(request, Answer(0, "FAILED", FALLS_BACK.format(target)))
            target = source
        else:
            text = f"{succeeded.text.rpartition(' ')[0]} {target}"
            self._end(request, Answer(0, succeeded.status, text))
        self.cluster.places[processor] = target
        yield LOCALITY_S
        self._started(processor, target)

    def _new_attempt(self, run_id: str) -> Steps:
        yield 7.0
        value = json.loads(self._values[CONFIG, "app.run.id"])
        value["values"]["value"] = run_id
        self._write(CONFIG, "app.run.id", compact(value))
        yield 2.8
        self._begin(self._poll())
        yield 4.7
        self.cluster.down.clear()
        yield 12.7
        for processor, host in self.cluster.places.items():
            self._started(processor, host)

    def _localities(self) -> dict[str, str]:
        """Where each container reported itself last."""
        found = ((k, v) for (kind, k), v in self._values.items() if kind == LOCALITY)
        return {key: json.loads(value)["values"]["host"] for key, value in found}

    def _others(self, processor: str) -> set[str]:
        """Active for a standby, standbys for an active: two standbys don't mind each other."""
        active, _, replica = processor.partition("-")
        return (
            {active} if replica else {p for p in self.cluster.places if p.startswith(f"{active}-")}
        )

    def _may_be_on(self, processor: str, host: str) -> bool:
        """No copy of its tasks is there. Words like `LAST_SEEN` are no host's name."""
        active = processor.partition("-")[0]
        return not any(
            place == host and other != processor and other.partition("-")[0] == active
            for other, place in self.cluster.places.items()
        )

    def _target(self, processor: str, destination: str) -> str:
        source = self.cluster.places[processor]
        if destination == "ANY_HOST" or not self._affinity:
            others = sorted(self.cluster.hosts - {source})
            return self.cluster.any_host or next(iter(others), source)
        return source if destination == "LAST_SEEN" else destination

    def _started(self, processor: str, host: str) -> None:
        self.cluster.down.discard(processor)
        if not self._affinity:
            return  # then containers write no host
        value = {
            "host": "127.0.0.13",
            "source": "SamzaContainer",
            "values": {"jmx-url": "", "host": host, "jmx-tunneling-url": ""},
            "username": "root",
            "timestamp": self._clock_ms(),
        }
        self._write(LOCALITY, processor, compact(value))

    def _end(self, request: dict[str, Any], answer: Answer) -> None:
        self._acting.discard(request["processorId"])
        self.cluster.down.discard(request["processorId"])
        self._answer(request, answer)

    def _answer(self, request: dict[str, Any], answer: Answer) -> None:
        told = {
            **{k: v for k, v in request.items() if k != "requestExpiry"},
            "subType": RESPONSE,
            "statusCode": answer.status,
            "responseMessage": answer.text,
            "timestamp": self._clock_ms(),
        }
        self._write(NAMESPACE, f"{request['uuid']}.{RESPONSE}", compact(told))

    def _stop(self, processor: str) -> None:
        self.cluster.down.add(processor)
        self.stops.append((processor, self._now))
        row = self._failures.setdefault(processor, [])
        if row and self._now - row[-1] > WINDOW_S:
            row.clear()
        row.append(self._now)
        if len(row) > MOST_FAILURES:
            self.failed = f"the job has failed: {processor} failed {len(row)} times in a row"

    def _write(self, kind: str, key: str, value: str | None) -> None:
        self.saw((1, kind, key), value)
        self._written.append(Record((1, kind, key), value))


def _is_readable(key: str, value: str) -> bool:
    try:
        found = json.loads(value)
        uuid.UUID(found["uuid"])
        return found.keys() >= FIELDS and isinstance(found["timestamp"], int) and (
            key.endswith(REQUEST) or "responseMessage" in found
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def compact(value: object) -> str:
    """As Samza writes JSON."""
    return json.dumps(value, separators=(",", ":"))
