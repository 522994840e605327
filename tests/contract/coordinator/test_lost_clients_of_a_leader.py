"""A leader whose Kafka clients are all left without brokers, for good, leads on."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import CLIENT_CONFIG, Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from tests.contract.coordinator.test_leadership import log_of
from tests.rig.broker_list import LOST_FOR_GOOD, BrokerList
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.mark.longcontract
def test_a_leader_whose_clients_are_lost_leads_anew_and_no_container_ends(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """As after a broker that was frozen and fenced; what is asked afterwards is done."""
    ensure_topic(KafkaCluster(bootstrap_servers), "lost-input", partitions=4)
    own = tmp_path / "client.properties"
    own.write_text("".join(f"{key}={value}\n" for key, value in LOST_FOR_GOOD.items()))
    with BrokerList(bootstrap_servers) as brokers:
        job = Job(
            tmp_path / "job",
            brokers.servers,
            "lost",
            input_topic="lost-input",
            lease_ms=90_000,
            environment={CLIENT_CONFIG: str(own)},
        )
        client = PlacementClient(Connection(bootstrap_servers, "lost", "1"))
        try:
            job.start()
            before = job.processors()
            with brokers.empty():
                until("a commit fails", lambda: "the broker is away" in log_of(job), seconds=90)
            until("it leads anew", lambda: " in epoch 2" in log_of(job), seconds=60)
            request = client.place("1", "LAST_SEEN", request_expiry_s=60 * PACE)
            assert client.wait(request.uuid, timeout_s=60 * PACE).status_code == "SUCCEEDED"
            after = job.wait_until_running()
            for processor in ("0", "0-0", "1-0"):
                assert after[processor]["pid"] == before[processor]["pid"]
        finally:
            client.close()
            job.close()
