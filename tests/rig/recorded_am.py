"""Samza's own AM as it was recorded (`am_rules`), as a process on a real topic, faster than it was.

`python -m tests.rig.recorded_am SERVERS JOB JOURNAL`; `running` starts it. With `--replaced RUN_ID`
it is the next attempt of an AM that died, on the same topic.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rig.am_rules import (
    JOB,
    MOST_FAILURES,
    NAMESPACE,
    REQUEST,
    WINDOW_S,
    WIRE,
    RecordedAm,
    compact,
)
from tests.rig.waiting import until

__all__ = ("JOB", "MOST_FAILURES", "NAMESPACE", "REQUEST", "WINDOW_S", "WIRE", "Running", "running")
FASTER = 20.0
"""The recorded restarts took 12 s each."""


@dataclass(frozen=True)
class Running:
    """The AM as a process of its own."""

    process: subprocess.Popen[str]
    journal: Path

    def stops(self) -> list[dict[str, Any]]:
        """Each time that it stopped a container, as it noted that itself."""
        return [json.loads(line) for line in self.journal.read_text().splitlines()]


@contextmanager
def running(servers: str, home: Path, *options: str, job: str = JOB) -> Iterator[Running]:
    """The AM of a job whose coordinator stream is there, to the end of the context.

    Fails in the end if it has failed the job.
    """
    journal = home / f"journal-{len(list(home.iterdir()))}"
    command = [sys.executable, "-m", "tests.rig.recorded_am", servers, job, str(journal), *options]
    am = Running(subprocess.Popen(command, stderr=subprocess.PIPE, text=True), journal)
    try:
        until("the AM answers", lambda: journal.exists() or am.process.poll())
        yield am
        assert am.process.poll() is None, "it never failed the job"
    finally:
        am.process.kill()
        _, told = am.process.communicate()
        assert not told, told


def serve(servers: str, job: str, journal: Path, am: RecordedAm, replaced: str) -> None:
    """Answers until it is killed, or the job has failed."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = f"__samza_coordinator_{job}_1"
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "am"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.assign([TopicPartition(topic, 0, 0)])
    at = 0
    while at < end:
        at = _show(am, consumer.poll(5.0)) or at
    if replaced:
        am.replaced(replaced)
    else:
        am.deploy(job)
    while not am.failed:
        message = consumer.poll(0.02)
        while message is not None:
            _show(am, message)
            message = consumer.poll(0)
        told = len(am.stops)
        for key, value in am.due(time.monotonic()):
            payload = None if value is None else value.encode()
            producer.produce(topic, key=compact(key).encode(), value=payload)
        if producer.flush(20):
            sys.exit("the broker takes nothing")
        with journal.open("a") as opened:
            for processor, moment in am.stops[told:]:
                at_s = time.time() - time.monotonic() + moment
                opened.write(json.dumps({"processor": processor, "at": at_s}) + "\n")
    sys.exit(am.failed)


def _show(am: RecordedAm, message: Any) -> int:
    """Where the topic goes on after that message, 0 for none."""
    if message is None or message.error() is not None:
        return 0
    value = message.value()
    am.saw(json.loads(message.key()), None if value is None else value.decode())
    return message.offset() + 1


def main() -> None:
    """Sees the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("job")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--faster", type=float, default=FASTER)
    parser.add_argument("--replaced", default="", metavar="RUN_ID")
    parser.add_argument("--no-affinity", action="store_true")
    asked = parser.parse_args()
    am = RecordedAm(time.monotonic(), faster=asked.faster, affinity=not asked.no_affinity)
    serve(asked.servers, asked.job, asked.journal, am, asked.replaced)


if __name__ == "__main__":
    main()
