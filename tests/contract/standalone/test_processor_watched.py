"""A processor over a real ZooKeeper as whoever operates it sees it: its metrics, over a lost session."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from samza_dagster.agent import metrics
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.sandbox.ports import free_ports
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.commands import StartWork
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.metrics import metrics_of
from samza_dagster.standalone.processor import Settings
from samza_dagster.standalone.runner import ProcessorRunner
from tests.contract.standalone.test_work_that_outlives_its_lease import CountedWork
from tests.rig.standalone_groups import dealt
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


class AtWork(CountedWork):
    """What starts is at work at once."""

    def start(self, command: StartWork, at_work: Callable[[str], None]) -> None:
        super().start(command, at_work)
        for each in command.containers:
            at_work(each.processor_id)


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return {
        s.name.removeprefix("samza_dagster_processor_"): s.value
        for family in text_string_to_metric_families(page)
        for s in family.samples
    }


def test_a_session_that_is_lost_is_counted_and_the_group_looks_well_again(tmp_path: Path) -> None:
    """It registers anew, and another version is agreed on."""
    (port,) = free_ports(1)
    with ZooKeeperServer(tmp_path) as server:
        session = connect(ZooKeeperAddress(server.hosts))
        runner = ProcessorRunner(
            session,
            GroupPaths.of({"job.name": "orders"}),
            processor_id="p1",
            location="host-1",
            settings=Settings(debounce_ms=0, session_ms=3_000, stop_ms=1_000),
            grouper=partial(dealt, ("Partition 0", "Partition 1")),
            containers=AtWork(),
        )

        def page() -> bytes:
            return metrics.render({"job": "orders-1"}, metrics_of(runner.seen(), 1.0))

        running = threading.Thread(target=runner.run, daemon=True)
        with metrics.serve(("127.0.0.1", port), page) as web:
            running.start()
            until("it is at work", lambda: scraped(port)["active_tasks"] == 2)
            until("it leads", lambda: scraped(port).get("agreed_version", 0) >= 1)
            first = scraped(port)
            assert (first["session_losses_total"], first["registrations"]) == (0, 1)
            other = KazooClient(server.hosts, client_id=session.client_id)
            other.start()
            other.stop()
            other.close()
            until("the loss", lambda: scraped(port)["session_losses_total"] == 1)
            until("another registration", lambda: scraped(port).get("registrations") == 2)
            until("its tasks", lambda: scraped(port)["active_tasks"] == 2)
            until("it runs all", lambda: scraped(port)["behind_seconds"] == 0)
            after = scraped(port)
            assert after["agreed_version"] > first["agreed_version"]
            assert after["unagreed_versions"] == after["tasks_without_processor"] == 0
            assert after["zookeeper_silence_seconds"] < 10
            runner.leave()
            running.join(30)
            web.shutdown()
        session.stop()
        session.close()
