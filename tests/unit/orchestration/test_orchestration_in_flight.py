"""What `placement_responses` remembers of requests in flight: bounded, and never a wrong time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.history import in_flight as module
from samza_dagster.orchestration.history.asked import OpenRequest
from samza_dagster.orchestration.history.in_flight import InFlight, patience_ms

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


def read_again(known: InFlight) -> InFlight:
    return InFlight.of(json.loads(json.dumps(known.to_json())))


def three_each(numbers: Iterable[int]) -> InFlight:
    """Accepted, begun and stopped, each on a host with a long name."""
    host = "host-{}.prod.dc1.example.com"
    return InFlight().seen(
        response(n, 7 * n + 900 * step, status, f"{step} {host.format(n % 500)}")
        for step, status in enumerate(WAYS)
        for n in numbers
    )


def test_three_thousand_requests_in_flight_are_kept_whole_in_a_bounded_cursor() -> None:
    """First and last statuses of each; a thousand have all of theirs in 60 kB."""
    known = three_each(range(3_000))
    kept = read_again(known.bounded())
    assert len(json.dumps(kept.to_json())) < 1.01 * module.MOST_BYTES
    assert len(kept.statuses) == 3_000
    assert all(kept.is_whole(u) and s[0] == known.statuses[u][0] for u, s in kept.statuses.items())
    thousand = three_each(range(1_000))
    assert read_again(thousand.bounded()) == thousand
    assert len(json.dumps(thousand.to_json())) < 60_000


def test_of_a_request_that_found_no_room_the_time_is_unknown() -> None:
    """Its later statuses are no beginning; once it has ended nothing is left of it."""
    known = three_each(range(3_100)).bounded()
    gone = [n for n in range(3_100) if uuid(n) not in known.statuses]
    assert gone == list(range(100))
    known = read_again(known).seen([response(0, 9_000_000), response(9_999, 9_000_000)])
    assert not known.is_whole(uuid(0))
    assert known.is_whole(uuid(9_999))
    assert known.is_whole(uuid(500))
    assert not known.ended(map(uuid, range(3_100))).forgotten


def test_where_even_the_forgotten_are_too_many_every_new_time_is_unknown_for_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is first read then may have begun before; what was known stays known."""
    monkeypatch.setattr(module, "MOST_REQUESTS", 20)
    monkeypatch.setattr(module, "MOST_FORGOTTEN", 10)
    known = InFlight().seen(response(n, 60_000 * n) for n in range(20)).bounded()
    known = read_again(known.seen(response(n, 60_000 * n) for n in range(20, 50)).bounded())
    day_ms = module.LONGEST_MS
    later = known.seen(
        [response(3, 3_100_000), response(77, 3_200_000), response(78, 3_200_000 + day_ms)]
    )
    assert not later.is_whole(uuid(3))  # forgotten, and its mark too
    assert not later.is_whole(uuid(77))
    assert later.is_whole(uuid(78))
    assert later.is_whole(uuid(40))


def test_long_messages_of_many_requests_leave_the_cursor_bounded() -> None:
    """Of statuses that can't be packed fewer requests are kept."""
    noise = random.Random(1)
    known = InFlight().seen(
        response(n, step, text=f"{noise.getrandbits(4_000):x}")
        for step in range(3)
        for n in range(600)
    )
    kept = known.bounded()
    assert len(json.dumps(kept.to_json())) < 1.1 * module.MOST_BYTES
    assert kept.statuses
    assert len(kept.statuses) + len(kept.forgotten) == 600


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(-9, 9), st.sampled_from(StatusCode), st.text(max_size=5)
        )
    )
)
def test_what_was_packed_is_read_again(
    told: list[tuple[int, int, StatusCode, str]],
) -> None:
    """Any order of statuses and times, any text."""
    known = InFlight().seen(response(*one) for one in told).with_named([uuid(1), uuid(2)])
    assert read_again(known) == known


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [],
        {"packed": "x"},
        {"packed": "eJwDAA==", "named": "", "forgotten": "", "blind": []},
    ],
)
def test_what_cannot_be_read_is_nothing(value: object) -> None:
    """A sensor never dies of its own past."""
    assert InFlight.of(value) == InFlight()


def test_what_an_older_release_kept_is_read() -> None:
    """Statuses and names as they were, neither packed."""
    older = {"statuses": {uuid(1): [["ACCEPTED", "m", 5]]}, "named": {uuid(2): 7}}
    known = InFlight.of(older)
    assert known.statuses == {uuid(1): (("ACCEPTED", "m", 5),)}
    assert known.is_named(uuid(2))


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
