"""A client over a real ZooKeeper: it finds the group by its job, reads it, and asks it to place a task."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator

import pytest
from click.testing import CliRunner

from samza_dagster.agent.logs import JsonLines
from samza_dagster.assignment import by_locality
from samza_dagster.cli.main import cli
from samza_dagster.client import PlacementClient
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.published_config import publish_config
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.model import StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.zookeeper_placement import placement_store
from tests.contract.standalone.test_group_on_zookeeper import (
    DEADLINE_S,
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


@pytest.fixture
def log() -> Generator[io.StringIO]:
    """What the processors log, as JSON."""
    handler, logger = logging.StreamHandler(io.StringIO()), logging.getLogger("samza_dagster")
    handler.setFormatter(JsonLines())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_group_is_found_by_its_job_read_and_asked(
    server: ZooKeeperServer, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its application is called; the request stands where the leader looks for it, and its log tells of it."""
    with pytest.raises(InvalidInput, match="no /app-…/orders_eu-1"):
        client_of(server, "orders_eu")
    owners = Owners()
    plan = JobPlan({"in": len(TASKS)}, {"in": "kafka"}, replicas=0, grouper=by_locality).model
    group = [Started(server.hosts, pid, owners, plan) for pid in ("p1", "p2")]
    owners.wait_until(all_tasks_at("p1", "p2"))
    session = connect(ZooKeeperAddress(server.hosts))
    store = placement_store(session, PATHS)
    publish_config(store, {"job.name": "orders_eu", "stores.s.changelog": "kafka.log"})
    where = {"BOOTSTRAP_SERVERS": "127.0.0.1:1", "JOB_NAME": "orders_eu", "ZOOKEEPER": server.hosts}
    for name, value in where.items():
        monkeypatch.setenv(f"SAMZA_DAGSTER_{name}", value)
    shown = CliRunner().invoke(cli, ["processor", "status", "--json"])
    found = json.loads(shown.stdout)["processors"]
    assert {row["processor_id"] for row in found} == {"p1", "p2"}
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
        done = client.wait(asked.uuid, timeout_s=DEADLINE_S)
        assert done.status_code is StatusCode.SUCCEEDED, done.response_message
        seen = client.view().processors[task]
        assert (seen.host, seen.state, seen.pinned) == ("host-of-p2", "last-seen", True)
        assert task in owners.now["p2"]
        restarted = client.place("p2", "LAST_SEEN")
        done = client.wait(restarted.uuid, timeout_s=DEADLINE_S)
        assert done.status_code is StatusCode.SUCCEEDED, done.response_message
    for processor in group:
        processor.leave()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    for uuid, begins in ((asked.uuid, "SetPin"), (restarted.uuid, "SetRestart")):
        told = [line["message"] for line in lines if line.get("request") == uuid]
        assert any(each.endswith(begins) for each in told)
        assert any(each.endswith("Respond") for each in told)
    session.stop()
    session.close()
