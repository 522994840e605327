"""A whole host of a sandbox that is frozen: its JVMs thaw alone, and believe that they own their tasks.

Judged by the broker's own log: each batch there names the producer that it is from, and a
container has one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from samza_dagster.sandbox import broker_log, demo_job
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.demo_sandbox import PARTITIONS_OF_0, processors
from tests.rig.job import alive, parent_of
from tests.rig.waiting import until


class FrozenHost:
    """The one of active 0: agent, wardens and JVMs stopped in mid-work."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        before = processors(sandbox)
        self.lost = before["0"]
        host = self.lost["host"]
        self._jvms = [p["pid"] for p in before.values() if p["host"] == host]
        (agent,) = sandbox.registry.live(f"agent {host}")
        self._keepers = [agent.pid, *map(parent_of, self._jvms)]
        self.zombies = {b.producer_id for p in PARTITIONS_OF_0 for b in self.batches(p)}
        """Who had written to the changelogs of active 0 by then."""
        for pid in (*self._keepers, *self._jvms):
            os.kill(pid, signal.SIGSTOP)

    def batches(self, partition: int) -> list[broker_log.RecordBatch]:
        """The changelog partition as the broker has it on disk."""
        data = self._sandbox.directory / "broker" / "data"
        return broker_log.batches(data, demo_job.CHANGELOG_TOPIC, partition)

    def overlaps(self) -> list[broker_log.Overlap]:
        """Two owners of a partition of active 0."""
        topic = demo_job.CHANGELOG_TOPIC
        return [o for p in PARTITIONS_OF_0 for o in broker_log.overlaps(topic, p, self.batches(p))]

    def until_replaced(self) -> Mapping[str, Any]:
        """Active 0 runs elsewhere and has written to each of its partitions; who it is then."""
        after = until(
            "0 runs elsewhere",
            lambda: (
                (p := processors(self._sandbox).get("0"))
                and p["state"] == "running"
                and p["host"] != self.lost["host"]
                and p
            ),
            seconds=90,
        )
        until(
            "its successor writes to all of its partitions",
            lambda: all(
                self.batches(p)[-1].producer_id not in self.zombies for p in PARTITIONS_OF_0
            ),
            seconds=60,
        )
        return after

    def thaw_jvms(self) -> None:
        """Theirs alone: nobody is there who could end them."""
        assert alive(self.lost["pid"])
        for pid in self._jvms:
            os.kill(pid, signal.SIGCONT)

    def thaw(self) -> None:
        """All that is left of it."""
        for pid in (*self._jvms, *self._keepers):
            if alive(pid):
                os.kill(pid, signal.SIGCONT)

    def until_gone(self) -> None:
        """Who thawed has ended."""
        until("who thawed has ended", lambda: not any(map(alive, self._jvms)), seconds=60)


@contextmanager
def frozen_host(sandbox: Sandbox) -> Generator[FrozenHost]:
    """It thaws in the end."""
    found = FrozenHost(sandbox)
    try:
        yield found
    finally:
        found.thaw()
