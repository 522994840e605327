"""Who still serves a principal, by what each broker tells it from its own copy of the metadata log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import PrincipalView

pytestmark = pytest.mark.unit

Told = tuple[str, bool]
"""Which brokers one names, by their letters, and whether it shows the principal a topic."""


@dataclass
class Client:
    """librdkafka's, which asks whomever it likes: the brokers of `told` in turns, from `first` on.

    One that isn't in it doesn't answer, and so is never asked.
    """

    told: Mapping[str, Told]
    first: str

    def __post_init__(self) -> None:
        start = list(self.told).index(self.first)
        order = [*self.told][start:] + [*self.told][:start]
        self._letters = cycle(order)

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        """Metadata as confluent_kafka has it: of all topics those that it shows, of one its error."""
        letter = next(self._letters)
        names, serves = self.told[letter]
        if topic is not None:
            code = (
                KafkaError.UNKNOWN_TOPIC_OR_PART
                if serves
                else KafkaError.TOPIC_AUTHORIZATION_FAILED
            )
            topics = {topic: SimpleNamespace(error=KafkaError(code))}
        return SimpleNamespace(
            brokers={n: SimpleNamespace(host=each, port=9092) for n, each in enumerate(names)},
            topics=topics if topic is not None else {"t": None} if serves else {},
            orig_broker_name=f"sasl_plaintext://{letter}:9092/1",
        )

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class View(PrincipalView):
    """`told`: each broker's answer, none of one that doesn't answer; `first`: who is found first."""

    told: Mapping[str, Told] = field(default_factory=dict[str, Told])
    first: str = "a"

    def _client(self, cluster: KafkaCluster) -> Any:
        return Client(self.told, self.first)


def serving(told: Mapping[str, Told], **how: Any) -> str:
    """The letters of who still serves it."""
    view = View("bootstrap", "user", "password", deadline_s=0.05, told=told, **how)
    return "".join(each.partition(":")[0] for each in view.brokers_still_serving())


def test_it_is_shut_out_when_every_broker_refuses_it() -> None:
    assert serving({"a": ("abc", False), "b": ("abc", False), "c": ("abc", False)}) == ""


def test_a_broker_that_has_not_heard_of_the_rule_is_named() -> None:
    assert serving({"a": ("abc", False), "b": ("abc", False), "c": ("abc", True)}) == "c"


def test_a_broker_that_the_first_one_has_not_heard_of_is_asked() -> None:
    """The first one's list is older than its answer may be: it lagged when it gave it."""
    assert serving({"a": ("ab", False), "b": ("abc", False), "c": ("abc", True)}) == "c"


def test_one_that_follows_a_broker_which_others_know_to_be_fenced_keeps_that_one_on_the_list() -> (
    None
):
    """`c` is cut off and has no rule; `b`, not yet told of that, copies what `c` lets in."""
    told = {"a": ("ab", False), "b": ("abc", False), "c": ("abc", True)}
    assert serving(told) == "c"
    assert serving({**told, "b": ("ab", False)}) == ""


def test_a_broker_that_does_not_answer_proves_nothing_while_any_names_it() -> None:
    with pytest.raises(Unreachable, match="no answer of c:9092"):
        serving({"a": ("ab", False), "b": ("abc", False)})
    assert serving({"a": ("ab", False), "b": ("ab", False)}) == ""


@pytest.mark.parametrize("first", "abc")
def test_what_a_broker_says_that_is_cut_off_from_its_controller_holds_nothing_up(
    first: str,
) -> None:
    """It still names itself, and shows topics. The others' list is without it."""
    told = {"a": ("ab", False), "b": ("ab", False), "c": ("abc", True)}
    assert serving(told, first=first) == ""


def test_nobody_is_shut_out_by_a_broker_that_shows_topics_alone() -> None:
    assert serving({"a": ("a", True)}) == "a"


def view_of(told: Mapping[str, Told]) -> View:
    return View("bootstrap", "user", "password", deadline_s=0.05, told=told)


def test_a_login_is_known_when_every_broker_that_is_named_lets_it_in() -> None:
    """It needs no topic that it may see: its rights may be of topics that aren't there yet."""
    told = {"a": ("ab", False), "b": ("abc", True)}
    assert view_of(told).brokers_without_login() == ("c:9092",)
    assert view_of({**told, "c": ("abc", False)}).brokers_without_login() == ()


def test_one_broker_of_three_that_is_open_for_everybody_is_found() -> None:
    """It is a setting of each: one that is asked at random hides it two times in three."""
    closed = dict.fromkeys("abc", ("abc", False))
    assert view_of(closed).brokers_reporting("t") == ()
    for each in "abc":
        assert view_of({**closed, each: ("abc", True)}).brokers_reporting("t") == (f"{each}:9092",)


def test_a_broker_that_is_silent_may_be_open() -> None:
    with pytest.raises(Unreachable, match="no answer of c:9092"):
        view_of({"a": ("abc", False), "b": ("abc", False)}).brokers_reporting("t")
