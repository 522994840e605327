"""A client's verdicts are the coordinator's: by the same rules, in the same words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.checks import legal_destination
from samza_dagster.client.job_view import view_of_stream, with_state
from samza_dagster.client.own_checks import check_start_standby
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.client.verdicts import judge_all
from samza_dagster.client.views import ActionView, HostView, JobView, ProcessorView
from samza_dagster.errors import Refused
from samza_dagster.model import TaskMode
from samza_dagster.placement import rules
from samza_dagster.placement.explain import explain
from samza_dagster.placement.state import (
    Ended,
    Group,
    Host,
    Incarnation,
    Orphan,
    Phase,
    PlacementAsk,
    Processor,
    Role,
)

pytestmark = pytest.mark.unit
NAMES = [f"h{n}" for n in range(1, 6)]
RACKS = {"h1": "A", "h2": "A", "h3": "B", "h4": "B", "h5": ""}


def view_of(group: Group, hosts: dict[str, Host]) -> JobView:
    """What a client makes of the state that the coordinator has recorded."""
    stream = view_of_stream(
        "demo",
        "1",
        config={},
        task_containers={},
        task_modes={},
        localities={},
        requests={},
        responses={},
        now_ms=1,
    )
    seen = {
        name: HostView(name, "alive" if host.alive else "lost", fault_domain=host.fault_domain)
        for name, host in hosts.items()
    }
    return with_state(stream, CoordinatorState("run-1", groups={"0": group}, hosts=seen), 1)


def member(pid: str, host: str | None, phase: Phase = Phase.RUNNING) -> Processor:
    role = Role.STANDBY if "-" in pid else Role.ACTIVE
    there = None if host is None else Incarnation(1, f"{pid}-e1", host, "r")
    return Processor(pid, role, phase, there)


@st.composite
def groups(draw: st.DrawFn) -> tuple[Group, dict[str, Host]]:
    """Up to three members anywhere, orphans of theirs, racks as they come."""
    hosts = {
        name: Host(name, draw(st.booleans()), fault_domain=draw(st.sampled_from(["", "A", "B"])))
        for name in NAMES
    }
    somewhere = st.sampled_from(NAMES)
    members = {
        pid: member(pid, draw(st.none() | somewhere), draw(st.sampled_from(list(Phase))))
        for pid in ["0", "0-0", "0-1"][: draw(st.integers(1, 3))]
    }
    orphans = tuple(
        Orphan(
            draw(st.sampled_from(sorted(members))),
            Incarnation(1, f"old-{number}", draw(somewhere), "r"),
            1,
            None,
            True,
            ended=draw(st.none() | st.sampled_from(list(Ended))),
            elsewhere=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 2)))
    )
    return Group("0", members, orphans=orphans), hosts


@given(groups())
def test_a_host_is_legal_for_a_client_when_it_is_for_the_coordinator(
    given_group: tuple[Group, dict[str, Host]],
) -> None:
    """Same host, same fault domain, orphans; and of a fault domain the words are the coordinator's."""
    group, hosts = given_group
    view = view_of(group, hosts)
    for pid in group.processors:
        for verdict in judge_all(view, view.processors[pid]):
            broken = rules.violation(group, hosts, pid, verdict.host)
            assert verdict.legal is (broken is None)
            if broken is not None and broken.rule == rules.SAME_DOMAIN:
                assert (verdict.rule, verdict.seen, verdict.fix) == (
                    broken.rule,
                    broken.seen,
                    broken.change,
                )


@given(groups())
def test_a_standbys_place_is_refused_in_the_words_of_the_coordinator(
    given_group: tuple[Group, dict[str, Host]],
) -> None:
    """For an active that runs, with nothing under way; a legal one is left to the coordinator."""
    group, hosts = given_group
    active = member("0", "h1")
    group = group.evolve(processors={**group.processors, "0": active})
    view = view_of(group, hosts)
    assert view.state is not None
    said = explain(view.state, "0", "STANDBY")
    if said.legal or not any("-" in pid and p.incarnation for pid, p in group.processors.items()):
        return  # whether the standby has where to go, and whether there is one, is asked apart
    with pytest.raises(Refused) as refused:
        legal_destination(view, view.processors["0"], "STANDBY")
    for candidate in said.candidates:
        assert candidate.seen in refused.value.seen
        assert candidate.change in refused.value.fix


def test_a_standby_that_starts_is_no_destination_for_a_client_either() -> None:
    """What the coordinator would answer, before anything is written; a busy group waits."""
    standby = member("0-0", "h3", Phase.STARTING)
    group = Group("0", {"0": member("0", "h1"), "0-0": standby})
    hosts = {name: Host(name) for name in NAMES}
    view = view_of(group, hosts)
    with pytest.raises(Refused) as refused:
        legal_destination(view, view.processors["0"], "STANDBY")
    assert refused.value.asked == "place 0 --to STANDBY: standby-runs"
    assert (refused.value.seen, refused.value.fix) == (
        "0-0 on h3 is starting",
        "wait until 0-0 runs",
    )
    asked = PlacementAsk("u1", "run-1", "0-0", "LAST_SEEN", 1)
    waiting = view_of(group.evolve(queue=(asked,)), hosts)
    notices = legal_destination(waiting, waiting.processors["0"], "STANDBY").notices
    assert any("0-0 on h3 is starting" in notice for notice in notices)
    assert "state" not in view.to_json()


def in_racks(at: dict[str, str], **changes: Any) -> JobView:
    processors = {
        pid: ProcessorView(pid, TaskMode.STANDBY if "-" in pid else TaskMode.ACTIVE, "running", h)
        for pid, h in at.items()
    }
    fields: dict[str, Any] = {
        "job_name": "demo",
        "job_id": "1",
        "deployment_id": "run-1",
        "processors": processors,
        "hosts": {n: HostView(n, "alive", fault_domain=rack) for n, rack in RACKS.items()},
        "coordinator": "samza_dagster",
    }
    return JobView(**{**fields, **changes})


def test_a_host_of_another_members_rack_is_refused_before_anything_is_written() -> None:
    """As the coordinator would answer; and those that are legal are named."""
    view = in_racks({"0": "h1", "0-0": "h3"})
    with pytest.raises(Refused) as refused:
        legal_destination(view, view.processors["0-0"], "h2")
    assert refused.value.asked == "place 0-0 --to h2: same-fault-domain"
    assert refused.value.seen == (
        "h2 is in fault domain A as h1 is, and 0 of the same group is running on h1"
    )
    assert refused.value.fix == ("name a host of another fault domain than A; or one of h3, h4, h5")


def test_a_peer_that_leaves_the_rack_first_is_left_to_the_coordinator() -> None:
    """One that stays in it isn't."""
    away, about = (ActionView(f"u-{to}", "0", to, "reserving", 1) for to in ("h5", "h2"))
    standby = in_racks({"0": "h1", "0-0": "h3"}).processors["0-0"]
    leaves = in_racks({"0": "h1", "0-0": "h3"}, actions=(away,))
    notices = legal_destination(leaves, standby, "h2").notices
    assert any("an action that comes first moves it" in notice for notice in notices)
    stays = in_racks({"0": "h1", "0-0": "h3"}, actions=(about,))
    with pytest.raises(Refused, match="same-fault-domain"):
        legal_destination(stays, standby, "h2")


def test_a_swap_needs_a_place_for_the_standby_beside_its_active() -> None:
    """One in the rack that it leaves is legal, as it is for the coordinator: two racks are enough."""
    view = in_racks({"0": "h1", "0-0": "h3"})
    two = {name: host for name, host in view.hosts.items() if name != "h5"}
    view = in_racks({"0": "h1", "0-0": "h3"}, hosts=two)
    assert legal_destination(view, view.processors["0"], "STANDBY").host == "h3"
    alone = {name: host for name, host in two.items() if name != "h4"}
    view = in_racks({"0": "h1", "0-0": "h3"}, hosts=alone)
    with pytest.raises(Refused, match="the standby needs a new host first"):
        legal_destination(view, view.processors["0"], "STANDBY")


def test_one_more_standby_goes_to_a_rack_that_has_none_of_its_group() -> None:
    """By name, or any host."""
    view = in_racks({"0": "h1", "0-0": "h3"})
    assert check_start_standby(view, "0", "h5")
    with pytest.raises(Refused, match="h4 is in fault domain B as h3 is"):
        check_start_standby(view, "0", "h4")
    two = {name: host for name, host in view.hosts.items() if name != "h5"}
    with pytest.raises(Refused, match="no host is legal"):
        check_start_standby(in_racks({"0": "h1", "0-0": "h3"}, hosts=two), "0", "ANY_HOST")


def test_a_host_that_another_of_the_group_has_reserved_is_told_with_the_request() -> None:
    """Nothing forbids the request, but it waits, and then the host is taken."""
    held = ActionView("u-1", "0-0", "h5", "held", 1, reserved_host="h5")
    view = in_racks({"0": "h1", "0-0": "h3"}, actions=(held,))
    verdicts = {v.host: v for v in judge_all(view, view.processors["0"])}
    assert verdicts["h5"].legal
    assert not verdicts["h5"].ready
    assert "0-0 of the same group has reserved h5 (held, u-1)" in verdicts["h5"].seen
    assert verdicts["h2"].ready
    own = {v.host: v for v in judge_all(view, view.processors["0-0"])}
    assert own["h5"].ready, "its own reservation is in nobody's way"
