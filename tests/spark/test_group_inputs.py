"""A standalone job's group in ZooKeeper, as an input of a snapshot: there, absent, empty, cut, and slow for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.assignment import by_locality
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.metadata import Connection
from samza_dagster.metadata.published_config import publish_config
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.snapshots import Tables, Workers, take_fleet
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.zookeeper_placement import placement_store
from tests.contract.standalone.test_group_on_zookeeper import (
    PATHS,
    TASKS,
    Owners,
    Started,
    all_tasks_at,
)
from tests.spark.conftest import Topics, at
from tests.spark.reported import NOW_MS
from tests.spark.test_inputs import is_one_line

pytestmark = pytest.mark.cluster


class Group:
    """One processor that has all tasks, and its server."""

    def __init__(self, directory: Path) -> None:
        self.server = ZooKeeperServer(directory)

    def job(self, topics: Topics, name: str = "orders_eu") -> Connection:
        return Connection(topics.bootstrap, name, "1", zookeeper=self.server.hosts)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    group = Group(tmp_path_factory.mktemp("zookeeper"))
    with group.server:
        owners = Owners()
        plan = JobPlan({"in": len(TASKS)}, {"in": "kafka"}, replicas=0, grouper=by_locality).model
        processor = Started(group.server.hosts, "p1", owners, plan)
        owners.wait_until(all_tasks_at("p1"))
        yield group
        processor.leave()


def settings(group: Group, config: dict[str, str] | None) -> None:
    """What its processors have published; None: what a writer that died left."""
    session = connect(ZooKeeperAddress(group.server.hosts))
    store = placement_store(session, PATHS)
    publish_config(store, config or {})
    if config is None:
        store.put("job-config", "config", b'{"job.name": "ord')
    session.stop()
    session.close()


@pytest.mark.parametrize("config", [{"job.name": "orders_eu"}, {}], ids=["whole", "empty"])
def test_a_group_tells_where_its_tasks_are(
    group: Group, topics: Topics, workers: Workers, tmp_path: Path, config: dict[str, str]
) -> None:
    """Also one whose processors have published no settings: the tasks and hosts are in its own nodes."""
    settings(group, config)
    taken = take_fleet(workers, [group.job(topics)], at(NOW_MS), Tables(str(tmp_path)))
    (row,) = taken.rows("container_locality")
    assert (row["processor_id"], row["host"], row["tasks"]) == ("p1", "host-of-p1", len(TASKS))
    assert taken.unread == {}


def refused(workers: Workers, job: Connection, directory: Path) -> str:
    with pytest.raises(SamzaDagsterError) as caught:
        take_fleet(workers, [job], at(NOW_MS), Tables(str(directory)))
    assert is_one_line(str(caught.value))
    return str(caught.value)


def test_settings_that_were_cut_are_told_in_one_line(
    group: Group, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """And nothing is made of half of them."""
    settings(group, None)
    assert "published config of a group" in refused(workers, group.job(topics), tmp_path)


def test_a_group_that_is_not_there_is_told_in_one_line(
    group: Group, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """With where it was looked for."""
    assert "no /app-" in refused(workers, group.job(topics, "nobody"), tmp_path)


def test_a_server_that_is_not_there_is_told_in_one_line(
    topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """With its address."""
    job = Connection(topics.bootstrap, "orders_eu", "1", zookeeper="127.0.0.1:1")
    assert "127.0.0.1:1" in refused(workers, job, tmp_path)


def test_a_server_that_answers_no_more_is_told_in_one_line(
    group: Group, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """In time, and not as an empty group."""
    server = group.server.process
    server.send(signal.SIGSTOP)
    try:
        assert group.server.hosts in refused(workers, group.job(topics), tmp_path)
    finally:
        server.send(signal.SIGCONT)
