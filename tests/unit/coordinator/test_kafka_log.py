"""The leader's log over a writer that fails: what returns is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from samza_dagster.coordinator.kafka import KafkaLog
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.state_writer import Records

pytestmark = pytest.mark.unit


@dataclass
class Writer:
    """Answers call after call as the test says: whether it commits, and what is pending then."""

    answers: list[str]
    committed: list[Records] = field(default_factory=list)
    held: Records | None = None

    @property
    def has_pending(self) -> bool:
        return self.held is not None

    def commit(self, records: Records) -> None:
        self.finish_pending()
        self.held = records
        self.finish_pending()

    def finish_pending(self) -> None:
        if self.held is None:
            return
        answer = self.answers.pop(0)
        if answer == "lost":
            self.held = None
        if answer != "ok":
            raise Unreachable("commit state", seen=answer)
        self.committed.append(self.held)
        self.held = None


def log_over(writer: Writer, stopped: Callable[[], bool] = lambda: False) -> KafkaLog:
    return KafkaLog(
        Connection("h:1", "j"),
        writer,  # pyright: ignore[reportArgumentType]
        now_ms=lambda: 0,
        stopped=stopped,
    )


def test_a_commit_is_tried_until_the_broker_is_back() -> None:
    """Once, however often the deadline passed."""
    writer = Writer(["away", "away", "ok"])
    log_over(writer).commit([("job", {})], ())
    assert len(writer.committed) == 1


@pytest.mark.parametrize("answers", [["lost"], ["away", "lost"]], ids=["at once", "at a later try"])
def test_a_commit_that_nothing_is_pending_of_is_no_commit(answers: list[str]) -> None:
    """The writer gave up its client: nobody may act as if the step were durable."""
    writer = Writer(answers)
    with pytest.raises(Unreachable):
        log_over(writer).commit([("job", {})], ())
    assert writer.committed == []


def test_an_older_pending_commit_doesnt_stand_for_the_new_one() -> None:
    """It is finished first; then the new one is committed too."""
    writer = Writer(["away", "away", "ok", "ok"], held=(("state", b"older", b""),))
    log_over(writer).commit([("job", {})], ())
    assert [records[0][1] for records in writer.committed] == [b"older", b"job"]


def test_a_stop_ends_the_waiting() -> None:
    """By the error: what is pending is the next leader's to learn."""
    writer = Writer(["away"])
    with pytest.raises(Unreachable):
        log_over(writer, stopped=lambda: True).commit([("job", {})], ())
    assert writer.has_pending
