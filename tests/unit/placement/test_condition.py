"""Whether a job counts as deployed, and what keeps the rest of it from running."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.coordinator.status import Processes, status_document
from samza_dagster.placement.condition import degraded, is_deployed, paused_for_ms
from samza_dagster.placement.state import JobState, Phase
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit


def told(state: JobState) -> dict[str, object]:
    return status_document(state, Processes(), leader_epoch=1, counters={}, now_ms=state.now_ms)


def shown(world: Scene) -> dict[str, object]:
    return told(world.state)


def test_a_job_counts_as_deployed_when_all_actives_and_all_standbys_run() -> None:
    """A standby's failure weighs as much; a job of nothing isn't deployed."""
    world = running(limits=QUICK)
    assert is_deployed(world.state.groups.values())
    assert (shown(world)["deployed"], shown(world)["degraded"]) == (True, {})
    assert not is_deployed(())
    world.crash("0-0")
    world.until(lambda: world.phases()["0-0"] is not Phase.RUNNING)
    assert not is_deployed(world.state.groups.values())
    assert shown(world)["deployed"] is False


def test_what_is_to_be_removed_is_not_waited_for() -> None:
    """A standby that isn't wanted any more may be in any phase; a job of such alone isn't deployed."""
    group = running(limits=QUICK).state.groups["0"]
    leaving = replace(group.processors["0-0"], phase=Phase.STOPPING, wanted=False)
    assert is_deployed([replace(group, processors={**group.processors, "0-0": leaving})])
    assert not is_deployed([replace(group, processors={"0-0": leaving})])


@pytest.mark.parametrize("phase", Phase)
def test_only_what_waits_is_paused(phase: Phase) -> None:
    """What a pause was for has begun by now."""
    processor = running(limits=QUICK).processor("0-0")
    told = paused_for_ms(replace(processor, phase=phase, not_before_ms=7), 4)
    assert told == (3 if phase is Phase.WAITING else None)


def test_what_has_no_place_is_named_with_why() -> None:
    """Room that is asked for, a pause with how long it lasts, or a turn that is waited for."""
    world = running(limits=QUICK)
    group, now_ms = world.state.groups["0"], world.state.now_ms
    standby = replace(group.processors["0-0"], phase=Phase.WAITING, incarnation=None)

    def why(**changes: object) -> dict[str, str]:
        changed = replace(standby, **changes)  # type: ignore[arg-type]
        processors = {**group.processors, "0-0": changed}
        return degraded([replace(group, processors=processors)], world.state.limits, now_ms)

    paused = replace(standby, not_before_ms=now_ms + 2_500)
    assert paused_for_ms(paused, now_ms) == 2_500
    assert paused_for_ms(paused, now_ms + 2_500) is None
    assert why(not_before_ms=now_ms + 2_500) == {"0-0": "its last try failed: paused for 2.5 s"}
    failures = (now_ms,) * (world.state.limits.retry_count + 1)
    assert why(not_before_ms=now_ms + 30_000, failed_at_ms=failures) == {
        "0-0": "it flaps: paused for 30.0 s"
    }
    assert why() == {"0-0": "it waits for its turn, or for a legal host with room"}
    assert why(wanted=False) == {}


def test_a_request_for_room_is_told_with_its_host() -> None:
    """As after a death with its host full."""
    world = running(limits=QUICK)
    world.crash("0-0")
    world.until_phase("0-0", Phase.REQUESTING)
    request = world.processor("0-0").request
    assert request is not None
    assert shown(world)["degraded"] == {
        "0-0": f"room is asked for on {request.host or 'any legal host'}"
    }


def test_queued_requests_are_listed_also_without_an_action() -> None:
    """A group may wait for another group's turn."""
    world = running(limits=QUICK)
    group = world.state.groups["0"]
    queued = replace(group, queue=(ask("0", "host-3", uuid="u7"),))
    document = told(replace(world.state, groups=world.state.groups.insert("0", queued)))
    assert document["actions"] == {}
    assert document["queued"] == [{"uuid": "u7", "processor_id": "0", "destination": "host-3"}]
