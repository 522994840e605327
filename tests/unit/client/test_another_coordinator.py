"""Another kind of coordinator fits by what it can: nothing asks who it is."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from samza_dagster.client import JobView, PlacementClient
from samza_dagster.client.signs_of_life import known_life
from samza_dagster.errors import Refused
from samza_dagster.model import capabilities as known
from samza_dagster.model.capabilities import COORDINATORS, Capabilities
from samza_dagster.orchestration.config import MoveWithStandbyConfig
from samza_dagster.orchestration.plans.decisions import move_with_standby
from samza_dagster.orchestration.policies import PlacementPolicies
from tests.rig.standalone_job import StandaloneJob

pytestmark = pytest.mark.unit


class OtherJob(StandaloneJob):
    """The group in memory, coordinated by somebody that `COORDINATORS` has one entry more for."""

    def reader(self):
        made = super().reader()
        of_group = made.view

        def view(job_name: str, job_id: str, now_ms: int) -> JobView:
            return replace(of_group(job_name, job_id, now_ms), coordinator="other", members={})

        made.view = view  # type: ignore[method-assign]
        return made


def other(monkeypatch: pytest.MonkeyPatch, **can: bool) -> PlacementClient:
    """A client of a coordinator that can nothing but what is named."""
    kind = Capabilities(**{f.name: can.get(f.name, False) for f in fields(Capabilities)})
    monkeypatch.setitem(known.COORDINATORS, "other", kind)
    return PlacementClient(OtherJob().access())


def test_it_is_asked_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own name, in every document."""
    client = other(monkeypatch, knows_all_hosts=True)
    assert client.plan("P 0", "host-c").coordinator == "other"
    asked = client.place("P 0", "host-c")
    assert client.wait(asked.uuid, timeout_s=5).status_code.is_terminal


def test_what_it_has_no_request_for_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as if Samza's AM were there."""
    with pytest.raises(Refused) as refused:
        other(monkeypatch).start_standby("P 0")
    assert refused.value.seen == "the coordinator is other"


@pytest.mark.parametrize("swaps", [True, False])
def test_a_move_with_its_standby_is_one_request_where_it_swaps(
    monkeypatch: pytest.MonkeyPatch, swaps: bool
) -> None:
    """Else two, by hosts that are named."""
    client = other(monkeypatch, has_standby_destination=swaps)
    config = MoveWithStandbyConfig(processor="P 0")
    plan = move_with_standby(client.view(), config, PlacementPolicies(), ())
    assert plan.destination == ("STANDBY" if swaps else "host-b")


@pytest.mark.parametrize("shows", [True, False])
def test_signs_of_life_are_looked_for_where_it_shows_none(
    monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    """A coordinator that shows its own needs nobody's word."""
    view = other(monkeypatch, shows_its_life=shows, tells_what_runs=shows).view()
    assert (known_life(view) is None) is shows


def test_a_coordinator_that_nobody_knows_can_what_samzas_am_can() -> None:
    """The fewest."""
    assert known.capabilities("nobody") == COORDINATORS["samza"]
    assert not any(getattr(COORDINATORS["samza"], f.name) for f in fields(Capabilities))
