"""The brokers' client of a snapshot ends with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.snapshots import KafkaSettings, compute_snapshot, offsets, snapshot
from samza_dagster.snapshots.offsets import Offsets

pytestmark = pytest.mark.unit
JOB = KafkaSettings("127.0.0.1:1", "yw", "1")


class NoTopics(Offsets):
    """Of a cluster without any topic; counts its ends."""

    closed = 0

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self.closed += 1
        super().close()


def test_a_snapshot_that_fails_leaves_no_client_to_its_destructor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In which a run's termination is lost; one that was given is its giver's to end."""
    made: list[NoTopics] = []

    def make(connection: Any) -> NoTopics:
        made.append(NoTopics(connection))
        return made[-1]

    monkeypatch.setattr(snapshot, "Offsets", make)
    no_spark: Any = None
    with pytest.raises(InvalidInput, match="no topic __samza_coordinator_yw_1"):
        compute_snapshot(JOB, no_spark, 0)
    assert [each.closed for each in made] == [1]
    given = make(JOB)
    with pytest.raises(InvalidInput):
        compute_snapshot(JOB, no_spark, 0, offsets=given)
    assert given.closed == 0
    given.close()


def test_closing_ends_the_client_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other client of the package."""
    ended: list[Any] = []
    monkeypatch.setattr(offsets, "end_admin", ended.append)
    mine = NoTopics(JOB)
    mine.close()
    assert len(ended) == 1
