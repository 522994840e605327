"""Real brokers and containers, and the kernel as witness of what runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.load_plan import LoadPlan


def processes_of(directory: Path) -> list[str]:
    """Command lines of all processes that name `directory`, from the kernel."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if str(directory) in command:
            found.append(command[:200])
    return found


def put_out(servers: str, plan: LoadPlan, keys: range, epoch: int = 0) -> None:
    """As a job that has completed these keys."""
    with closing(kafka_client.producer(servers)) as producer:
        for key in keys:
            producer.produce(
                demo_job.OUTPUT_TOPIC,
                key=plan.key_text(key),
                value=str(epoch),
                partition=plan.partition_of(key),
            )
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as started:
        yield started
