"""Chaos on three brokers: which faults come, one at a time, and whose files tell who wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.sandbox.broker_settings import broker_settings
from tests.chaos.broker_log import batches_of_leader, overlaps
from tests.chaos.schedule import (
    BROKER_SESSION_S,
    KINDS,
    OF_SEVERAL_BROKERS,
    OUTLAST_A_SESSION,
    WORST,
    schedule,
)
from tests.rig.broker_cluster import lacks, transaction_partition
from tests.unit.chaos.test_chaos_judges import batch

pytestmark = pytest.mark.unit

ALL = (*OF_SEVERAL_BROKERS, *KINDS)
OLD, NEW = 7, 8


@given(st.integers(0, 10_000))
def test_what_only_three_brokers_can_suffer_comes_first_by_turns_with_the_worst(seed: int) -> None:
    """So twenty faults have each of them, beside others; none comes again before all came."""
    first = [fault.kind for fault in schedule(seed, len(ALL), ALL)]
    assert sorted(first) == sorted(ALL)
    turns = 2 * len(OF_SEVERAL_BROKERS)
    assert turns <= 20
    assert set(first[:turns:2]) == set(OF_SEVERAL_BROKERS)
    assert set(first[1:turns:2]) <= set(WORST) <= set(first[: turns + len(WORST)])


@given(st.integers(0, 10_000))
def test_a_broker_that_is_lost_or_expires_is_away_for_longer_than_its_session(seed: int) -> None:
    """Each time, though the controller goes with it; the session is the sandbox's own."""
    session_ms = broker_settings(1, 2, Path())["broker.session.timeout.ms"]
    assert float(session_ms) == BROKER_SESSION_S * 1000
    for fault in schedule(seed, 2 * len(ALL), ALL):
        if fault.kind in OUTLAST_A_SESSION:
            assert BROKER_SESSION_S + 4.0 < fault.hold_s < 20.0


def answer(*, brokers: tuple[int, ...] = (1, 2, 3), leader: int = 2, isrs: tuple[int, ...]) -> Any:
    """A broker's, of one partition."""
    partition = SimpleNamespace(leader=leader, isrs=list(isrs))
    topics = {"t": SimpleNamespace(partitions={0: partition})}
    return SimpleNamespace(brokers=dict.fromkeys(brokers), topics=topics)


def test_the_brokers_are_whole_when_every_partition_is_in_sync_on_each() -> None:
    """Until then none may go: not with a follower behind, not with one replica less, not leaderless."""
    everybody = {1, 2, 3}
    assert lacks(answer(isrs=(3, 1, 2)), everybody) == ""
    assert lacks(answer(brokers=(1, 3), isrs=(1, 2, 3)), everybody) == "names [1, 3]"
    behind = "has t 0 in sync on [1, 2], led by 2"
    assert lacks(answer(isrs=(1, 2)), everybody) == behind
    leaderless = "has t 0 in sync on [1, 2, 3], led by -1"
    assert lacks(answer(leader=-1, isrs=(1, 2, 3)), everybody) == leaderless


def data_of(directory: Path, logs: Mapping[int, bytes]) -> dict[int, Path]:
    """Each broker's replica of one partition, by node id."""
    for node_id, log in logs.items():
        partition = directory / str(node_id) / "t-0"
        partition.mkdir(parents=True)
        (partition / "00000000000000000000.log").write_bytes(log)
    return {node_id: directory / str(node_id) for node_id in logs}


def test_what_a_replica_has_beyond_its_leader_was_never_written(tmp_path: Path) -> None:
    """The first broker led and took a batch of the old owner that no other got: it goes, as that
    replica comes in step, and was acknowledged to nobody. No second owner wrote; where the one that
    leads has it, it is judged, though the others lack it. Without a leader (-1) nothing is.
    """
    agreed = batch(0, 2, OLD) + batch(2, 1, NEW)
    data = data_of(tmp_path, {1: agreed + batch(3, 4, OLD), 2: agreed, 3: agreed})
    found = batches_of_leader(data, {0: 2}, "t", 0)
    assert [each.producer_id for each in found] == [OLD, NEW]
    assert overlaps("t", 0, found) == []
    assert len(overlaps("t", 0, batches_of_leader(data, {0: 1}, "t", 0))) == 1
    with pytest.raises(LookupError):
        batches_of_leader(data, {0: -1}, "t", 0)


@pytest.mark.parametrize(
    ("transactional_id", "partition"),
    [
        ("hello", 99_162_322 % 50),
        ("polygenelubricants", 0),
        ("chaos transactions", 212_815_371 % 50),
    ],
)
def test_the_coordinator_of_transactions_is_found_as_kafka_finds_it(
    transactional_id: str, partition: int
) -> None:
    """By Java's hash, whose least has no absolute value."""
    assert transaction_partition(transactional_id, 50) == partition
