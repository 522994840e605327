"""A container whose restart can't get its place: a canary that fails, a run that is terminated."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from samza_dagster.placement import texts
from samza_dagster.sandbox.launch import CONTAINER_MEMORY_MB
from tests.rig.bounce_judge import BounceJudge
from tests.rig.cockpit import PATIENCE_S, Cockpit
from tests.rig.waiting import until

pytestmark = pytest.mark.realcockpit

CANARY = "0-0"
EXPIRY_S = 8


@contextmanager
def packed(cockpit: Cockpit, host: str) -> Generator[None]:
    """The host has room for what runs there and for nothing else."""
    mine = [p for p in cockpit.job.processors().values() if p["host"] == host]
    full = CONTAINER_MEMORY_MB * len(mine)
    _restart_agent(cockpit, host, full)
    try:
        yield
    finally:
        _restart_agent(cockpit, host, cockpit.job.memory_mb)


def _restart_agent(cockpit: Cockpit, host: str, memory_mb: int) -> None:
    cockpit.job.kill_agent(host)
    cockpit.job.start_agent(host, memory_mb=memory_mb)

    def known() -> bool:
        status = cockpit.job.status()
        return status is not None and status["hosts"][host]["memory_mb"] == memory_mb

    until(f"{host} has {memory_mb} MiB", known, seconds=PATIENCE_S)


def test_a_canary_without_room_ends_the_bounce_and_touches_nobody(ready: Cockpit) -> None:
    """Within its time; the report says which and why; nothing is held; the others weren't asked."""
    host = ready.job.processors()[CANARY]["host"]
    with packed(ready, host), BounceJudge(ready) as judge:
        root = ready.bounce(
            only=[CANARY, "0", "1"], canaries=1, request_expiry_s=EXPIRY_S, at_once=2
        )
        ended = ready.until_bounce(root, "stopped")
        assert ended.status.value == "FAILURE"
        (asked,) = judge.placements()
        assert asked.processor == CANARY
        assert asked.ended_ms is not None
        assert asked.ended_ms - asked.asked_ms < (EXPIRY_S + 10) * 1000
        (row,) = ready.recorded(root)
        assert (row.processor, row.status.value) == (CANARY, "failed")
        assert "expired" in row.why
        assert f"the canary failed: {CANARY}" in ready.told(root)
        assert f"failed: {CANARY}" in ready.report(root)
        assert not judge.starts()
        assert judge.watch.most == 0
        ready.until_nothing_is_held()


def test_a_bounce_that_is_terminated_before_anything_stopped_gives_its_place_back(
    ready: Cockpit,
) -> None:
    """Over GraphQL, while its container waits for room: the same process runs on, nothing is held."""
    host = ready.job.processors()[CANARY]["host"]
    with packed(ready, host), BounceJudge(ready) as judge:
        root = ready.bounce(only=[CANARY], canaries=0)
        until("it is asked", judge.placements, seconds=PATIENCE_S, every=1)
        time.sleep(1)  # it waits for room: nothing tells a client that
        ready.runs.terminate(root)
        ended = ready.until_bounce(root, "terminated")
        assert ended.status.value == "CANCELED"
        (asked,) = judge.placements()
        assert asked.statuses[-1][1:] == ("FAILED", texts.RELEASED)
        ready.until_nothing_is_held()
        assert not judge.starts()
        assert judge.watch.most == 0
