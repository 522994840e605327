"""Where a standby goes when its active takes its host: pure decisions over the client's views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.views import HostView, JobView, ProcessorView
from samza_dagster.errors import Refused
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.config import (
    MoveViaNewStandbyConfig,
    MoveWithStandbyConfig,
    PlacementConfig,
)
from samza_dagster.orchestration.plans import decisions
from samza_dagster.orchestration.plans.move import (
    find_processor,
    host_for_standby,
    host_map,
    standby_for,
)
from samza_dagster.orchestration.policies import PlacementPolicies
from tests.rig.job_views import job_view

pytestmark = pytest.mark.unit


def job(at: dict[str, str | None], hosts: dict[str, int | None], lost: str = "") -> JobView:
    state = {lost: "lost"}
    there = [HostView(h, state.get(h, "alive"), free_memory_mb=mb) for h, mb in hosts.items()]
    return job_view(at, there, container_memory_mb=300)


DEMO = job(
    {"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"},
    {"host-1": 900, "host-2": 400, "host-3": 900, "host-4": 400},
)


@given(
    places=st.lists(st.sampled_from(["h1", "h2", "h3", "h4", "h5"]), min_size=5, max_size=5),
    free=st.lists(st.one_of(st.none(), st.integers(0, 1000)), min_size=5, max_size=5),
    lost=st.sampled_from(["", "h1", "h2", "h3", "h4", "h5"]),
)
def test_a_chosen_host_breaks_no_rule(places: list[str], free: list[int | None], lost: str) -> None:
    """Never the source, the destination, a lost host or one with a member of the group."""
    view = job(
        dict(zip(["0", "0-0", "0-1", "1", "1-0"], places, strict=True)),
        dict(zip(["h1", "h2", "h3", "h4", "h5"], free, strict=True)),
        lost,
    )
    source, destination = places[0], places[1]
    taken = {p.host for p in view.processors.values() if group_of(p.processor_id) == "0" and p.host}
    legal = set(view.hosts) - taken - {lost}
    if not legal:
        with pytest.raises(Refused):
            host_for_standby(view, "0-0", source, destination)
        return
    assert host_for_standby(view, "0-0", source, destination) in legal


def test_the_emptier_host_wins_at_equal_memory() -> None:
    """Most free memory first, then fewest containers, then the name."""
    view = job(
        {"0": "h1", "0-0": "h2", "1": "h3"}, {"h1": 0, "h2": 0, "h3": 500, "h4": 500, "h5": 500}
    )
    assert host_for_standby(view, "0-0", "h1", "h2") == "h4"


def test_a_host_without_room_is_the_last_resort() -> None:
    """One that doesn't say is taken before one that says it is full."""
    view = job({"0": "h1", "0-0": "h2"}, {"h1": 0, "h2": 0, "h3": 100, "h4": None})
    assert host_for_standby(view, "0-0", "h1", "h2") == "h4"


def test_hosts_of_the_component_bound_the_choice() -> None:
    """The refusal names the rule."""
    assert host_for_standby(DEMO, "0-0", "host-1", "host-3", ["host-4"]) == "host-4"
    with pytest.raises(Refused, match="host-2 isn't among the component's hosts"):
        host_for_standby(DEMO, "0-0", "host-1", "host-3", ["host-9"])


def test_a_running_standby_is_taken_before_one_that_is_not() -> None:
    """Its state is warm now."""
    view = job({"0": "h1", "0-0": "h2", "0-1": "h3"}, {"h1": 1, "h2": 1, "h3": 1})
    stopped = ProcessorView("0-0", TaskMode.STANDBY, "starting", "h2")
    mixed = replace(view, processors={**view.processors, "0-0": stopped})
    active = mixed.processors["0"]
    assert standby_for(mixed, active, None).processor_id == "0-1"
    assert standby_for(mixed, active, "0-0").processor_id == "0-0"


@pytest.mark.parametrize(
    ("processor", "wanted", "fix"),
    [("0-0", None, "processor 0"), ("2", None, "move_container"), ("0", "0-9", "move_container")],
)
def test_a_move_without_a_usable_standby_is_refused(
    processor: str, wanted: str | None, fix: str
) -> None:
    """A standby isn't moved so, and without one there is another job."""
    two = ProcessorView("2", TaskMode.ACTIVE, "running", "host-1")
    view = replace(DEMO, processors={**DEMO.processors, "2": two})
    with pytest.raises(Refused, match=fix):
        standby_for(view, view.processors[processor], wanted)


@pytest.mark.parametrize(
    ("decide", "config", "seen"),
    [
        (
            decisions.move_via_new_standby,
            MoveViaNewStandbyConfig(processor="0-0"),
            "0-0 is a standby",
        ),
        (
            decisions.move_with_standby,
            MoveWithStandbyConfig(processor="0", destination="host-1"),
            "0 is on host-1",
        ),
    ],
)
def test_a_move_of_a_standby_for_an_active_and_one_to_where_it_is_are_refused(
    decide: Callable[..., object], config: PlacementConfig, seen: str
) -> None:
    """Before a standby is started, or leaves, for nothing."""
    view = replace(DEMO, coordinator="samza_dagster")
    with pytest.raises(Refused, match=seen):
        decide(view, config, PlacementPolicies(), [])


def test_an_unknown_processor_is_refused_with_those_that_exist() -> None:
    """The next try is right."""
    with pytest.raises(Refused, match="0, 0-0, 1, 1-0"):
        find_processor(DEMO, "00")


def test_the_map_has_hosts_without_containers_and_containers_on_unknown_hosts() -> None:
    """What isn't expected is what an operator looks for."""
    view = job({"0": "elsewhere", "1": None}, {"host-1": 1})
    assert [(r.host, r.state, r.containers) for r in host_map(view)] == [
        ("elsewhere", "unknown", ("0 active running",)),
        ("host-1", "alive", ()),
    ]
