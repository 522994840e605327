"""The batches that `placement_responses` goes through. Pure."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client import ActionView
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.history import next_batch, patience_ms

pytestmark = pytest.mark.unit
STATUSES = list(StatusCode)


def response(number: int, status: StatusCode) -> PlacementResponse:
    return PlacementResponse(
        uuid=str(UUID(int=number)),
        deployment_id="d",
        processor_id="0",
        destination_host="h",
        status_code=status,
        timestamp=1,
        response_message="m",
    )


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from(STATUSES)), max_size=60),
    st.integers(1, 7),
)
def test_batches_lose_nothing_and_repeat_nothing_within_one(
    written: list[tuple[int, StatusCode]], most: int
) -> None:
    """All batches together hold every request that ended; each is bounded."""
    stream = [(at, response(n, status)) for at, (n, status) in enumerate(written)]
    position, found = 0, list[str]()
    while position < len(stream):
        batch = next_batch(stream[position:], len(stream), most)
        uuids = [r.uuid for _, r in batch.outcomes]
        assert len(set(uuids)) == len(uuids) <= most
        assert batch.next_position > position
        found += uuids
        position = batch.next_position
    assert set(found) == {r.uuid for _, r in stream if r.status_code.is_terminal}


@pytest.mark.parametrize(
    ("stage", "expiry_s", "patience_s"),
    [
        ("reserving", None, 600),
        ("reserving", 120, 125),
        ("reserving-standby", 120, 125),
        ("held", 3_600, 7_205),
        ("queued", 120, 600),
        ("stopping", 120, 600),
        ("starting", 3_600, 3_600),
        ("in_progress", 30, 35),
    ],
)
def test_how_long_a_request_may_take_is_by_its_own_time_out_where_that_is_what_it_waits_for(
    stage: str, expiry_s: int | None, patience_s: int
) -> None:
    """A stop or a start isn't bounded by it, so the policy's time is for these."""
    expiry_ms = None if expiry_s is None else expiry_s * 1_000
    action = ActionView(str(UUID(int=1)), "0", "h", stage, 1, expiry_ms=expiry_ms)
    assert patience_ms(action, 600_000) == patience_s * 1_000
