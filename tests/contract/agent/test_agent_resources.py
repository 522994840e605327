"""Hosts are chosen, filled, refused and explained."""

from __future__ import annotations

import pytest

from tests.contract.agent.rig import Rig, launch, lives, start, until

pytestmark = pytest.mark.contract


def test_a_full_host_is_waited_for_until_a_resource_is_freed(job: Rig) -> None:
    """The request holds on; the death of a container frees what it used."""
    cluster, seen = job.cluster()
    job.agent("host-1", memory_mb=300)
    start(cluster, seen, "host-1", launch("e1"), memory_mb=200)
    cluster.request_resource(
        "r2", host="host-1", excluded_hosts=(), memory_mb=200, cores=1, expires_in_s=20
    )
    assert not seen.named("on_resource_allocated", "r2")
    cluster.stop_container("e1", "host-1")
    seen.wait("on_resource_allocated", "r2")
    names = [(name, arguments[0]) for name, arguments in seen.calls]
    assert names.index(("on_container_stopped", "e1")) < names.index(
        ("on_resource_allocated", "r2")
    )


def test_a_request_that_expires_names_each_host_and_what_was_seen(job: Rig) -> None:
    """Full with what is free, excluded, unknown: one line a person can act on."""
    cluster, seen = job.cluster()
    job.agent("host-1", memory_mb=100, cores=2)
    job.agent("host-2", memory_mb=900, cores=2)
    seen.wait("on_host_registered")
    until("both hosts", lambda: len(cluster.hosts()) == 2)
    cluster.request_resource(
        "r1", host=None, excluded_hosts=("host-2",), memory_mb=256, cores=1, expires_in_s=0.3
    )
    assert seen.wait("on_request_expired", "r1")[1] == (
        "no host could hold 256 MiB and 1 cores within 0.3 s; "
        "host-1: full, 100 MiB and 2 cores free, 256 MiB and 1 cores needed; host-2: left out by a rule of placement"
    )
    cluster.request_resource(
        "r2", host="host-9", excluded_hosts=(), memory_mb=1, cores=1, expires_in_s=0.1
    )
    assert "host-9: not registered" in seen.wait("on_request_expired", "r2")[1]


def test_any_host_is_the_freest_one_and_a_release_gives_it_back(job: Rig) -> None:
    """What is reserved counts at once, so that two requests in a row don't pile up."""
    cluster, seen = job.cluster()
    job.agent("host-1", memory_mb=500)
    job.agent("host-2", memory_mb=600)
    until("both hosts", lambda: len(cluster.hosts()) == 2)
    for request_id in ("r1", "r2", "r3"):
        cluster.request_resource(
            request_id, host=None, excluded_hosts=(), memory_mb=200, cores=1, expires_in_s=10
        )
    for request_id in ("r1", "r2", "r3"):
        seen.wait("on_resource_allocated", request_id)
    assert {a[0]: a[1] for a in seen.named("on_resource_allocated")} == {
        "r1": "host-2",
        "r2": "host-1",
        "r3": "host-2",
    }
    cluster.request_resource(
        "r1", host=None, excluded_hosts=(), memory_mb=200, cores=1, expires_in_s=10
    )
    until("told again, not held twice", lambda: len(seen.named("on_resource_allocated", "r1")) == 2)
    for request_id in ("r1", "r2", "r3"):
        cluster.release_resource(request_id)
    cluster.release_resource("never-asked")
    until("all is free again", lambda: [h.free_memory_mb for h in cluster.hosts()] == [500, 600])


def test_a_restart_in_place_holds_both_resources_for_a_while(job: Rig) -> None:
    """Reserve, stop, start: the running container isn't touched before the second is held."""
    cluster, seen = job.cluster()
    job.agent("host-1", memory_mb=400)
    pid = start(cluster, seen, "host-1", launch("e1"), memory_mb=200)
    cluster.request_resource(
        "r-e2", host="host-1", excluded_hosts=(), memory_mb=200, cores=1, expires_in_s=10
    )
    seen.wait("on_resource_allocated", "r-e2")
    assert lives(pid)
    until("both are held", lambda: cluster.hosts()[0].free_memory_mb == 0)
    cluster.stop_container("e1", "host-1")
    seen.wait("on_container_stopped", "e1")
    cluster.start_container("r-e2", "host-1", launch("e2"))
    seen.wait("on_container_checked_in", "e2")
    until("one is left", lambda: cluster.hosts()[0].free_memory_mb == 200)
