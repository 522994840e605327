"""Samza's own AM as it was recorded, as a process on a real topic: its words, its order, its limit.

`python -m tests.rig.recorded_am SERVERS JOURNAL`. It first writes what the recorded AM wrote
when it deployed, then answers each request with the recorded answers to a restart (`LAST_SEEN`)
and the locality that the container then wrote, one request after another, as Samza does. A stop for
a placement counts as a failure: after more than 8 of a processor, each within 300 s of the one
before, it fails the job and ends. It shares no code with what it answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rig.waiting import until

JOB = "yw"
"""The job that was recorded, with id 1: its config names it."""
WIRE = Path(__file__).resolve().parents[1] / "data" / "wire"
NAMESPACE = "samza-place-container-v1"
REQUEST, RESPONSE = "ContainerPlacementRequestMessage", "ContainerPlacementResponseMessage"
LOCALITY = "set-container-host-assignment"
MOST_FAILURES, WINDOW_S = 8, 300.0
FASTER = 20.0
"""The recorded restarts took 12 s each."""


def recorded() -> list[dict[str, Any]]:
    """The recorded topic, in order: `key`, `value` (text), `ts`."""
    return [json.loads(line) for line in (WIRE / "coordinator-stream.jsonl").open()]


def deployed() -> list[tuple[str, str | None]]:
    """What the topic held beside placements when the recording ended."""
    last: dict[str, str | None] = {}
    for record in recorded():
        if json.loads(record["key"])[1] != NAMESPACE:
            last[record["key"]] = record["value"]
    return list(last.items())


def restart() -> list[tuple[float, dict[str, Any]]]:
    """The answers to a restart: seconds since the one before, and the response."""
    scenarios = [json.loads(line) for line in (WIRE / "scenarios.jsonl").open()]
    (found,) = [s for s in scenarios if s["scenario"] == "restart active via LAST_SEEN"]
    key = json.dumps([1, NAMESPACE, f"{found['uuid']}.{RESPONSE}"], separators=(",", ":"))
    answers = [(r["ts"], json.loads(r["value"])) for r in recorded() if r["key"] == key]
    times = [found["sent"], *(at for at, _ in answers)]
    return [((at - times[n]) / 1000, value) for n, (at, value) in enumerate(answers)]


class RecordedAm:
    """One job's AM. `journal` gets a line for each stop: processor and seconds since the epoch."""

    def __init__(self, servers: str, journal: Path) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._topic = f"__samza_coordinator_{JOB}_1"
        self._journal = journal
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self._answers = restart()
        self._hosts: dict[str, str] = {}
        self._failures: dict[str, list[float]] = {}
        for key, value in deployed():
            self._write(json.loads(key), value)
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "am"})
        _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=20)
        self._consumer.assign([TopicPartition(self._topic, 0, end)])

    def serve(self) -> None:
        """Answers until it is killed, or the job has failed."""
        self._journal.write_text("")
        while True:
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None or message.value() is None:
                continue
            _, namespace, key = json.loads(message.key() or b"")
            if namespace == NAMESPACE and key.endswith(REQUEST):
                self._act(key, json.loads(message.value() or b""))

    def _act(self, key: str, request: dict[str, Any]) -> None:
        self._write([1, NAMESPACE, key], None)
        processor = request["processorId"]
        for pause, answer in self._answers:
            time.sleep(pause / FASTER)
            text = answer["responseMessage"]
            if text.startswith("Active container stop"):
                self._stop(processor)
            if answer["statusCode"] == "SUCCEEDED":
                text = f"{text.rpartition(' ')[0]} {self._hosts[processor]}"
            told = {
                **answer,
                "uuid": request["uuid"],
                "processorId": processor,
                "deploymentId": request["deploymentId"],
                "destinationHost": request["destinationHost"],
                "responseMessage": text,
                "timestamp": time.time_ns() // 1_000_000,
            }
            name = f"{request['uuid']}.{RESPONSE}"
            self._write([1, NAMESPACE, name], json.dumps(told, separators=(",", ":")))
        locality = {"jmx-url": "", "host": self._hosts[processor], "jmx-tunneling-url": ""}
        value = {
            "host": "127.0.0.13",
            "source": "SamzaContainer",
            "values": locality,
            "username": "root",
            "timestamp": time.time_ns() // 1_000_000,
        }
        self._write([1, LOCALITY, processor], json.dumps(value, separators=(",", ":")))

    def _stop(self, processor: str) -> None:
        now = time.time()
        row = self._failures.setdefault(processor, [])
        if row and now - row[-1] > WINDOW_S:
            row.clear()
        row.append(now)
        with self._journal.open("a") as opened:
            opened.write(json.dumps({"processor": processor, "at": now}) + "\n")
        if len(row) > MOST_FAILURES:
            sys.exit(f"the job has failed: {processor} failed {len(row)} times in a row")

    def _write(self, key: list[Any], value: str | None) -> None:
        if key[1] == LOCALITY and value is not None:
            self._hosts[key[2]] = json.loads(value)["values"]["host"]
        name = json.dumps(key, separators=(",", ":"))
        self._producer.produce(
            self._topic, key=name.encode(), value=None if value is None else value.encode()
        )
        if self._producer.flush(20):
            sys.exit("the broker takes nothing")


@dataclass(frozen=True)
class Running:
    """The AM as a process of its own."""

    process: subprocess.Popen[str]
    journal: Path

    def stops(self) -> list[dict[str, Any]]:
        """Each time that it stopped a container, as it noted that itself."""
        return [json.loads(line) for line in self.journal.read_text().splitlines()]


@contextmanager
def running(servers: str, home: Path) -> Iterator[Running]:
    """The AM of `JOB`, whose coordinator stream is there, to the end of the context.

    Fails in the end if it has failed the job.
    """
    journal = home / "journal"
    command = [sys.executable, "-m", "tests.rig.recorded_am", servers, str(journal)]
    am = Running(subprocess.Popen(command, stderr=subprocess.PIPE, text=True), journal)
    try:
        until("the AM answers", journal.exists)
        yield am
        assert am.process.poll() is None, "it never failed the job"
    finally:
        am.process.kill()
        _, told = am.process.communicate()
        assert not told, told


if __name__ == "__main__":
    RecordedAm(sys.argv[1], Path(sys.argv[2])).serve()
