"""Consumers that many readings use one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from samza_dagster.metadata import shared_readers
from samza_dagster.metadata.shared_readers import shared_readers as shared


class Place(NamedTuple):
    """Where a reading begins."""

    topic: str


class Consumer:
    """One of librdkafka's, as far as a reader asks it; `answers` are what it hears in turn."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.answers: list[Any] = []
        self.did: list[str] = []

    def poll(self, _timeout: float) -> Any:
        return self.answers.pop(0) if self.answers else None

    def get_watermark_offsets(self, _place: Place) -> tuple[int, int]:
        if not self.answers:
            raise TimeoutError
        return self.answers.pop(0)

    def list_topics(self, topic: str, timeout: float) -> None:
        assert timeout > 0
        self.did.append(f"asked who leads {topic}")

    def assign(self, places: list[Place]) -> None:
        self.did.append(f"assigned {places[0].topic}")

    def unassign(self) -> None:
        self.did.append("unassigned")

    def close(self) -> None:
        self.did.append("closed")


@pytest.fixture
def made() -> list[Consumer]:
    """The consumers that were made."""
    return []


Reader = Callable[..., Any]


@pytest.fixture
def reader(made: list[Consumer]) -> Reader:
    """A reader of some brokers that has heard something, unless `heard` is False."""

    def take(
        servers: str = "here:1", note: Callable[[Any], None] = print, *, heard: bool = True
    ) -> Any:
        def make(settings: dict[str, Any]) -> Any:
            made.append(Consumer(settings))
            return made[-1]

        found = shared_readers.reader({"bootstrap.servers": servers, "error_cb": note}, make)
        if heard:
            getattr(found, "consumer", found).answers.append("a record")
            found.poll(1.0)
        return found

    return take


def test_one_that_is_closed_is_lent_to_the_next_reading(
    made: list[Consumer], reader: Reader
) -> None:
    """Two at once are two; all end with the last who shares."""
    with shared():
        with shared():
            first, second = reader(), reader()
            assert len(made) == 2
            first.close()
            assert reader() is first
            first.close()
            second.close()
        assert not any("closed" in one.did for one in made)
    assert [one.did[-1] for one in made] == ["closed", "closed"]


def test_nobody_shares_outside_nor_with_other_brokers(made: list[Consumer], reader: Reader) -> None:
    """A reader of before, or one that is given back too late, is ended as ever."""
    alone = reader()
    assert alone is made[0]
    with shared():
        here = reader()
        here.close()
        late = reader("there:1")
        assert len(made) == 3
    late.close()
    assert [one.did[-1:] for one in made] == [[], ["closed"], ["closed"]]


def test_one_that_brought_no_answer_is_ended(made: list[Consumer], reader: Reader) -> None:
    """It can have lost its brokers for good: nobody asks it a second time."""
    with shared():
        reader(heard=False).close()
        silent = reader()
        assert silent.poll(1.0) is None
        silent.close()
        failing = reader()
        with pytest.raises(TimeoutError):
            failing.get_watermark_offsets(Place("t"))
        failing.close()
        assert len(made) == 3
        assert [one.did for one in made] == [["closed"]] * 3


def test_one_that_is_lent_again_asks_who_leads_before_it_reads(
    made: list[Consumer], reader: Reader
) -> None:
    """librdkafka would find it out a second later."""
    with shared():
        lent = reader()
        lent.assign([Place("first")])
        lent.close()
        again = reader()
        again.assign([Place("second")])
        again.close()
    assert made[0].did[:4] == [
        *("assigned first", "unassigned"),
        *("asked who leads second", "assigned second"),
    ]


def test_an_error_is_told_to_whoever_has_it_now(made: list[Consumer], reader: Reader) -> None:
    """A deadline that passes says why, of its own reading."""
    told: list[str] = []
    with shared():
        reader(note=lambda error: told.append(f"first: {error}")).close()
        reader(note=lambda error: told.append(f"second: {error}"))
        made[0].settings["error_cb"]("away")
    assert told == ["second: away"]
