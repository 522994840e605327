"""What `placement_responses` remembers of requests in flight: bounded, and never a wrong time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from uuid import UUID

import pytest

from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.history import events
from samza_dagster.orchestration.history.events import (
    LONGEST_MS,
    HistoryCursor,
    InFlight,
    OpenRequest,
    patience_ms,
)

pytestmark = pytest.mark.unit
BEGIN_MS = 1_700_000_000_000
WAYS = (StatusCode.ACCEPTED, StatusCode.IN_PROGRESS, StatusCode.IN_PROGRESS)


def response(
    number: int, after_ms: int = 0, status: StatusCode = StatusCode.IN_PROGRESS, text: str = "m"
) -> PlacementResponse:
    return PlacementResponse(
        uuid=uuid(number),
        deployment_id="d",
        processor_id=str(number),
        destination_host="h",
        status_code=status,
        timestamp=BEGIN_MS + after_ms,
        response_message=text,
    )


def uuid(number: int) -> str:
    return str(UUID(int=random.Random(number).getrandbits(128)))


def kept(flight: InFlight) -> InFlight:
    """What the next tick finds of it in the cursor."""
    text = HistoryCursor("demo/1", 0, 0, flight).bounded().to_text()
    assert len(text) <= events.MOST_BYTES
    cursor = HistoryCursor.read(text, "demo/1")
    assert cursor is not None
    return cursor.flight


def three_each(numbers: Iterable[int]) -> InFlight:
    """Accepted, begun and stopped, each on a host with a long name."""
    host = "host-{}.prod.dc1.example.com"
    return InFlight().seen(
        response(n, 7 * n + 900 * step, status, f"{step} {host.format(n % 500)}")
        for step, status in enumerate(WAYS)
        for n in numbers
    )


def test_three_thousand_requests_in_flight_are_kept_whole() -> None:
    flight = three_each(range(3_000)).with_named([uuid(1)])
    assert kept(flight) == flight


def test_of_a_request_that_found_no_room_the_time_is_unknown() -> None:
    """Its later statuses are no beginning; nor may be what is first read of any other for a day."""
    flight = kept(three_each(range(3_100)))
    assert sorted(flight.requests) == sorted(map(uuid, range(100, 3_100)))
    later = (0, 9_000_000), (9_998, 9_000_000), (9_999, 9_000_000 + LONGEST_MS)
    flight = flight.seen(response(*one) for one in later)
    whole = {n: flight.requests[uuid(n)].whole for n in (0, 500, 9_998, 9_999)}
    assert whole == {0: False, 500: True, 9_998: False, 9_999: True}


def test_long_messages_of_many_requests_leave_the_cursor_bounded() -> None:
    """Of statuses that can't be compressed fewer requests are kept."""
    noise = random.Random(1)
    flight = InFlight().seen(
        response(n, step, text=f"{noise.getrandbits(4_000):x}")
        for step in range(3)
        for n in range(1_000)
    )
    assert 0 < len(kept(flight).requests) < 1_000


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
    action = OpenRequest(uuid(1), "d", "0", "h", stage, "place", BEGIN_MS, expiry_ms)
    assert patience_ms(action, 600_000) == patience_s * 1_000
