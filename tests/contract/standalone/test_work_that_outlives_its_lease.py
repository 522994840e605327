"""A processor whose containers ended by their lease while its session lived on, over a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from samza_dagster.agent.lease import Now
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.commands import Expect, StartWork
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.processor import Settings
from samza_dagster.standalone.runner import ProcessorRunner
from tests.rig.standalone_groups import dealt
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


class CountedWork:
    """Work that ends at once; what was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def renew(self, asked: Now, lease_s: float) -> None: ...

    def expect(self, command: Expect, warm: Callable[[str], None]) -> None:
        for each in command.containers:
            warm(each.processor_id)

    def start(self, command: StartWork, at_work: Callable[[str], None]) -> None:
        self.told.append("start")

    def stop(self, containers: frozenset[str], stopped: Callable[[str], None]) -> None:
        self.told.append("stop")
        for each in containers:
            stopped(each)


def test_it_starts_them_anew(tmp_path: Path) -> None:
    """It had no time to listen for a lease's length, and ZooKeeper none to expire its session: nobody ran its tasks."""
    work = CountedWork()
    with ZooKeeperServer(tmp_path) as server:
        session = connect(ZooKeeperAddress(server.hosts))
        runner = ProcessorRunner(
            session,
            GroupPaths.of({"job.name": "orders"}),
            processor_id="p1",
            location="host-1",
            settings=Settings(debounce_ms=0),
            grouper=partial(dealt, ("Partition 0",)),
            containers=work,
        )
        running = threading.Thread(target=runner.run, daemon=True)
        running.start()
        until("it runs", lambda: work.told == ["start"])
        runner.start_anew()
        until("it runs anew", lambda: work.told == ["start", "stop", "start"])
        runner.leave()
        running.join(30)
        session.stop()
        session.close()
    assert work.told == ["start", "stop", "start", "stop"]
