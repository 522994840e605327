"""What a commit leaves behind that never got as far as its transaction; without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from samza_dagster.errors import InvalidInput, SamzaDagsterError, Unreachable
from samza_dagster.metadata import state_writer
from samza_dagster.metadata.replicas import TRANSACTIONS, KeptTopic, KeptTopics, Partition
from samza_dagster.metadata.state_writer import StateWriter

pytestmark = pytest.mark.unit

BATCH = (("stream", b"k", b"v"),)


class Ends:
    """In place of `TopicEnd`: every question fails with `error`, if there is one."""

    error: SamzaDagsterError | None = None

    def __init__(self, *_: object) -> None: ...

    def offset(self, deadline_s: float) -> int:
        if self.error is not None:
            raise self.error
        return 0

    def close(self) -> None: ...


class Producer:
    """Notes what was committed."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.commits = 0

    def begin_transaction(self) -> None: ...

    def produce(self, *what: Any, **named: Any) -> None:
        self.sent.append((*what, named["key"], named["value"]))

    def commit_transaction(self, timeout: float) -> None:
        self.commits += 1


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> type[Ends]:
    class Own(Ends):
        pass

    monkeypatch.setattr(state_writer, "kept_topics", lambda *_: KeptTopics((1, 2, 3), {}))
    monkeypatch.setattr(state_writer, "TopicEnd", Own)
    return Own


@pytest.fixture
def producer() -> Producer:
    return Producer()


@pytest.fixture
def writer(ends: type[Ends], producer: Producer) -> StateWriter:
    leading = StateWriter("h:1", "state", "t")
    leading._producer = producer  # pyright: ignore[reportAttributeAccessIssue]
    return leading


def test_a_commit_is_pending_when_its_topics_couldnt_be_asked_for(
    writer: StateWriter, ends: type[Ends], producer: Producer
) -> None:
    """It goes on from there and is committed once."""
    ends.error = Unreachable("read the end of topic stream", seen="no answer")
    with pytest.raises(Unreachable):
        writer.commit(BATCH)
    assert writer.has_pending
    with pytest.raises(Unreachable):
        writer.finish_pending()
    assert writer.has_pending
    ends.error = None
    writer.finish_pending()
    assert not writer.has_pending
    assert (producer.sent, producer.commits) == ([("stream", b"k", b"v")], 1)


def test_a_commit_to_a_topic_that_isnt_there_leaves_nothing_pending(
    writer: StateWriter, ends: type[Ends], producer: Producer
) -> None:
    """The next one isn't held up by it."""
    ends.error = InvalidInput("read the end of topic stream", seen="no topic")
    with pytest.raises(InvalidInput):
        writer.commit(BATCH)
    assert not writer.has_pending
    assert (producer.sent, producer.commits) == ([], 0)


def test_while_too_few_replicas_are_in_sync_the_commit_says_so_and_its_client_is_kept(
    writer: StateWriter, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers answer others, but take no write of them either: a new client would do no better."""

    def times_out(timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))

    writer._timeout_s = 0.01
    one_of_three = Partition((1, 2, 3), (1,))
    kept = KeptTopics(
        (1,), {"state": KeptTopic("state", {0: one_of_three}, {"min.insync.replicas": "2"})}
    )
    with monkeypatch.context() as patch:
        patch.setattr(state_writer, "kept_topics", lambda *_: kept)
        patch.setattr(producer, "commit_transaction", times_out)
        with pytest.raises(Unreachable, match="state-0: 1 replicas in sync"):
            writer.commit(BATCH)
    assert writer.has_pending
    assert writer.is_leading
    writer.finish_pending()
    assert (producer.sent, producer.commits) == ([("stream", b"k", b"v")], 1)


def test_who_can_not_take_over_while_too_few_replicas_are_in_sync_says_so(
    writer: StateWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own topic of transactions takes no write then, so nobody begins to lead."""

    def fence(*_: object) -> None:
        raise Unreachable("lead by the transactional id t", seen="timed out")

    monkeypatch.setattr(writer, "_fence", fence)
    kept = KeptTopics(
        (1,),
        {
            TRANSACTIONS: KeptTopic(
                TRANSACTIONS, {7: Partition((1, 2, 3), (1,))}, {"min.insync.replicas": "2"}
            )
        },
    )
    monkeypatch.setattr(state_writer, "kept_topics", lambda *_: kept)
    with pytest.raises(Unreachable, match=f"{TRANSACTIONS}-7: 1 replicas in sync"):
        writer.take_over()
    assert not writer.is_leading
