"""The fence at a real broker: who is shut out, who isn't, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence, present
from samza_dagster.coordinator.fencing.examination import Condition, examine, rights
from samza_dagster.coordinator.fencing.group_fence import GroupFence
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.authorizer import ALLOW, DENY, Authorizer
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.broker import Broker
from tests.rig.fence_broker import (
    RIGHTS_OF,
    config_of,
    settings_of,
)
from tests.rig.incarnation import Incarnation, end_of, keys_from
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.fixture
def incarnation(principals: Principals) -> Iterator[Callable[[str], Incarnation]]:
    """Makes running producers."""
    made: list[Incarnation] = []

    def make(execution_id: str) -> Incarnation:
        made.append(Incarnation(principals, execution_id))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_standalone_group_shuts_out_who_isnt_registered_any_more(
    broker: Broker,
    principals: Principals,
    cluster: KafkaCluster,
    incarnation: Callable[[str], Incarnation],
    tmp_path: Path,
) -> None:
    """It was writing by a session that stays open. Who registers meanwhile isn't hurt; no login is left in the end."""
    lost, leader, late = (GroupFence(principals, cluster, tmp_path / n) for n in ("a", "b", "c"))
    for fence in (lost, leader, late):
        fence.directory.mkdir()
    lost.admit("1-0")
    old = incarnation("1-0")
    old.writes()
    leader.admit("1-1")
    new = incarnation("1-1")
    new.writes()

    def registered() -> set[str]:
        late.admit("1-2")
        return {"1-1"}

    def is_done() -> bool:
        with suppress(Unreachable):
            leader.shut_out_others(7, registered)
            return True
        return False

    until("others are shut out", is_done)
    end = end_of(broker.bootstrap_servers, old.topic)
    old.tries()
    new.writes(100)
    assert keys_from(broker.bootstrap_servers, old.topic, end) == {"1-1"}
    incarnation("1-2").writes()

    back = GroupFence(principals, cluster, lost.directory)
    back.remove_own()
    back.admit("1-3")
    incarnation("1-3").writes()
    for fence in (back, leader, late):
        fence.remove_own()
        fence.close()
    assert present(principals, Authorizer(cluster)) == frozenset()


def test_nothing_that_a_fenced_incarnation_writes_gets_through_and_its_successor_does(
    broker: Broker,
    principals: Principals,
    cluster: KafkaCluster,
    incarnation: Callable[[str], Incarnation],
) -> None:
    """It was writing when it was shut out, by a session that stays open. From the
    acknowledgement on the log has its successor's records alone.
    """
    told: list[str] = []
    fence = BrokerFence.at(principals, cluster, told.append)
    fence.start()
    try:
        fence.admit("old-000001")
        old = incarnation("old-000001")
        old.writes()
        fence.admit("new-000002")
        new = incarnation("new-000002")
        new.writes()
        fence.fence("old-000001")
        until("the fence is acknowledged", lambda: told)
        end = end_of(broker.bootstrap_servers, old.topic)
        old.tries()
        new.writes(100)
        assert keys_from(broker.bootstrap_servers, old.topic, end) == {"new-000002"}
        fence.fence("old-000001")
        until("once more does no harm", lambda: len(told) == 2)
        new.writes()
        assert told == ["old-000001"] * 2
    finally:
        fence.close()


def test_a_start_that_is_said_again_after_a_take_over_hurts_nobody(
    principals: Principals, cluster: KafkaCluster, incarnation: Callable[[str], Incarnation]
) -> None:
    """The next leader sets the same password: open sessions go on, and new ones are let in."""
    BrokerFence.at(principals, cluster, lambda _: None).admit("x-000001")
    first = incarnation("x-000001")
    first.writes()
    BrokerFence.at(principals, cluster, lambda _: None).admit("x-000001")
    first.writes(50)
    incarnation("x-000001").writes()
    assert first.refused == 0


def test_what_was_seen_dead_leaves_no_login_and_no_rule(
    principals: Principals, cluster: KafkaCluster
) -> None:
    """Whether it was fenced or not; a removal that is repeated is no error."""
    fence = BrokerFence.at(principals, cluster, lambda _: None)
    authorizer = Authorizer(cluster)
    fence.start()
    try:
        for execution_id in ("a-000001", "b-000002"):
            fence.admit(execution_id)
        assert not fence.fence_now("a-000001")
        assert fence.present() == {"a-000001", "b-000002"}
        permissions = {r.permission for r in authorizer.rules(principals.principal("a-000001"))}
        assert permissions == {ALLOW, DENY}
        for execution_id in ("a-000001", "b-000002", "a-000001"):
            fence.remove(execution_id)
        until("both are gone", lambda: not fence.present())
        assert authorizer.rules(RIGHTS_OF)
    finally:
        fence.close()


def test_a_fence_that_the_brokers_do_not_know_yet_is_not_acknowledged(
    broker: Broker, principals: Principals, cluster: KafkaCluster
) -> None:
    """The brokers are asked, not the controller: one that still serves the principal is named."""
    fence = BrokerFence.at(principals, cluster, lambda _: None)
    fence.admit("a-000001")

    class Unheard(Authorizer):
        """The controller has the rule, and no broker has heard of it."""

        def add_rules(self, rules: Any) -> None:
            """Says yes."""

    deaf = BrokerFence(
        principals, Unheard(cluster), security=principals.security(), fenced=lambda _: None
    )
    assert deaf.fence_now("a-000001") == (broker.sasl_servers,)
    assert fence.fence_now("a-000001") == ()


def found(principals: Principals, cluster: KafkaCluster, config: dict[str, str]) -> list[Condition]:
    """All findings of an examination."""
    return list(examine(principals, cluster, config))


def test_the_examination_holds_and_leaves_nothing_behind(
    broker: Broker, cluster: KafkaCluster, tmp_path: Path
) -> None:
    """On a broker that can fence every condition is met, and no rule or login stays."""
    config = config_of(broker, "examined", tmp_path)
    principals = Principals.of(config)
    assert principals is not None
    before = Authorizer(cluster).rules()
    findings = found(principals, cluster, config)
    assert [f.check for f in findings if not f.ok] == []
    assert len(findings) == 7
    assert Authorizer(cluster).rules() == before
    assert not BrokerFence.at(principals, cluster, lambda _: None).present()


def test_rights_that_the_broker_asked_has_not_heard_of_yet_are_waited_for(
    principals: Principals, cluster: KafkaCluster
) -> None:
    """The controller acknowledges a rule before every broker has it."""
    rules = Authorizer(cluster).rules()
    answers = [[], [], rules]
    assert rights(principals, lambda: answers.pop(0)).ok
    assert not answers
    none = rights(principals, list)
    assert (none.ok, none.seen[:1]) == (False, "0")


def test_a_topic_that_containers_may_not_write_is_named(
    broker: Broker, cluster: KafkaCluster, tmp_path: Path
) -> None:
    """Before the first container starts, not by its end."""
    config = config_of(broker, "narrow", tmp_path)
    config["stores.t.changelog"] = "kafka.narrow-t"
    config["task.broadcast.inputs"] = "kafka.narrow-b#0"
    config["metrics.reporters"] = "snapshot"
    config["metrics.reporter.snapshot.stream"] = "kafka.narrow-m"
    for topic in ("narrow-t", "narrow-b", "narrow-m"):
        ensure_topic(KafkaCluster(broker.bootstrap_servers), topic)
    principals = Principals.of(config)
    assert principals is not None
    last = found(principals, cluster, config)[-1]
    assert not last.ok
    assert last.seen == ("no READ on narrow-b; no WRITE on narrow-m; no READ and WRITE on narrow-t")


def test_brokers_that_are_open_where_no_rule_stands_are_refused(tmp_path: Path) -> None:
    """There a rule on all topics, even for one principal, would shut everybody else out."""
    settings = {"allow.everyone.if.no.acl.found": "true"}
    with Broker(tmp_path / "open", authorizer=True, settings=settings) as broker:
        config = config_of(broker, "open", tmp_path)
        principals = Principals.of(config)
        assert principals is not None
        findings = found(principals, KafkaCluster(broker.bootstrap_servers), config)
        assert (findings[-1].ok, findings[-1].check) == (False, "who has no rule is refused")
        assert "allow.everyone.if.no.acl.found=false" in findings[-1].fix
        assert not [
            r
            for r in Authorizer(KafkaCluster(broker.bootstrap_servers)).rules()
            if r.permission == DENY
        ]


def test_without_an_authorizer_the_coordinator_refuses_to_start_and_doctor_says_why(
    bootstrap_servers: str, tmp_path: Path, broker: Broker
) -> None:
    """What was seen, and both ways out."""
    job = Job(
        tmp_path / "job",
        bootstrap_servers,
        "no-authorizer",
        settings=settings_of(broker, tmp_path, servers=bootstrap_servers),
        environment={CLIENT_CONFIG: str(tmp_path / "plain.properties")},
    )
    ensure_topic(KafkaCluster(bootstrap_servers), job.input_topic, partitions=4)
    (tmp_path / "plain.properties").write_text("security.protocol=PLAINTEXT\n")
    try:
        assert job.start_coordinator().wait(timeout=30 * PACE) == 2
    finally:
        job.close()
    log = (job.directory / "coordinator.log").read_text()
    assert "no authorizer" in log
    assert "authorizer.class.name" in log
    assert "samza.dagster.fencing=lease" in log
    told = CliRunner().invoke(
        cli,
        ["doctor", "--config", str(job.directory / "job.properties"), "--json"],
        env={CLIENT_CONFIG: str(tmp_path / "plain.properties")},
    )
    assert told.exit_code == 1
    checks = json.loads(told.output)["checks"]
    assert [c["check"] for c in checks if not c["ok"]] == ["the brokers have an authorizer"]
    assert "the job's topics are no other job's" in {c["check"] for c in checks}
