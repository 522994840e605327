"""The demo counts what a moved active read against what was new to its host."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from samza_dagster.model import naming
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.demo.restore import Restored, RestoreWatch
from samza_dagster.sandbox.demo_job import JOB_ID, JOB_NAME, STORE

pytestmark = pytest.mark.unit

LOG = (
    "12 total entries restored for store: s in directory: /d/Partition_0.\n"
    "5 total entries restored for store: s in directory: /d/Partition_2.\n"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Of a host whose standby had applied offsets 89 and 99."""
    for partition, offset in ((0, 89), (2, 99)):
        store = tmp_path / naming.store_directory(JOB_NAME, JOB_ID, STORE, f"Partition {partition}")
        store.mkdir(parents=True)
        (store / "OFFSET-v2").write_text(f'{{"kafka.log.{partition}":"{offset}"}}')
    return tmp_path


def test_counts_the_partitions_of_the_moved_active_alone(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends of the others don't count; what came since the standby left does."""
    ends = (100, 7000, 105, 7000)
    monkeypatch.setattr(kafka_client, "consumer", lambda _servers: io.BytesIO())
    monkeypatch.setattr(kafka_client, "end_offsets", lambda _consumer, _topic: ends)
    watch = RestoreWatch("127.0.0.1:1", state, (0, 2))
    assert watch.result(LOG) is None, "nothing was seen yet"
    watch.note_standby_left()
    assert watch.result(LOG) is None, "the active hasn't arrived"
    watch.note_active_arrived()
    assert watch.result(LOG) == Restored(restored=17, changelog=205, produced_in_gap=15)
