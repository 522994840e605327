"""Whoever chooses a host keeps a group's members in different fault domains, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.legal_hosts import Placing
from samza_dagster.client.views import HostView, JobView
from samza_dagster.errors import Refused
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units
from samza_dagster.orchestration.plans.move import host_for_standby
from samza_dagster.orchestration.plans.units import NEW, Kind, Unit
from tests.rig import lags as rig
from tests.rig.job_views import job_view

pytestmark = pytest.mark.unit
RACKS = {"h1": "A", "h2": "A", "h3": "B", "h4": "B"}
THREE = {**RACKS, "h5": "C"}
NAMES = [f"h{n}" for n in range(6)]


def job(at: dict[str, str], racks: dict[str, str]) -> JobView:
    hosts = [HostView(h, "alive", 8_000, 4_000, fault_domain=rack) for h, rack in racks.items()]
    ours = {"coordinator": "samza_dagster", "max_standbys": 4}
    return job_view(at, hosts, container_memory_mb=300, **ours)


def carried_out(view: JobView, units: tuple[Unit, ...] | list[Unit]) -> dict[str, str]:
    """Where everybody is in the end; each step is held against the reducer's rules of its moment."""
    placing = Placing(view)
    at = {p: str(known.host) for p, known in view.processors.items()}
    for number, unit in enumerate(units):
        new = f"{unit.group_id}-{90 + number}"
        for step in unit.steps:
            pid = new if step.processor == NEW else step.processor
            if step.kind is Kind.STOP_STANDBY:
                del at[pid]
                placing.put(pid, None)
            elif step.destination:
                pid = new if step.kind is Kind.START_STANDBY else pid
                assert placing.violation(pid, step.destination) is None, (unit, step)
                at[pid] = step.destination
                placing.put(pid, step.destination)
    return at


@st.composite
def placements(draw: st.DrawFn) -> tuple[JobView, dict[str, str]]:
    """Up to five groups on six hosts in some racks, each group as the rules have it."""
    racks = {name: draw(st.sampled_from(["", "A", "B", "C", "D"])) for name in NAMES}
    placing = Placing(job({}, racks))
    at: dict[str, str] = {}
    for group in range(draw(st.integers(1, 5))):
        for number in range(draw(st.integers(1, 3))):
            pid = str(group) if number == 0 else f"{group}-{number - 1}"
            legal = sorted(set(NAMES) - placing.forbidden(pid))
            if legal:
                at[pid] = draw(st.sampled_from(legal))
                placing.put(pid, at[pid])
    return job(at, racks), racks


@given(placements(), st.data())
def test_no_step_of_a_drain_breaks_a_rule_of_the_coordinator(
    given_job: tuple[JobView, dict[str, str]], data: st.DataObject
) -> None:
    """Or it is refused as a whole."""
    view, _ = given_job
    lags = {p: data.draw(st.sampled_from([0, 900])) for p in view.processors}
    cold = data.draw(st.booleans())
    try:
        units = drain_units(view, "h0", *rig.lags(lags, 100), DrainRules(cold=cold))
    except Refused:
        return
    assert "h0" not in carried_out(view, units).values()


def test_in_two_racks_an_active_leaves_cold_or_the_refusal_says_so() -> None:
    """No place is left for its standby to give way to."""
    view, known = job({"0": "h1", "0-0": "h3"}, RACKS), rig.lags({"0": 0, "0-0": 0}, 10)
    with pytest.raises(Refused) as refused:
        drain_units(view, "h1", *known, DrainRules())
    assert "h4 is in fault domain B as h3 is" in refused.value.seen
    assert refused.value.fix.endswith("nor one in its fault domain; or cold: true")
    (unit,) = drain_units(view, "h1", *known, DrainRules(cold=True))
    assert (unit.what, unit.steps[0].destination) == ("move", "h2")
    assert "no legal host to give way to" in unit.why


def test_a_standby_that_makes_room_stays_out_of_both_racks_of_its_active() -> None:
    """Refused where there is no third one, in the coordinator's words."""
    view = job({"0": "h1", "0-0": "h3"}, THREE)
    assert host_for_standby(view, "0-0", "h1", "h3", makes_room=True) == "h5"
    with pytest.raises(Refused, match="h4 is in fault domain B as h3 is, and 0 of the same group"):
        host_for_standby(job({"0": "h1", "0-0": "h3"}, RACKS), "0-0", "h1", "h3", makes_room=True)
