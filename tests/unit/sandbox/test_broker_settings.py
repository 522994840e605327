"""The sandbox's broker: who comes by the job's own listener, and what it must show."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.sandbox.broker_settings import (
    authorizer_settings,
    broker_settings,
    cluster_settings,
    job_listener_settings,
)

pytestmark = pytest.mark.unit


def settings(*, authorizer: bool) -> dict[str, str]:
    """With a listener of the job's own at port 4, told as `localhost:5`."""
    found = broker_settings(1, 2, Path("/data"))
    if authorizer:
        found |= authorizer_settings(1, 2, 3)
    return found | job_listener_settings(found, 4, "localhost:5")


@pytest.mark.parametrize("authorizer", [True, False])
def test_the_jobs_listener_tells_the_forwarders_address_and_the_others_their_own(
    authorizer: bool,
) -> None:
    """A client goes where it is told to, whatever it connected to first."""
    found = settings(authorizer=authorizer)
    own = ",SASL_PLAINTEXT://127.0.0.1:3" if authorizer else ""
    assert found["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:1{own},JOB://localhost:5"
    assert set(found["listeners"].split(",")) == {
        "CONTROLLER://127.0.0.1:2",
        "JOB://127.0.0.1:4",
        *f"PLAINTEXT://127.0.0.1:1{own}".split(","),
    }


def test_where_there_is_an_authorizer_who_comes_by_the_jobs_listener_must_log_in() -> None:
    """A way past the fence would be one that nobody has shut."""
    fenced = settings(authorizer=True)
    assert "JOB:SASL_PLAINTEXT" in fenced["listener.security.protocol.map"].split(",")
    assert "ScramLoginModule" in fenced["listener.name.job.scram-sha-256.sasl.jaas.config"]
    assert fenced["authorizer.class.name"].endswith("StandardAuthorizer")
    open_ones = settings(authorizer=False)
    assert "JOB:PLAINTEXT" in open_ones["listener.security.protocol.map"].split(",")
    assert "authorizer.class.name" not in open_ones


@pytest.mark.parametrize(
    ("nodes", "copies", "in_sync"), [(2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_kafkas_own_topics_are_on_three_brokers_and_topics_without_a_factor_on_one(
    nodes: int, copies: str, in_sync: str
) -> None:
    """A topic that is created without saying how often it is kept must show."""
    found = broker_settings(1, 2, Path("/data")) | cluster_settings(2, nodes, "1@h:1,2@h:2")
    assert (found["node.id"], found["controller.quorum.voters"]) == ("2", "1@h:1,2@h:2")
    assert found["offsets.topic.replication.factor"] == copies
    assert found["transaction.state.log.replication.factor"] == copies
    assert found["transaction.state.log.min.isr"] == in_sync
    assert not {"default.replication.factor", "min.insync.replicas"} & set(found)
