"""The load on the demo job: fills its state, then sends a steady stream until SIGTERM.

`python -m samza_dagster.sandbox.load --bootstrap-servers … --keys … --position-file F` continues
at the position in `F`, so that a stopped load can be started again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import click

from samza_dagster.agent.files import write_json
from samza_dagster.errors import ActionFailed, DeadlineExceeded, InvalidInput, Unreachable
from samza_dagster.sandbox import kafka_client, process
from samza_dagster.sandbox.demo_job import INPUT_TOPIC
from samza_dagster.sandbox.load_plan import RATE, SPREAD_S, LoadPlan, Part
from samza_dagster.sandbox.process import ProcessRecord

ROLE = "load"
_TICK_S = 0.02
_SILENT_S = 20.0
_BACK_S = 5.0
"""A producer finds a returned broker within this time: it tries twice a second."""


class Sender:
    """Sends parts to the input topic, in order, each exactly once to the log.

    librdkafka can lose its brokers for good (see `KeptClient`). A producer that hears nothing for
    `silent_s` from a broker that answers others is replaced. Its unacknowledged parts are sent
    again, which the Joiner takes for the same parts. `settings` are additional settings of
    librdkafka. `need_brokers` raises when no broker will take a record any more; it is called
    while the queue is full.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        plan: LoadPlan,
        *,
        clock: Callable[[], float] = time.monotonic,
        silent_s: float = _SILENT_S,
        settings: Mapping[str, Any] | None = None,
        need_brokers: Callable[[], None] = lambda: None,
    ) -> None:
        self._servers = bootstrap_servers
        self._plan = plan
        self._clock = clock
        self._silent_s = silent_s
        self._settings = settings or {}
        self._need_brokers = need_brokers
        self._failure: str | None = None
        self._sent = 0
        self._waiting: dict[int, Part] = {}
        self._heard = clock()
        self.acknowledged = 0
        self._producer = self._make()

    def send(self, part: Part) -> None:
        """Queue one record; wait while the queue is full. Raise `ActionFailed`."""
        if not self._waiting:
            self._heard = self._clock()
        while True:
            if self._failure is not None:
                raise ActionFailed("send the load", seen=self._failure)
            try:
                self._produce(self._sent, part)
            except BufferError:
                self._need_brokers()
                self._producer.poll(0.1)
                if self._is_lost():
                    self._renew()
            else:
                self._waiting[self._sent] = part
                self._sent += 1
                self._producer.poll(0)
                return

    def flush(self, deadline_s: float = 60.0) -> None:
        """Wait until the broker has all; raise `DeadlineExceeded` or `ActionFailed`."""
        # A new producer after a replacement has the whole deadline again.
        self._producer.flush(deadline_s)
        if self._waiting and self._failure is None and self._is_lost():
            self._renew()
            self._producer.flush(deadline_s)
        if self._failure is not None:
            raise ActionFailed("send the load", seen=self._failure)
        if left := len(self._waiting):
            raise DeadlineExceeded("send the load", seen=f"{left} records not acknowledged")

    def flush_all(self) -> None:
        """Flush repeatedly, as long as the broker acknowledges some records within a deadline."""
        while True:
            before = self.acknowledged
            try:
                return self.flush()
            except DeadlineExceeded:
                if self.acknowledged == before:
                    raise

    def close(self) -> None:
        """End the client without a wait for acknowledgements."""
        self._producer.purge()
        self._producer.close()

    def _make(self) -> Any:
        return kafka_client.producer(
            self._servers,
            {
                "linger.ms": 20,
                "batch.size": 512 * 1024,
                "queue.buffering.max.messages": 100_000,
                "queue.buffering.max.kbytes": 64 * 1024,
                # A broker that is away must not lose a record: wait for it.
                "message.timeout.ms": 24 * 3600 * 1000,
                **self._settings,
            },
        )

    def _produce(self, number: int, part: Part) -> None:
        self._producer.produce(
            INPUT_TOPIC,
            key=self._plan.key_text(part.key),
            value=part.value,
            partition=self._plan.partition_of(part.key),
            on_delivery=functools.partial(self._delivered, number),
        )

    def _delivered(self, number: int, error: object, _: object) -> None:
        if error is not None:
            self._failure = str(error)
        else:
            self._heard = self._clock()
            self._waiting.pop(number, None)
            self.acknowledged += 1

    def _is_lost(self) -> bool:
        """Return whether the producer, not the broker, is lost, after `silent_s` of silence."""
        if self._clock() - self._heard < self._silent_s:
            return False
        self._heard = self._clock()
        if not self._is_broker_answering():
            return False
        before = self.acknowledged
        self._producer.flush(_BACK_S)
        return self.acknowledged == before and self._failure is None

    def _is_broker_answering(self) -> bool:
        with contextlib.closing(kafka_client.consumer(self._servers)) as other:
            try:
                return bool(kafka_client.end_offsets(other, INPUT_TOPIC, timeout_s=5.0))
            except Unreachable:
                return False

    def _renew(self) -> None:
        self.close()
        self._failure = None  # the purge of its records isn't a failure
        self._producer = self._make()
        for number, part in self._waiting.items():
            self._produce(number, part)
        self._heard = self._clock()


def fill(
    bootstrap_servers: str,
    plan: LoadPlan,
    progress: Callable[[int, int], None] | None = None,
    need_brokers: Callable[[], None] = lambda: None,
) -> int:
    """Send epoch 0 of every key and return the number of records when all are acknowledged.

    `need_brokers` has the meaning of `Sender`'s.
    """
    total = plan.keys * plan.parts
    made = Sender(bootstrap_servers, plan, need_brokers=need_brokers)
    with contextlib.closing(made) as sender:
        for sent, part in enumerate(plan.fill(), start=1):
            sender.send(part)
            if progress is not None and sent % 20_000 == 0:
                progress(sent, total)
        sender.flush_all()
    if progress is not None:
        progress(total, total)
    return total


def start(
    bootstrap_servers: str,
    plan: LoadPlan,
    directory: Path,
    *,
    on_spawn: Callable[[ProcessRecord], None] | None = None,
) -> ProcessRecord:
    """Start the steady stream as a process, with its log and its position in `directory`."""
    command = [
        sys.executable, "-m", __name__, "--bootstrap-servers", bootstrap_servers,
        "--keys", str(plan.keys), "--partitions", str(plan.partitions), "--rate", str(plan.rate),
        "--seed", str(plan.seed), "--spread", str(plan.spread_s),
        "--position-file", str(directory / "load.json"),
    ]  # fmt: skip
    return process.spawn(ROLE, command, log=directory / "load.log", on_spawn=on_spawn)


def position(path: Path) -> int:
    """Return the visits that the steady stream has begun, with all due parts acknowledged.

    Returns 0 without a file; raises `InvalidInput` for an invalid position.
    """
    try:
        return int(json.loads(path.read_text())["visits"])
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"the load's position in {path}", seen=str(error)) from error


def steady(
    sender: Sender,
    plan: LoadPlan,
    position_file: Path,
    stop: threading.Event,
) -> int:
    """Send `plan.rate` records a second until `stop`; return the visits begun in all.

    The position is written each second and, after a flush, at the end. A killed load's later
    records are sent twice, which the Joiner takes for the same parts.
    """
    first = position(position_file)
    visits = first
    interval = plan.parts / plan.rate
    started = noted = time.monotonic()
    for parts in plan.steady(first):
        due = started + (visits - first) * interval
        while (ahead := due - time.monotonic()) > 0:
            if stop.wait(min(ahead, _TICK_S) if ahead < _TICK_S else ahead):
                break
        if stop.is_set():
            break
        for part in parts:
            sender.send(part)
        visits += 1
        if time.monotonic() - noted >= 1.0:
            noted = time.monotonic()
            with contextlib.suppress(DeadlineExceeded):  # the broker is away, so note it later
                sender.flush(1.0)
                write_json(position_file, {"version": 1, "visits": visits})
    sender.flush()
    write_json(position_file, {"version": 1, "visits": visits})
    return visits


@click.command()
@click.option("--bootstrap-servers", required=True)
@click.option("--keys", type=int, required=True, help="keys in all")
@click.option("--partitions", type=int, required=True, help="partitions of the input topic")
@click.option("--rate", type=float, default=RATE, show_default=True, help="records a second")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--spread", "spread_s", type=float, default=SPREAD_S, show_default=True, help="seconds"
)
@click.option("--position-file", type=click.Path(path_type=Path), required=True)
def main(
    *,
    bootstrap_servers: str,
    keys: int,
    partitions: int,
    rate: float,
    seed: int,
    spread_s: float,
    position_file: Path,
) -> None:
    """Send the steady stream until SIGTERM, then flush."""
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    plan = LoadPlan(keys, partitions, rate, seed, spread_s)
    visits = steady(Sender(bootstrap_servers, plan), plan, position_file, stop)
    click.echo(f"stopped after {visits} visits")


if __name__ == "__main__":
    main()
