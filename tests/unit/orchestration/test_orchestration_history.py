"""The batches that `placement_responses` goes through. Pure."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.history.events import next_batch

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
