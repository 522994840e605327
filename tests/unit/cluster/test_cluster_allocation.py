"""Which host a resource is asked of, and what a refusal tells."""

from __future__ import annotations

import pytest

from samza_dagster.cluster.allocation import KnownHost, choose_host, explain
from samza_dagster.cluster.interface import ResourceAsk

pytestmark = pytest.mark.unit


def ask(host: str | None = None, *excluded: str, memory_mb: int = 100) -> ResourceAsk:
    return ResourceAsk("r", host, excluded, memory_mb, 1, 5.0)


def view(host: str, free: int, containers: int = 0, cores: int = 2, **more: float) -> KnownHost:
    return KnownHost(host, free, cores, containers, more.get("lost_for_s"))


def test_the_most_free_memory_then_the_fewest_containers_then_the_name() -> None:
    """The order is total, so that a repeated choice is the same choice."""
    assert choose_host(ask(), [view("a", 200), view("b", 300)]) == "b"
    assert choose_host(ask(), [view("a", 300, 2), view("b", 300, 1)]) == "b"
    assert choose_host(ask(), [view("b", 300, 1), view("a", 300, 1)]) == "a"


def test_excluded_lost_and_full_hosts_are_left_out() -> None:
    """Cores count as memory does."""
    hosts = [
        view("excluded", 900),
        view("lost", 900, lost_for_s=3.0),
        view("small", 99),
        view("busy", 900, cores=0),
        view("fits", 100),
    ]
    assert choose_host(ask(None, "excluded"), hosts) == "fits"
    assert choose_host(ask("small"), hosts) is None


def test_the_explanation_names_every_candidate_and_what_was_seen() -> None:
    """Lost, excluded, full with numbers, silent, refused by its agent, unknown."""
    hosts = {
        v.host: v
        for v in (view("a", 50), view("b", 900), view("c", 0, lost_for_s=130.0), view("d", 900))
    }
    assert explain(ask(None, "b"), hosts, {"d": "OSError: disk full"}) == (
        "no host could hold 100 MiB and 1 cores within 5 s; "
        "a: full, 50 MiB and 2 cores free, 100 MiB and 1 cores needed; b: left out by a rule of placement; "
        "c: lost, no word for 130.0 s; d: refused: OSError: disk full"
    )
    assert explain(ask("b"), hosts, {}).endswith(
        "b: has room, but its agent did not answer in time"
    )
    assert explain(ask("z"), hosts, {}).endswith("z: not registered")
    assert explain(ask(), {}, {}).endswith("no host is registered")
