"""What the client refuses, it refuses before anything is written, and says what would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.client import PlacementClient
from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.model import StatusCode
from samza_dagster.model.naming import group_of

pytestmark = pytest.mark.unit
AUTHOR = Author("nm3", "samza", 1_795_264_662_000)

RUN = "1795264662180-8201457e"
UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
REFUSED: list[tuple[str, str, str, dict[str, Any], tuple[str, str, str]]] = [
    ("unknown processor", "7", "host-2", {}, ("'7'", "0, 0-0, 1, 1-0", "one of")),
    ("near miss", "0-1", "host-2", {}, ("'0-1'", "0, 0-0, 1, 1-0", "did you mean")),
    ("empty processor", "", "host-2", {}, ("processor ''", "0, 0-0", "one of")),
    ("old deployment", "0", "host-2", {"deployment_id": "old"}, ("'old'", RUN, f"id {RUN}")),
    ("no deployment", "0", "host-2", {"deployment_id": " "}, ("id", "empty", "leave it out")),
    ("unknown host", "0", "hots-2", {}, ("'hots-2'", "host-1, host-2", "'host-2'")),
    ("form of a host", "0", "host 2; rm", {}, ("destination host", "host 2; rm", "ANY_HOST")),
    ("empty host", "0", "", {}, ("destination host", "''", "a host name")),
    ("onto its standby", "0", "host-3", {}, ("on one host", "0-0 is on host-3", "place 0-0 --to")),
    ("onto its active", "1-0", "host-2", {}, ("on one host", "1 is on host-2", "place 1 --to")),
    ("a standby to STANDBY", "0-0", "STANDBY", {}, ("STANDBY", "standby", "a host")),
    ("expiry 0", "0", "host-2", {"request_expiry_s": 0}, ("expiry", "0", "0.001 to 86400")),
    ("no number", "0", "host-2", {"request_expiry_s": math.nan}, ("expiry", "nan", "86400")),
    ("years", "0", "host-2", {"request_expiry_s": 1e9}, ("expiry", "1000000000", "86400")),
    ("no UUID", "0", "host-2", {"uuid": "seven"}, ("UUID", "'seven'", "place printed")),
]


@pytest.mark.parametrize("ours", [False, True], ids=["samza", "ours"])
@pytest.mark.parametrize(
    ("processor", "destination", "options", "told"),
    [case[1:] for case in REFUSED],
    ids=[case[0] for case in REFUSED],
)
def test_a_refused_request_leaves_the_stream_as_it_was(
    job: Any,
    ours: bool,
    processor: str,
    destination: str,
    options: dict[str, Any],
    told: tuple[str, str, str],
) -> None:
    """Each names what was asked, what was seen and the fix, on either coordinator."""
    if ours:
        job.led_by_ours()
    before = job.store.end_position()
    with pytest.raises(InvalidInput) as raised:
        job.client().place(processor, destination, **options)
    asked, seen, fix = told
    assert asked in raised.value.asked
    assert seen in raised.value.seen
    assert fix in raised.value.fix
    assert raised.value.exit_code == 2
    assert job.store.end_position() == before


def test_a_lost_host_is_refused(job: Any) -> None:
    """Our coordinator knows which agents answer."""
    state = job.led_by_ours()
    lost = state.hosts["host-5"].__class__("host-5", "lost")
    job.led_by_ours(hosts={**state.hosts, "host-5": lost})
    with pytest.raises(Refused, match="no word from the agent of host-5"):
        job.client().place("0", "host-5")


def test_any_host_is_refused_when_none_is_legal(job: Any) -> None:
    """Only the standby's host is left: nothing to reserve, so nothing is asked."""
    state = job.led_by_ours()
    job.led_by_ours(hosts={name: state.hosts[name] for name in ("host-1", "host-3")})
    before = job.store.end_position()
    with pytest.raises(Refused, match="no other host is legal") as raised:
        job.client().place("0", "ANY_HOST")
    assert "0-0 is on host-3" in raised.value.seen
    assert job.store.end_position() == before


def test_a_host_that_no_container_reported_passes_only_when_it_is_said_so(job: Any) -> None:
    """Samza's metadata doesn't name every node: the operator may know better, ours knows all."""
    request = job.client().place("0", "new-node.example", allow_unknown_host=True)
    assert request.destination_host == "new-node.example"
    job.led_by_ours()
    with pytest.raises(InvalidInput):
        job.client().place("0", "new-node.example", allow_unknown_host=True)


def test_without_a_deployment_id_in_the_stream_one_must_be_named(job: Any) -> None:
    """A request needs one: an AM stops its placement thread on a record without it."""
    job.configure("app.run.id", None)
    with pytest.raises(InvalidInput, match=r"app\.run\.id"):
        job.client().place("0", "host-2")
    assert job.client().place("0", "host-2", deployment_id="d").deployment_id == "d"


def test_a_uuid_of_another_request_is_refused(job: Any) -> None:
    """One UUID, one request: it would overwrite the first one's record."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    before = job.store.end_position()
    with pytest.raises(Refused, match="one UUID, one request"):
        client.place("0", "host-4", uuid=UUID)
    assert job.store.end_position() == before


def test_a_peer_that_an_earlier_action_moves_away_is_no_reason_to_refuse(
    job: Any, moving: Any
) -> None:
    """The coordinator decides when that action has ended."""
    job.coordinator.state = moving(job.led_by_ours(), "0-0", "host-5")
    plan = job.client().plan("0", "host-3")
    assert plan.refusal is None
    assert plan.waits_for == ("11111111-1111-4111-8111-111111111111",)
    assert "an action that comes first moves it" in plan.notices[0]


@settings(max_examples=150, deadline=None)
@given(
    processor=st.sampled_from(["0", "1", "0-0", "1-0", "7", "0-9", ""]),
    destination=st.one_of(
        st.sampled_from(["host-1", "host-2", "host-3", "host-4", "host-5", "ANY_HOST", "STANDBY"]),
        st.text(max_size=12),
    ),
    ours=st.booleans(),
    expiry=st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
)
def test_place_writes_one_legal_record_or_none(
    make_job: Any, processor: str, destination: str, ours: bool, expiry: float | None
) -> None:
    """For whatever is asked: a refusal writes nothing, and what is written breaks no rule."""
    job = make_job()
    if ours:
        job.led_by_ours()
    before = job.store.end_position()
    client = job.client()
    view = client.view()
    try:
        request = client.place(processor, destination, request_expiry_s=expiry)
    except SamzaDagsterError:
        assert job.store.end_position() == before
        return
    assert job.store.end_position() == before + 1
    peers = [
        p.host
        for p in view.processors.values()
        if p.processor_id != processor and group_of(p.processor_id) == group_of(processor)
    ]
    assert request.destination_host not in peers
    assert request.processor_id in view.processors


def test_two_standbys_of_one_active_are_never_moved_at_once_under_samzas_am(job: Any) -> None:
    """It serialises an active with its standbys, and not these: both copies would be down."""
    for record in (
        stream.set_task_container(AUTHOR, "Standby-Partition 0-1", "0-1"),
        stream.set_container_host(AUTHOR, "0-1", "host-4"),
    ):
        assert record.value is not None
        job.store.put(record.namespace, record.key, record.value)
    first = job.client().place("0-0", "LAST_SEEN")
    before = job.store.end_position()
    for destination in ("host-2", "LAST_SEEN", "ANY_HOST"):
        with pytest.raises(Refused, match="one standby of an active at a time") as raised:
            job.client().place("0-1", destination)
        assert first.uuid in raised.value.fix
    assert job.store.end_position() == before
    assert job.client().place("0", "host-2").processor_id == "0", (
        "the AM queues the active's itself"
    )
    job.respond(first.uuid, StatusCode.SUCCEEDED, "", processor_id="0-0")
    assert job.client().place("0-1", "host-2").processor_id == "0-1"


def test_a_request_that_samzas_am_would_keep_unanswered_is_refused(job: Any) -> None:
    """Its container has never run: the request would wait, silently, until it does."""
    job.store.remove(stream.SET_CONTAINER_HOST, "0")
    before = job.store.end_position()
    for destination in ("host-2", "LAST_SEEN", "ANY_HOST"):
        with pytest.raises(Refused, match="never reported a host"):
            job.client().place("0", destination)
    assert job.store.end_position() == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.reserve("0", "host-2"),
        lambda c: c.fail_over("0"),
        lambda c: c.start_standby("0"),
        lambda c: c.stop_standby("0-0"),
        lambda c: c.cancel(UUID),
        lambda c: c.commit(UUID),
        lambda c: c.release(UUID),
        lambda c: c.place("0", "STANDBY"),
    ],
)
def test_what_samzas_am_cant_do_is_refused_with_what_does_the_same_there(
    job: Any, ask: Callable[[PlacementClient], object]
) -> None:
    """Nothing is written, and no advice names a verb that is refused as well."""
    before = job.store.end_position()
    with pytest.raises(Refused) as raised:
        ask(job.client())
    assert raised.value.fix
    for verb in ("cancel", "fail-over", "control-standby", "STANDBY", "--hold", "commit"):
        assert verb not in raised.value.fix
    assert job.store.end_position() == before
