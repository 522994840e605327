"""How a host is emptied: who leaves how, where to, in what order; and when it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from samza_dagster.client.views import HostView, JobView
from samza_dagster.errors import Refused
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.operations.schedule import (
    Position,
    UnitStatus,
    what_next,
)
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units
from samza_dagster.orchestration.plans.order import Batch, Schedule
from samza_dagster.orchestration.plans.units import Kind, Unit
from tests.rig import lags as rig
from tests.rig.job_views import job_view

pytestmark = pytest.mark.unit
NAMES = [f"h{n}" for n in range(6)]


def job(
    at: dict[str, str], free: dict[str, int | None], memory: int | None = 300, most: int | None = 4
) -> JobView:
    hosts = [HostView(h, "alive", free_memory_mb=mb) for h, mb in free.items()]
    ours = {"coordinator": "samza_dagster", "max_standbys": most}
    return job_view(at, hosts, container_memory_mb=memory, **ours)


@st.composite
def placements(draw: st.DrawFn) -> tuple[JobView, rig.Lags]:
    """A legal job of up to six groups on six hosts, with any room and any lags."""
    at: dict[str, str] = {}
    lags: dict[str, int | None] = {}
    for group in range(draw(st.integers(1, 6))):
        hosts = draw(st.permutations(NAMES))[: draw(st.integers(1, 3))]
        for number, host in enumerate(hosts):
            pid = str(group) if number == 0 else f"{group}-{number - 1}"
            at[pid] = host
            if draw(st.booleans()):
                lags[pid] = draw(st.one_of(st.none(), st.integers(0, 200)))
    free = {name: draw(st.sampled_from([None, 0, 299, 300, 700, 5_000])) for name in NAMES}
    return job(at, free), rig.lags(lags, 100)


def carried_out(view: JobView, units: list[Unit]) -> tuple[dict[str, str], dict[str, int]]:
    """Where everybody is in the end, and the containers that each host took at most."""
    at = {p: str(known.host) for p, known in view.processors.items()}
    taken = dict.fromkeys(view.hosts, 0)
    for unit in units:
        for step in unit.steps:
            if step.kind is Kind.PLACE:
                assert step.destination not in {
                    h for p, h in at.items() if group_of(p) == unit.group_id and p != step.processor
                }
                at[step.processor] = step.destination
            elif step.kind is Kind.START_STANDBY:
                assert step.destination not in {
                    h for p, h in at.items() if group_of(p) == unit.group_id
                }
        slot = next(s.destination for s in unit.steps if s.destination)
        taken[slot] += 1
    return at, taken


@given(placements())
def test_a_drain_empties_the_host_and_breaks_no_rule_on_the_way(
    given_job: tuple[JobView, rig.Lags],
) -> None:
    """Or it is refused as a whole: no step puts two of a group on one host, or overfills one."""
    view, known = given_job
    try:
        units = drain_units(view, "h0", *known, DrainRules())
    except Refused:
        return
    at, taken = carried_out(view, units)
    assert "h0" not in at.values()
    for name, count in taken.items():
        free = view.hosts[name].free_memory_mb
        assert free is None or count * 300 <= free
    for group in {group_of(p) for p in at}:
        hosts = [h for p, h in at.items() if group_of(p) == group]
        assert len(hosts) == len(set(hosts))
    moved = {p for p, known in view.processors.items() if at[p] != known.host}
    assert {p for p, known in view.processors.items() if known.host == "h0"} <= moved


@given(placements())
def test_a_drain_is_refused_only_when_there_is_no_way(given_job: tuple[JobView, rig.Lags]) -> None:
    """With room for everybody on a host that has none of the job, it never is."""
    view, known = given_job
    hosts = {**view.hosts, "empty": HostView("empty", "alive", free_memory_mb=100_000)}
    roomy = JobView(**{**vars(view), "hosts": hosts})
    assert drain_units(roomy, "h0", *known, DrainRules()) is not None


def test_who_has_a_choice_makes_room_for_who_has_none() -> None:
    """0-0 may go to h2 alone, 1-0 to h2 or h3: each has room for one. So does one that makes room in turn."""
    at = {"0": "h1", "0-0": "h0", "0-1": "h3", "1": "h1", "1-0": "h0"}
    view = job(at, {"h0": 0, "h1": 0, "h2": 300, "h3": 300})
    units = drain_units(view, "h0", *rig.lags({}, 0), DrainRules())
    assert {u.processor: u.steps[0].destination for u in units} == {"0-0": "h2", "1-0": "h3"}
    at = {"0": "h3", "1": "h1", "2": "h3"} | dict.fromkeys(("0-0", "1-0", "2-0"), "h0")
    view = job(at, {"h0": 0, "h1": 300, "h2": 300, "h3": 300})
    units = drain_units(view, "h0", *rig.lags({}, 0), DrainRules())
    assert [u.steps[0].destination for u in units] == ["h2", "h3", "h1"]


def test_the_refusal_names_each_host_and_what_is_missing() -> None:
    """Room for one more, of which memory, without whose group."""
    view = job({"0": "h1", "0-0": "h0", "1": "h1", "1-0": "h0"}, {"h0": 0, "h1": 900, "h2": 300})
    with pytest.raises(Refused) as refused:
        drain_units(view, "h0", *rig.lags({}, 0), DrainRules())
    assert "1-0 (relocate): h2 would be full" in refused.value.seen
    assert refused.value.fix == (
        "room for 1 more on a host that is alive with 300 MiB free and has no container of group 1"
    )


@pytest.mark.parametrize(
    ("lags", "cold", "what"),
    [
        ({"0": 0, "0-0": 5}, False, "swap"),
        ({"0": 0, "0-0": 101}, False, "via-new-standby"),
        ({"0": 0, "0-0": None}, False, "via-new-standby"),
        ({"0": 0, "0-0": 101}, True, "move"),
        ({}, False, "move"),
    ],
)
def test_how_an_active_leaves(lags: dict[str, int | None], cold: bool, what: str) -> None:
    """By a warm standby, by a new one, or as it is."""
    view = job({"0": "h0", "0-0": "h1"}, {"h0": 0, "h1": 0, "h2": 900})
    (unit,) = drain_units(view, "h0", *rig.lags(lags, 100), DrainRules(cold=cold))
    assert unit.what == what


def test_a_warm_standby_on_a_host_that_is_gone_is_no_place_to_go() -> None:
    """The host left the job, its containers are still named: another standby is spun up."""
    view = job({"0": "h0", "0-0": "left"}, {"h0": 0, "h1": 600})
    (unit,) = drain_units(view, "h0", *rig.lags({"0": 0, "0-0": 5}, 100), DrainRules())
    assert unit.what == "via-new-standby"
    assert (
        unit.why
        == "its standbys: 0-0 5 records behind on left, which is gone: one is spun up for the move"
    )
    view = job({"0": "h0", "0-0": "left"}, {"h0": 0})
    with pytest.raises(Refused, match="h0 is being drained"):
        drain_units(view, "h0", *rig.lags({"0": 0, "0-0": 5}, 100), DrainRules())


@pytest.mark.parametrize(
    "rules",
    [
        DrainRules(allowed=("h2",)),
        DrainRules(excluded=("h1",)),
        DrainRules(drained={"h1": "run-2"}),
    ],
)
def test_a_warm_standby_where_nothing_may_go_is_no_place_to_go(rules: DrainRules) -> None:
    """Whichever of the drain's rules says so: another standby is spun up."""
    view = job({"0": "h0", "0-0": "h1"}, {"h0": 0, "h1": 900, "h2": 900})
    (unit,) = drain_units(view, "h0", *rig.lags({"0": 0, "0-0": 5}, 100), rules)
    assert {step.destination for step in unit.steps if step.destination} == {"h2"}


def test_no_standby_is_spun_up_whose_lag_nobody_will_tell() -> None:
    """Without a metrics reporter; cold, it moves as it is."""
    view = replace(job({"0": "h0"}, {"h0": 0, "h1": 600}), tells_lag=False)
    with pytest.raises(Refused, match="cold: true"):
        drain_units(view, "h0", *rig.lags({"0": None}, 100), DrainRules())
    (unit,) = drain_units(view, "h0", *rig.lags({"0": None}, 100), DrainRules(cold=True))
    assert unit.what == "move"


def test_as_many_standbys_as_are_allowed_leave_no_room_for_one_more() -> None:
    """The refusal says what would help."""
    view = job({"0": "h0", "0-0": "h1"}, {"h0": 0, "h1": 0, "h2": 900}, most=1)
    with pytest.raises(Refused, match="at most 1 are allowed"):
        drain_units(view, "h0", *rig.lags({"0": 0, "0-0": 101}, 100), DrainRules())


@given(st.lists(st.integers(0, 4), min_size=1, max_size=10), st.integers(1, 4), st.integers(0, 9))
def test_a_failure_within_the_budget_ends_its_group_alone(
    groups: list[int], at_once: int, failed: int
) -> None:
    """All others get done; that its limits hold is told of the schedule itself."""
    assume(failed < len(groups))
    keys = [str(n) for n in range(len(groups))]
    order, schedule = [Batch(key, (key,)) for key in keys], Schedule("", at_once, stop_after=2)
    statuses = dict.fromkeys(keys, UnitStatus.WAITING) | {str(failed): UnitStatus.FAILED}
    at = Position(statuses, group=lambda key: str(groups[int(key)]))
    while asked := what_next(order, schedule, at, 0).ask:
        assert groups[failed] not in {groups[int(key)] for key in asked}
        statuses.update(dict.fromkeys(asked, UnitStatus.BACK))
    left = {int(key) for key in at.are(UnitStatus.WAITING)}
    assert {groups[n] for n in left} <= {groups[failed]}


@given(placements())
def test_nobody_goes_to_a_host_that_is_drained_beside(given_job: tuple[JobView, rig.Lags]) -> None:
    """Neither in a new place nor in that of a warm standby; what has no other is refused with why."""
    view, known = given_job
    rules = DrainRules(drained={"h1": "run-2"})
    try:
        drain_units(view, "h0", *known, DrainRules(excluded=("h1",)))
    except Refused:
        with pytest.raises(Refused) as refused:
            drain_units(view, "h0", *known, rules)
        lacks_a_host = "a legal host for each" in refused.value.asked
        assert not lacks_a_host or "run run-2" in refused.value.seen
        return
    units = drain_units(view, "h0", *known, rules)
    assert all(step.destination != "h1" for unit in units for step in unit.steps)
