"""What is stopped must be able to start again."""

from __future__ import annotations

import pytest

from samza_dagster.placement.commands import DeleteRequest, StopContainer, WriteResponse
from samza_dagster.placement.events import JobDeployed, RequestArrived
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState, Limits, PlacementAsk

pytestmark = pytest.mark.unit


def test_a_request_is_refused_while_no_container_could_start() -> None:
    """BAD_REQUEST with the reason, taken off the stream, nothing queued and nothing stopped."""
    deployed = step(JobState("job-1"), JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    ask = PlacementAsk("u", "d", "0", "LAST_SEEN", 2)
    after = step(deployed.state, RequestArrived(3, ask, "offset 7: a key that is no JSON array"))
    responses = [c for c in after.commands if isinstance(c, WriteResponse)]
    assert [r.status for r in responses] == ["BAD_REQUEST"]
    assert "offset 7" in responses[0].message
    assert DeleteRequest("u") in after.commands
    assert not [c for c in after.commands if isinstance(c, StopContainer)]
    assert after.state.groups["0"].queue == ()
