"""How long a load waits for the broker, and when it gives up its producer."""

from __future__ import annotations

import io
from typing import Any

import pytest

from samza_dagster.errors import ActionFailed, DeadlineExceeded, Unreachable
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.load import Sender
from samza_dagster.sandbox.load_plan import LoadPlan, Part

pytestmark = pytest.mark.unit
ALL = 100


class Producer:
    """Takes so many records as it has `room` for, and acknowledges `each_time` in a flush.

    `from_flush`: from its so manieth on; `polls`: all of them in each poll as well.
    """

    def __init__(
        self, each_time: int = 0, *, from_flush: int = 1, polls: bool = False, room: int = 5
    ) -> None:
        self.keys: list[str] = []
        self._each_time = each_time
        self._from_flush = from_flush
        self._polls = polls
        self._room = room
        self._flushes = 0
        self._waiting: list[Any] = []

    def produce(self, *_: object, key: str, on_delivery: Any, **__: object) -> None:
        if len(self.keys) == self._room:
            raise BufferError
        self.keys.append(key)
        self._waiting.append(on_delivery)

    def poll(self, _: float) -> None:
        if self._polls:
            self._end(None, ALL)

    def flush(self, _: float) -> None:
        self._flushes += 1
        if self._flushes >= self._from_flush:
            self._end(None, self._each_time)

    def purge(self) -> None:
        self._end("purged", ALL)

    def close(self) -> None:
        return

    def _end(self, error: str | None, most: int) -> None:
        ended, self._waiting = self._waiting[:most], self._waiting[most:]
        for tell in ended:
            tell(error, None)


class Rig:
    """A sender of five records to the first of `producers`; `now_s` is its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *producers: Producer) -> None:
        self.now_s = 0.0
        self.broker_answers = True
        self.left = list(producers)

        def end_offsets(*_: object, **__: object) -> tuple[int, ...]:
            if not self.broker_answers:
                raise Unreachable("the broker")
            return (0,)

        monkeypatch.setattr(kafka_client, "producer", lambda *_: self.left.pop(0))
        monkeypatch.setattr(kafka_client, "consumer", lambda *_: io.BytesIO())
        monkeypatch.setattr(kafka_client, "end_offsets", end_offsets)
        plan = LoadPlan.for_state(0.5, actives=1)
        self.sender = Sender("nowhere", plan, clock=lambda: self.now_s)
        for number in range(5):
            self.sender.send(Part(number, 0, 0))


def test_a_fill_is_waited_for_while_its_records_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: none of it is a deadline for the whole. Else what is left is told."""
    slow = Rig(monkeypatch, Producer(2)).sender
    with pytest.raises(DeadlineExceeded, match="3 records"):
        slow.flush()
    slow.flush_all()
    assert slow.acknowledged == 5
    with pytest.raises(DeadlineExceeded, match="5 records"):
        Rig(monkeypatch, Producer()).sender.flush_all()


def test_a_lost_producer_is_replaced_and_what_waited_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In its order; that the lost one's were purged is no failure."""
    lost, new = Producer(), Producer(ALL, polls=True)
    rig = Rig(monkeypatch, lost, new)
    with pytest.raises(DeadlineExceeded, match="5 records"):
        rig.sender.flush()
    rig.now_s = 20.0
    rig.sender.flush()
    assert new.keys == lost.keys
    assert rig.sender.acknowledged == 5


def test_a_lost_producer_whose_queue_is_full_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the load would wait there for ever."""
    lost, new = Producer(), Producer(ALL, polls=True, room=6)
    rig = Rig(monkeypatch, lost, new)
    rig.now_s = 20.0
    rig.sender.send(Part(5, 0, 0))
    assert len(new.keys) == 6
    assert new.keys[:5] == lost.keys


def test_a_producer_is_kept_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long: a new one would find nothing either."""
    rig = Rig(monkeypatch, Producer())
    rig.broker_answers = False
    for rig.now_s in (20.0, 500.0, 90_000.0):
        with pytest.raises(DeadlineExceeded, match="5 records"):
            rig.sender.flush()


def test_a_producer_that_finds_the_broker_again_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looked for the broker may be the first that it answers."""
    rig = Rig(monkeypatch, Producer(ALL, from_flush=2))
    rig.now_s = 20.0
    rig.sender.flush()
    assert rig.sender.acknowledged == 5


def test_a_load_whose_broker_has_ended_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk it ends by itself; `sandbox up` waited for a day."""

    def ended() -> None:
        raise ActionFailed("keep the broker running", seen="No space left on device")

    monkeypatch.setattr(kafka_client, "producer", lambda *_: Producer(room=0))
    sender = Sender("nowhere", LoadPlan.for_state(0.5, actives=1), need_brokers=ended)
    with pytest.raises(ActionFailed, match="No space left on device"):
        sender.send(Part(0, 0, b""))
