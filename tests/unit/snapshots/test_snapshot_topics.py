"""The brokers' client of a snapshot ends with it; from where on topics are read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.lag import Bounds
from samza_dagster.metadata import Connection
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.snapshots import Tables, fleet, take_fleet
from samza_dagster.snapshots.reading import METRICS, Span

pytestmark = pytest.mark.unit
JOB = Connection("127.0.0.1:1", "yw")
STREAM = JOB.coordinator_stream_topic
NO_LEADER = Unreachable(f"read {STREAM}-0", seen="no leader", fix="start its broker")


@pytest.mark.parametrize(
    ("ranges", "error"),
    [({}, "no topic __samza_coordinator_yw_1"), ({(STREAM, 0): NO_LEADER}, "no leader")],
)
def test_a_snapshot_that_fails_leaves_no_client_to_its_destructor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ranges: Ranges, error: str
) -> None:
    """In which a run's termination is lost."""
    made: list[Any] = []

    class Topics(KafkaJobTopics):
        closed = 0

        def __init__(self, cluster: Any) -> None:
            super().__init__(cluster)
            made.append(self)

        def ranges_and_ids(
            self, topics: Any, *, committed_only: bool = False
        ) -> tuple[Ranges, dict[str, str]]:
            assert committed_only
            return ranges, dict.fromkeys(topics, "an id")

        def close(self) -> None:
            self.closed += 1
            super().close()

    monkeypatch.setattr(fleet, "KafkaJobTopics", Topics)
    no_spark: Any = None
    with pytest.raises((InvalidInput, Unreachable), match=error):
        take_fleet(no_spark, [JOB], datetime.now(UTC), Tables(str(tmp_path)))
    assert [each.closed for each in made] == [1]


def test_a_range_is_read_from_the_first_record_of_the_window_on(tmp_path: Path) -> None:
    """None of a partition that has none there; never from before what the partition holds."""
    first = {("t", 0, 5): 40, ("t", 1, 5): 3}
    topics: Any = SimpleNamespace(
        offsets_since=lambda asked: {at: first[at] for at in asked & first.keys()}
    )
    taking = fleet._Taking(
        *(cast("Any", None), [JOB], None, Tables(str(tmp_path)), topics, Bounds(), time.monotonic)
    )
    spans = [Span("t", partition, 10, 100, METRICS) for partition in range(3)]
    found = taking._within(spans, 5)
    assert [(one.partition, one.start, one.end) for one in found] == [(0, 40, 100), (1, 10, 100)]
