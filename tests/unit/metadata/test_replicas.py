"""What topics lack of the replicas that are wanted, by what brokers tell of them; without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.metadata.replicas import (
    ENOUGH,
    IN_SYNC,
    WAITED_FOR,
    KeptTopic,
    KeptTopics,
    Partition,
    Shortcoming,
    durable,
    no_write_because,
    reassignment,
    replicas_on,
    shortcomings,
)

pytestmark = pytest.mark.unit
THREE = (1, 2, 3)


def topic(
    replicas: Mapping[int, Sequence[int]],
    in_sync: Mapping[int, Sequence[int]] | None = None,
    least: int | None = 2,
) -> KeptTopic:
    """All replicas are in sync unless it is said otherwise."""
    in_sync = {**replicas, **(in_sync or {})}
    config = None if least is None else {"min.insync.replicas": str(least)}
    return KeptTopic(
        "t", {n: Partition(tuple(r), tuple(in_sync[n])) for n, r in replicas.items()}, config
    )


def lacks(of: KeptTopic, brokers: Sequence[int] = THREE, wanted: int = 3) -> list[Shortcoming]:
    return list(shortcomings(of, brokers, wanted, "h:1"))


@given(st.integers(0, 9), st.integers(1, 9))
def test_a_topic_has_no_more_replicas_than_there_are_brokers(brokers: int, wanted: int) -> None:
    """One at least; a write waits for two where any one of three may be lost."""
    factor = replicas_on(brokers, wanted)
    assert factor == max(1, min(brokers, wanted))
    assert durable(factor) == ({"min.insync.replicas": "2"} if factor > 2 else {})


def test_a_topic_that_is_kept_as_it_is_wanted_lacks_nothing() -> None:
    assert lacks(topic({0: [1, 2, 3]})) == []
    assert lacks(topic({0: [1]}, least=1), brokers=[1]) == []
    assert lacks(topic({0: [1, 2]}, least=1), wanted=2) == []


def test_too_few_replicas_are_told_with_the_command_that_adds_some() -> None:
    (found,) = lacks(topic({0: [1, 2, 3], 1: [3]}, least=1))
    assert found.condition == ENOUGH
    assert found.seen.startswith("topic t has 1 replicas where 3 are wanted")
    assert found.fix.startswith("echo '{")
    assert "--bootstrap-server h:1 --reassignment-json-file replicas.json --execute" in found.fix


def test_of_a_replica_that_is_not_in_sync_the_broker_is_named_and_whether_it_is_there() -> None:
    (behind,) = lacks(topic({0: [1, 2, 3], 1: [1, 2, 3]}, {1: [1, 2]}))
    assert behind.condition == IN_SYNC
    assert "1 of 2 partitions lack replicas in sync, on broker 3" in behind.seen
    assert "wait until broker 3" in behind.fix
    (away,) = lacks(topic({0: [1, 2, 3]}, {0: [1, 2]}), brokers=[1, 2])
    assert (away.condition, away.fix) == (IN_SYNC, "start broker 3")


def test_a_broker_that_is_lost_for_good_is_replaced_where_there_is_another() -> None:
    (found,) = lacks(topic({0: [3, 1, 2]}, {0: [1, 2]}), brokers=[1, 2, 4])
    plan = json.loads(found.fix[found.fix.index("{") : found.fix.rindex("}") + 1])
    assert found.fix.startswith("start broker 3, or where it is lost for good: ")
    assert plan["partitions"][0]["replicas"] == [1, 2, 4]


def test_a_partition_whose_records_only_a_lost_broker_has_is_given_to_no_other() -> None:
    """What is there is behind: a new replica of it would have lost what was acknowledged."""
    (found,) = lacks(topic({0: [1, 2, 3]}, {0: [3]}), brokers=[1, 2, 4])
    assert found.fix == "start broker 3"


def test_three_replicas_of_which_a_write_waits_for_one_are_told_once_that_stops_nobody() -> None:
    """While two aren't in sync, to wait for them would end all writing."""
    (found,) = lacks(topic({0: [1, 2, 3]}, least=1))
    assert found.condition == WAITED_FOR
    assert found.fix == (
        "kafka-configs.sh --bootstrap-server h:1 --alter --entity-type topics --entity-name t "
        "--add-config min.insync.replicas=2"
    )
    for unready in (topic({0: [1]}, least=1), topic({0: [1, 2, 3]}, {0: [1]}, least=1)):
        assert WAITED_FOR not in {each.condition for each in lacks(unready)}
    assert lacks(topic({0: [1, 2, 3]}, least=None)) == []


def test_a_reassignment_keeps_leaders_and_every_replica_that_is_there() -> None:
    told = json.loads(reassignment("t", {1: [3], 0: [2, 1, 4]}, [1, 2, 3], 2))
    assert told["version"] == 1
    assert [(p["partition"], p["replicas"]) for p in told["partitions"]] == [
        (0, [2, 1, 4]),
        (1, [3, 2]),
    ]


def test_the_replicas_that_are_added_are_spread_over_all_brokers() -> None:
    told = json.loads(reassignment("t", {n: [9] for n in range(4)}, [1, 2, 3, 4, 9], 2))
    assert [p["replicas"] for p in told["partitions"]] == [[9, 1], [9, 2], [9, 3], [9, 4]]


def test_why_no_write_is_taken_names_the_topic_how_many_are_in_sync_and_what_is_needed() -> None:
    kept = KeptTopics((1,), {"t": topic({0: [1, 2, 3]}, {0: [1]})})
    assert (
        no_write_because(kept)
        == "t-0: 1 replicas in sync where a write waits for 2, without broker 2, 3"
    )
    assert no_write_because(KeptTopics((1, 2), {"t": topic({0: [1, 2, 3]}, {0: [1, 2]})})) == ""


def test_a_replica_on_a_broker_that_is_away_acknowledges_nothing() -> None:
    """Who leads it may be the last that was in sync, and be gone."""
    kept = KeptTopics((1, 2), {"t": topic({0: [1, 2, 3]}, {0: [3]}, least=None)})
    assert "t-0: 0 replicas in sync where a write waits for 1" in no_write_because(kept)


def test_a_topic_may_have_fewer_replicas_than_a_write_waits_for() -> None:
    """Brokers that say 2 for all topics, and give one replica where nobody asks for more."""
    told = no_write_because(KeptTopics((1,), {"t": topic({0: [1]})}))
    assert told == "t-0: 1 replicas in sync where a write waits for 2, and it has no more of them"


def test_of_many_partitions_that_take_no_write_the_worst_is_told_and_how_many_more() -> None:
    """Kafka's own topic of transactions has fifty."""
    of = topic({n: [1, 2, 3] for n in range(50)}, {n: [1] for n in range(50)} | {7: []})
    assert no_write_because(KeptTopics((1,), {"t": of})).startswith(
        "t-7 and 49 partitions more: 0 "
    )
