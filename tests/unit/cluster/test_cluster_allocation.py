"""Which host a resource is asked of, and what a refusal tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(
    st.lists(
        st.builds(
            KnownHost,
            st.sampled_from("abcdef"),
            st.integers(0, 500),
            st.integers(0, 4),
            st.integers(0, 5),
            st.none() | st.floats(0, 100),
        ),
        unique_by=lambda v: v.host,
    ),
    st.none() | st.sampled_from("abcdef"),
    st.sets(st.sampled_from("abcdef")),
)
def test_a_chosen_host_is_legal_and_no_legal_one_is_freer(
    hosts: list[KnownHost], host: str | None, excluded: set[str]
) -> None:
    """None is answered only when no host is legal."""
    wanted = ResourceAsk("r", host, tuple(excluded), 200, 2, 5.0)
    legal = [
        v for v in hosts if v.fits(wanted) and v.host not in excluded and host in (None, v.host)
    ]
    chosen = choose_host(wanted, hosts)
    assert (chosen is None) == (not legal)
    if chosen is not None:
        best = next(v for v in legal if v.host == chosen)
        assert all(v.free_memory_mb <= best.free_memory_mb for v in legal)


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
