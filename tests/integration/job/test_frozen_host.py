"""A whole host that is frozen and thaws: two processes believe that they own the tasks.

The brokers let one of them write.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.demo_sandbox import PARTITIONS_OF_0, all_run
from tests.rig.frozen_host import frozen_host
from tests.rig.history import followers
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.realfault]

HOST_TIMEOUT = "samza.dagster.host.timeout.ms=6000\n"


def restart_coordinator(sandbox: Sandbox) -> None:
    """Its own settings are no new deployment: containers run on."""
    (coordinator,) = sandbox.registry.live("coordinator")
    coordinator.stop(grace_s=20)
    sandbox.files.start(on_spawn=sandbox.registry.add)
    until("all are known again", lambda: all_run(sandbox), seconds=40)


@pytest.fixture
def quick_to_notice(sandbox: Sandbox) -> Iterator[None]:
    """A host counts as lost after 6 s, for this scenario alone."""
    before = sandbox.files.config.read_text()
    sandbox.files.config.write_text(before + HOST_TIMEOUT)
    restart_coordinator(sandbox)
    yield
    sandbox.files.config.write_text(before)
    restart_coordinator(sandbox)


@pytest.mark.usefixtures("quick_to_notice")
def test_a_frozen_host_is_fenced_and_what_thaws_there_writes_nothing(
    sandbox: Sandbox, servers: str, judge: Judge
) -> None:
    """Agent, wardens and JVMs stop in mid-work; its successor runs long before the lease is
    over. Then the JVM alone thaws, so that nobody can tell it to stop, and tries to go on.
    """
    with frozen_host(sandbox) as frozen:
        host = next(h for h in sandbox.hosts if h.name == frozen.lost["host"])
        after = frozen.until_replaced()
        ends = {p: frozen.batches(p)[-1].next_offset for p in PARTITIONS_OF_0}
        frozen.thaw_jvms()
        log, execution = sandbox.runner.container_log, frozen.lost["execution_id"]
        until(
            "it was refused", lambda: "AuthorizationException" in log(host, execution), seconds=40
        )
    until("everything runs, on all hosts", lambda: all_run(sandbox), seconds=60)
    found = followers(demo_job.connection(servers), frozen.lost["execution_id"])
    assert found == {after["execution_id"]: ("broker", "fenced")}
    assert not frozen.overlaps()
    for partition, end in ends.items():
        written = frozen.batches(partition)
        assert not frozen.zombies & {b.producer_id for b in written if b.next_offset > end}
        assert written[-1].next_offset > end
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict
