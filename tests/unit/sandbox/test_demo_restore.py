"""The demo counts what a moved active read against what was new to its host."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from samza_dagster.model import naming
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.demo_job import JOB_ID, JOB_NAME, STORE
from samza_dagster.sandbox.demo_restore import Restored, RestoreWatch
from samza_dagster.sandbox.hosts import SimulatedHost

pytestmark = pytest.mark.unit

EXECUTION = "samza-dagster-demo-1-0-000005"


@pytest.fixture
def host(tmp_path: Path) -> SimulatedHost:
    """Its standby had applied offsets 89 and 99; its new active read 12 and 5 records."""
    made = SimulatedHost("host-2", tmp_path)
    for partition, offset in ((0, 89), (2, 99)):
        store = made.state_directory / naming.store_directory(
            JOB_NAME, JOB_ID, STORE, f"Partition {partition}"
        )
        store.mkdir(parents=True)
        (store / "OFFSET-v2").write_text(f'{{"kafka.log.{partition}":"{offset}"}}')
    log = tmp_path / "incarnations" / EXECUTION / "container.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "12 total entries restored for store: s in directory: /d/Partition_0.\n"
        "5 total entries restored for store: s in directory: /d/Partition_2.\n"
    )
    return made


def test_counts_the_partitions_of_the_moved_active_alone(
    host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends of the others don't count; what came since the standby left does."""
    ends = (100, 7000, 105, 7000)
    monkeypatch.setattr(kafka_client, "consumer", lambda _servers: io.BytesIO())
    monkeypatch.setattr(kafka_client, "end_offsets", lambda _consumer, _topic: ends)
    watch = RestoreWatch("127.0.0.1:1", host, (0, 2))
    assert watch.result(EXECUTION) is None, "nothing was seen yet"
    watch.standby_left()
    assert watch.result(EXECUTION) is None, "the active hasn't arrived"
    watch.active_arrived()
    assert watch.result(EXECUTION) == Restored(restored=17, changelog=205, produced_in_gap=15)
