"""A job whose dead are fenced at a real broker: who replaces them, and which logins are removed when."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.client.audit_history import read_history
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.metadata.authorizer import DENY, AclRule, Authorizer
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.group import LocalStores
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.rig.fence_broker import (
    RIGHTS_OF,
    SECRET,
    client_file,
    fenced_job,
)
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def test_an_active_on_a_lost_host_is_replaced_after_the_fence_and_not_after_the_lease(
    broker: Broker, tmp_path: Path
) -> None:
    """Its lease has two minutes to go. The coordinator is killed beside the host, so that it is
    its successor that fences. The certificate says how; when the host is back nothing is left.
    """
    name = "fenced-host"
    job = fenced_job(
        broker, tmp_path, name, actives=1, lease_ms=120_000, host_timeout_ms=2_000, hosts=3
    )
    authorizer = Authorizer(KafkaCluster(broker.bootstrap_servers))
    principals = Principals.of(job.properties)
    assert principals is not None
    left_over = principals.principal("fenced-host-9-000099")
    authorizer.add_rules([AclRule(left_over, DENY, "ALL", "TOPIC", "*")])
    try:
        before = job.start().processors()
        assert not authorizer.rules(left_over)
        ids = {c["execution_id"] for c in before.values()}
        assert {principals.user(i) for i in ids} <= authorizer.logins()
        lost = before["0"]
        began = time.monotonic()
        job.kill_host(lost["host"])
        job.kill_coordinator()
        job.start_coordinator()
        after = until(
            "it runs elsewhere",
            lambda: (
                (p := job.processors().get("0"))
                and p["state"] == "running"
                and p["host"] != lost["host"]
                and p
            ),
            seconds=60,
        )
        assert time.monotonic() - began < 60 * PACE
        rules = authorizer.rules(principals.principal(lost["execution_id"]))
        assert [r.operation for r in rules if r.permission == DENY] == ["ALL"]
        (start,) = [
            r
            for r in read_history(job.connection).records
            if r.kind == "start" and r.execution_id == after["execution_id"]
        ]
        assert start.predecessor is not None
        assert (start.fencing, start.predecessor.how) == ("broker", "fenced")
        job.start_agent(lost["host"])
        until(
            "nothing is left of the dead one",
            lambda: (
                principals.user(lost["execution_id"]) not in authorizer.logins()
                and not authorizer.rules(principals.principal(lost["execution_id"]))
            ),
        )
        assert SECRET not in (job.directory / "coordinator.log").read_text()
        assert principals.password(lost["execution_id"]) not in "".join(
            path.read_text() for path in job.directory.rglob("*.log")
        )
    finally:
        job.close()


def test_what_the_fence_left_when_leases_took_its_place_is_removed_unless_it_may_live(
    broker: Broker, tmp_path: Path
) -> None:
    """A coordinator with leases asks nothing of the brokers, so gc does. The container on a host
    that was lost stays shut out by what it is: nobody saw it dead.
    """
    name = "unfenced"
    job = fenced_job(
        broker, tmp_path, name, actives=1, lease_ms=8_000, host_timeout_ms=2_000, hosts=3
    )
    authorizer = Authorizer(KafkaCluster(broker.bootstrap_servers))
    fenced = Principals.of(job.properties)
    assert fenced is not None

    def gc(*options: str) -> dict[str, Any]:
        config = str(job.directory / "job.properties")
        told = CliRunner().invoke(
            cli,
            ["gc", "--logins", "--config", config, "--json", *options],
            env={CLIENT_CONFIG: str(client_file(tmp_path))},
        )
        assert told.exit_code == 0, told.output
        return json.loads(told.output)

    def ids(found: list[dict[str, Any]]) -> set[str]:
        return {each["execution_id"] for each in found}

    try:
        first = job.start().processors()
        active, standby = (first[each]["execution_id"] for each in ("0", "0-0"))
        assert ids(gc()["kept"]) == {active, standby}
        job.kill_host(first["0-0"]["host"])
        until(
            "it is fenced",
            lambda: DENY in {r.permission for r in authorizer.rules(fenced.principal(standby))},
        )
        job.properties["samza.dagster.fencing"] = "lease"
        job.configure()
        job.kill_coordinator()
        job.start_coordinator()
        until(
            "the active is another, without a principal",
            lambda: (
                (p := job.processors().get("0"))
                and p["state"] == "running"
                and p["execution_id"] != active
            ),
            seconds=60,
        )
        own = {fenced.user(active), fenced.user(standby)}
        # The lost one's successor began behind the fence too, and may have yet to end.
        until(
            "of those with a login the lost host's alone may live",
            lambda: ids(gc("--dry-run")["kept"]) == {standby},
        )
        found = gc("--dry-run")
        assert active in ids(found["removed"])
        assert standby in ids(found["kept"])
        assert own <= authorizer.logins()
        assert gc()["removed"] == found["removed"]
        assert not authorizer.rules(fenced.principal(active))
        assert authorizer.logins() & own == {fenced.user(standby)}
        assert DENY in {r.permission for r in authorizer.rules(fenced.principal(standby))}
        assert gc()["removed"] == []
        assert authorizer.rules(RIGHTS_OF)
    finally:
        job.close()


def test_logins_of_a_processor_that_never_returns_are_removed_once_somebody_knows_its_end(
    broker: Broker, principals: Principals, cluster: KafkaCluster, tmp_path: Path
) -> None:
    """It may be frozen, which nobody but a person can tell: kept without that word, as is who is registered."""
    fence = BrokerFence.at(principals, cluster, lambda _: None)
    name = principals.job_name
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        session = connect(ZooKeeperAddress(server.hosts))
        group = ZooKeeperGroup(session, GroupPaths.of({"job.name": name}), lambda: None)
        group.prepare()
        here = group.registration(group.register("p1", "host-1", LocalStores()))
        gone = group.registration("0000000099")
        fence.admit(here)
        fence.admit(gone)

        def gc(*options: str) -> dict[str, list[str]]:
            told = CliRunner().invoke(
                cli,
                [
                    *("gc", "--logins", "--json", "--job-name", name, *options),
                    *("--bootstrap-servers", broker.sasl_servers, "--zookeeper", server.hosts),
                ],
                env={CLIENT_CONFIG: str(client_file(tmp_path))},
            )
            assert told.exit_code == 0, told.output
            document = json.loads(told.output)
            return {
                kind: [x["execution_id"] for x in document[kind]] for kind in ("removed", "kept")
            }

        assert gc() == {"removed": [], "kept": [here, gone]}
        found = {"removed": [gone], "kept": [here]}
        assert gc("--unregistered-ended", "--dry-run") == found
        assert fence.present() == {here, gone}
        assert gc("--unregistered-ended") == found
        assert fence.present() == {here}
        session.stop()
        session.close()


def test_without_a_state_nobody_is_known_to_be_dead(
    broker: Broker, principals: Principals, cluster: KafkaCluster, tmp_path: Path
) -> None:
    """A job whose own topics are gone: refused, and nothing removed."""
    fence = BrokerFence.at(principals, cluster, lambda _: None)
    fence.admit("a-000001")
    told = CliRunner().invoke(
        cli,
        [
            *("gc", "--logins", "--json", "--job-name", principals.job_name),
            *("--bootstrap-servers", broker.sasl_servers),
        ],
        env={CLIENT_CONFIG: str(client_file(tmp_path))},
    )
    assert told.exit_code == 2
    assert "which containers with a login are dead" in told.output
    assert fence.present() == {"a-000001"}
