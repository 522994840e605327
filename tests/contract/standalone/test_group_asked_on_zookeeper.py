"""A client over a real ZooKeeper: it finds the group by its job, reads it, and asks it to place a task."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.job_config import publish_config
from samza_dagster.standalone.zookeeper_placement import placement_store
from tests.contract.standalone.test_group_on_zookeeper import (
    PATHS,
    TASKS,
    Owners,
    Started,
    all_tasks_at,
)

pytestmark = pytest.mark.contract


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def client_of(server: ZooKeeperServer, job_name: str) -> PlacementClient:
    """Kafka isn't asked for anything here."""
    return PlacementClient(Connection("127.0.0.1:1", job_name, zookeeper=server.hosts))


def test_a_group_is_found_by_its_job_read_and_asked(server: ZooKeeperServer) -> None:
    """Whatever its application is called; the request stands where the leader looks for it."""
    with pytest.raises(InvalidInput, match="no /app-…/orders_eu-1"):
        client_of(server, "orders_eu")
    owners = Owners()
    group = [Started(server.hosts, pid, owners) for pid in ("p1", "p2")]
    owners.wait_until(all_tasks_at("p1", "p2"))
    session = connect(ZooKeeperAddress(server.hosts))
    store = placement_store(session, PATHS)
    publish_config(store, {"job.name": "orders_eu", "stores.s.changelog": "kafka.log"})
    with client_of(server, "orders_eu") as client:
        view = client.view()
        assert view.agreement is not None
        assert view.agreement.leader in ("p1", "p2")
        assert {task: view.processors[task].host for task in TASKS} == {
            task: f"host-of-{pid}" for pid, tasks in owners.now.items() for task in tasks
        }
        (task,) = list(owners.now["p1"])[:1]
        asked = client.place(task, "host-of-p2")
        assert f"{asked.uuid}" in "".join(store.all(PLACEMENT_NAMESPACE))
        assert client.place(task, "host-of-p2", uuid=asked.uuid).uuid == asked.uuid
    for processor in group:
        processor.leave()
    session.stop()
    session.close()
