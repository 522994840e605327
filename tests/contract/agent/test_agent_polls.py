"""How long a poll is held, and who is answered how when several ask as one host."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from samza_dagster.cluster import LocalCluster
from tests.contract.agent.rig import TOKEN, Rig, until
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def ask(cluster: LocalCluster, instance: str, **changed: Any) -> tuple[int, dict[str, Any]]:
    """A sync of host-1 by `instance`, which has heard of epoch 1; status and body of the answer."""
    resources = {"memory_mb": 1000, "cores": 4, "free_memory_mb": 1000, "free_cores": 4}
    body = {
        "version": 1,
        "host": "host-1",
        "boot_id": "b",
        "journal": "j",
        "instance": instance,
        "began_ms": 1,
        "sequence": 1,
        "highest_epoch": 1,
        "losses": 0,
        "resources": resources,
        **changed,
    }
    request = urllib.request.Request(
        f"{cluster.url}/agent/v1/sync",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


def test_a_poll_is_held_by_the_lease_that_is_granted_not_by_a_longer_one_before(
    job: Rig,
) -> None:
    """After a lease was made shorter, a host asks as often as the short one needs."""
    cluster, _ = job.cluster(lease_s=400.0, granted_s=2.0)
    ask(cluster, "i1")
    asked_at = time.monotonic()
    status, _ = ask(cluster, "i1", sequence=2, wait_ms=60_000)
    assert status == 200
    assert time.monotonic() - asked_at < 10 * PACE


def test_a_poll_of_an_agent_that_another_has_replaced_gets_neither_lease_nor_commands(
    job: Rig,
) -> None:
    """They are for the one that registered last; both would carry them out."""
    cluster, seen = job.cluster(lease_s=400.0)
    ask(cluster, "i1")
    seen.wait("on_host_told")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(ask, cluster, "i1", sequence=2, wait_ms=60_000)
        until("the poll is held", lambda: cluster._hosts["host-1"].sequence == 2)
        assert ask(cluster, "i2")[0] == 200
        status, body = held.result(timeout=30 * PACE)
    assert status == 409
    assert "another agent registered" in body["error"]
