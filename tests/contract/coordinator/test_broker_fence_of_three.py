"""The fence at three real brokers: each that leads has it before it counts, whatever befalls one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import PrincipalView
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import ADMIN, MECHANISM
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import (
    elect_preferred,
    frozen,
    lagging,
    leader_of,
    leaders,
    names,
    others,
    wait_for_all_in_sync,
    wait_until_named,
)
from tests.rig.fence_broker import SECRET, config_of
from tests.rig.incarnation import Incarnation, end_of, keys_from
from tests.rig.waiting import until

pytestmark = pytest.mark.contract
PARTITIONS = (0, 1, 2)


@pytest.fixture
def brokers(shared_brokers: Brokers) -> Brokers:
    """Three, with an authorizer and a login for the coordinator."""
    return shared_brokers


OLD, NEW = "old-000001", "new-000002"


class Owners:
    """An old owner that writes to partitions led by each broker, and its successor, once it may start."""

    def __init__(self, brokers: Brokers, principals: Principals) -> None:
        self._brokers = brokers
        self._principals = principals
        login = {"sasl.username": ADMIN, "sasl.password": SECRET, "sasl.mechanism": MECHANISM}
        cluster = KafkaCluster(
            brokers.sasl_servers, {"security.protocol": "SASL_PLAINTEXT", **login}
        )
        self.servers = brokers.bootstrap_servers
        """Whose word the judge takes: one that is fenced and doesn't know it tells him that it leads."""
        self.told: list[str] = []
        self.fence = BrokerFence.at(principals, cluster, self.told.append)
        self.topic = f"{principals.job_name}-s"
        wait_for_all_in_sync(brokers, self.topic)
        self.each_broker_leads()
        self.fence.admit(OLD)
        self.old = Incarnation(principals, OLD, partitions=len(PARTITIONS))
        self.new: Incarnation | None = None
        self._more: list[Incarnation] = []
        self.old.writes()
        self.fence.start()

    def each_broker_leads(self) -> None:
        """A partition each, once all are in sync."""

        def led() -> bool:
            elect_preferred(self._brokers, self.topic)
            return set(leaders(self.servers, self.topic).values()) == {1, 2, 3}

        until("each leads a partition", led)

    def leader(self, partition: int) -> Broker:
        """Of a partition."""
        return leader_of(self._brokers, self.topic, partition)

    def is_not_fenced_while(self, broker: Broker, writing: Incarnation) -> None:
        """That broker still lets the old one write: the fence doesn't hold, and tells who is open."""
        writing.writes()
        assert self.fence.fence_now(OLD) == (broker.sasl_servers,)
        writing.writes()
        assert not self.told

    def waits_while_named(self, broker: Broker) -> None:
        """One that nobody can ask: on a machine so slow that a fence holds, its session is over by then."""
        holds = False
        with contextlib.suppress(Unreachable):
            holds = not self.fence.fence_now(OLD)
        if holds or self.told:
            assert not names(self.servers.split(",")[0], broker.node_id)

    def old_one_at(self, partition: int) -> Incarnation:
        """One more process of the old owner, that writes there alone."""
        self._more.append(Incarnation(self._principals, OLD, only=partition))
        self._more[-1].writes()
        return self._more[-1]

    def is_fenced(self) -> None:
        """Once it is said, the successor starts: from there on the partitions have its records alone."""
        until("the fence holds", lambda: self.told, seconds=60)
        self.ends = {each: end_of(self.servers, self.topic, each) for each in PARTITIONS}
        self.fence.admit(NEW)
        self.new = Incarnation(self._principals, NEW, partitions=len(PARTITIONS))
        self.new.writes()
        self.old.tries()
        self.new.writes()
        self.the_new_one_is_alone()

    def still_alone(self) -> None:
        """When all three lead again, too."""
        assert self.new is not None
        self.new.writes()
        self.old.tries()
        self.the_new_one_is_alone()

    def asked_of(self, broker: Broker) -> tuple[str, ...]:
        """Who still serves the old one, asked by who knows that broker alone."""
        principals = self._principals
        view = PrincipalView(
            broker.sasl_servers,
            principals.user(OLD),
            principals.password(OLD),
            principals.security(),
        )
        return view.brokers_still_serving()

    def the_new_one_is_alone(self) -> None:
        """By an outside reader."""
        found = {e: keys_from(self.servers, self.topic, self.ends[e], e) for e in PARTITIONS}
        assert found == {each: {NEW} for each in PARTITIONS}

    def close(self) -> None:
        """Both end."""
        for each in (self.old, self.new, *self._more):
            if each is not None:
                each.close()
        self.fence.close()


@pytest.fixture
def owners(brokers: Brokers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owners]:
    """Of a job of this test alone."""
    name = f"three-{abs(hash(request.node.name)) % 10**8}"
    principals = Principals.of(config_of(brokers, name, tmp_path, store_partitions=len(PARTITIONS)))
    assert principals is not None
    found = Owners(brokers, principals)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.longcontract
def test_a_fence_that_is_said_to_hold_holds_at_the_leader_of_each_partition(owners: Owners) -> None:
    """It was writing to all three when it was shut out, by sessions that stay open."""
    owners.fence.fence(OLD)
    owners.is_fenced()


@pytest.mark.longcontract
def test_while_a_leader_lags_in_metadata_the_successor_waits(
    brokers: Brokers, owners: Owners
) -> None:
    """The controller counts it as alive and the two others have the rule: it lets the old one write."""
    broker = owners.leader(1)
    writing = owners.old_one_at(1)
    with lagging(broker):
        owners.fence.fence(OLD)
        owners.is_not_fenced_while(broker, writing)
    owners.is_fenced()


@pytest.mark.longcontract
def test_while_a_frozen_leader_may_thaw_as_such_the_successor_waits(
    brokers: Brokers, owners: Owners
) -> None:
    """It is let in once the controller has fenced that broker; thawed, it takes nothing of the old one."""
    broker = owners.leader(2)
    with frozen(broker):
        owners.fence.fence(OLD)
        owners.servers = others(brokers, broker)
        owners.waits_while_named(broker)
        wait_until_named(owners.servers, broker.node_id, named=False)
        owners.is_fenced()
    owners.servers = brokers.bootstrap_servers
    wait_for_all_in_sync(brokers, owners.topic)
    owners.each_broker_leads()
    owners.still_alone()


@pytest.mark.longcontract
def test_a_killed_broker_is_missed_no_longer_than_its_session_and_has_the_rule_when_it_is_back(
    brokers: Brokers, owners: Owners
) -> None:
    """The others prove the fence when its partitions are led by them; it leads again with the rule."""
    broker = owners.leader(0)
    broker.close(grace_s=0.0)
    try:
        owners.fence.fence(OLD)
        owners.is_fenced()
    finally:
        broker.start()
    wait_for_all_in_sync(brokers, owners.topic)
    owners.each_broker_leads()
    owners.still_alone()


@pytest.mark.longcontract
def test_a_broker_that_is_fenced_and_does_not_know_it_holds_nothing_up_and_commits_nothing(
    brokers: Brokers, owners: Owners
) -> None:
    """To itself it leads and has no rule: what it takes of the old one is never acknowledged, and
    is gone when it is back in step. Asked first, it doesn't speak for the cluster either.
    """
    broker = owners.leader(1)
    number = broker.node_id
    with lagging(broker, and_fenced=True):
        wait_until_named(others(brokers, broker), number, named=False)
        owners.servers = others(brokers, broker)
        owners.fence.fence(OLD)
        owners.is_fenced()
        assert owners.asked_of(broker) == ()
    owners.servers = brokers.bootstrap_servers
    wait_for_all_in_sync(brokers, owners.topic)
    owners.each_broker_leads()
    owners.still_alone()


@pytest.mark.longcontract
def test_a_container_is_let_in_once_every_broker_knows_its_login(
    brokers: Brokers, owners: Owners, caplog: pytest.LogCaptureFixture
) -> None:
    """Or after a second, with a word of the one that doesn't: its first connection would fail there."""
    broker = owners.leader(1)
    with lagging(broker):
        owners.fence.admit("late-000003")
    assert f"late-000003 may not be let in yet at {broker.sasl_servers}" in caplog.text
    caplog.clear()
    owners.fence.admit("next-000004")
    assert "may not be let in" not in caplog.text
