"""How long a fill waits for the broker: for as long as it goes on to acknowledge."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.errors import DeadlineExceeded
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.load import Sender
from samza_dagster.sandbox.load_plan import LoadPlan, Part

pytestmark = pytest.mark.unit


class SlowBroker:
    """Acknowledges so many of what was sent in each flush."""

    def __init__(self, each_time: int) -> None:
        self._each_time = each_time
        self._waiting: list[Any] = []

    def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
        self._waiting.append(on_delivery)

    def poll(self, _: float) -> None:
        return

    def flush(self, _: float) -> int:
        for _ in range(min(self._each_time, len(self._waiting))):
            self._waiting.pop()(None, None)
        return len(self._waiting)


def sender(each_time: int, monkeypatch: pytest.MonkeyPatch) -> Sender:
    monkeypatch.setattr(kafka_client, "producer", lambda *_: SlowBroker(each_time))
    made = Sender("nowhere", LoadPlan.for_state(0.5, actives=1))
    for number in range(5):
        made.send(Part(number, 0, 0))
    return made


def test_a_fill_is_waited_for_while_its_records_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: none of it is a deadline for the whole."""
    slow = sender(2, monkeypatch)
    with pytest.raises(DeadlineExceeded, match="3 records"):
        slow.flush()
    slow.flush_all()
    assert slow.acknowledged == 5


def test_a_broker_that_acknowledges_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told with what is left."""
    with pytest.raises(DeadlineExceeded, match="5 records"):
        sender(0, monkeypatch).flush_all()
