"""What an operator's request may do to Samza's own AM, and what is told of what others did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from samza_dagster.cli.doctor import poison_findings
from samza_dagster.client import waiting
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import ActionFailed, Refused
from samza_dagster.metadata.resource_manager import HOLDS_S
from samza_dagster.orchestration.requests.step_request import has_failed, on_record
from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import NAMESPACE, REQUEST

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> AmInMemory:
    return AmInMemory()


@pytest.fixture
def client(world: AmInMemory) -> PlacementClient:
    return world.client


POISON: list[tuple[str, dict[str, Any], str]] = [
    ("7", {}, "processor '7', which the job doesn't have"),
    ("0", {"destinationHost": None}, "destinationHost"),
    ("0", {"statusCode": None}, "statusCode"),
    ("0", {"uuid": "none"}, "uuid"),
]


@pytest.mark.parametrize(("processor", "fields", "why"), POISON)
def test_what_stops_the_am_is_named_refuses_a_request_and_is_cleared_by_gc(
    world: AmInMemory,
    client: PlacementClient,
    processor: str,
    fields: dict[str, Any],
    why: str,
) -> None:
    """Whoever wrote it: nobody's request is served while it stands."""
    written = world.by_others(processor, "nm3", **fields)
    world.run(30)
    view = client.view()
    ((key, told),) = view.poison.items()
    assert key == f"{written}.{REQUEST}"
    assert why in told
    (finding,) = poison_findings(view)
    assert (finding.ok, "gc" in finding.fix) == (False, True)
    assert key in finding.seen
    with pytest.raises(Refused, match="samza-dagster gc"):
        client.place("1-0", "LAST_SEEN")

    found = client.unneeded(older_than_s=3600)
    assert [(removal.kind, removal.uuid) for removal in found] == [("record", key)]
    assert client.view().poison, "to look for it removes nothing"
    client.remove(found)
    assert client.view().poison == {}
    assert [each.ok for each in poison_findings(client.view())] == [True]
    asked = client.place("1-0", "LAST_SEEN").uuid
    world.run(20)
    assert world.statuses(asked)[-1][0] == "SUCCEEDED"


def test_a_key_that_is_no_messages_is_cleared_too(
    world: AmInMemory, client: PlacementClient
) -> None:
    world.store.put(NAMESPACE, "some-note", b"of somebody")
    found = client.unneeded(older_than_s=3600)
    assert [(r.kind, r.uuid, r.at_ms) for r in found] == [("record", "some-note", None)]
    client.remove(found)
    assert world.store.get(NAMESPACE, "some-note") is None


def test_a_request_for_a_standby_that_isnt_there_stops_nobody_and_is_cleared(
    world: AmInMemory, client: PlacementClient
) -> None:
    waits = world.by_others("7-0", "nm3")
    assert client.view().poison == {}
    asked = client.place("1-0", "LAST_SEEN").uuid
    world.run(20)
    assert world.statuses(asked)[-1][0] == "SUCCEEDED"
    assert [(r.kind, r.uuid) for r in client.unneeded(older_than_s=3600)] == [("request", waits)]


def test_a_request_of_another_deployment_stops_nobody(
    world: AmInMemory, client: PlacementClient
) -> None:
    """The AM deletes it before it looks at its processor."""
    world.by_others("7", "nm3", deploymentId="1-old")
    assert client.view().poison == {}
    world.run(6)
    asked = client.place("1-0", "LAST_SEEN").uuid
    world.run(20)
    assert world.statuses(asked)[-1][0] == "SUCCEEDED"


def test_a_request_that_the_am_hasnt_taken_is_shown_as_waiting(
    world: AmInMemory, client: PlacementClient
) -> None:
    """Of a processor that doesn't run it says nothing."""
    world.am.cluster.down.add("0")
    asked = client.place("0", "LAST_SEEN").uuid
    world.run(120)
    assert client.response(asked) is None
    assert client.request(asked) is not None
    assert [(a.uuid, a.stage) for a in client.view().queued] == [(asked, "queued")]


def test_without_host_affinity_the_host_that_was_asked_for_isnt_taken_for_true() -> None:
    world = AmInMemory(affinity=False)
    world.am.cluster.any_host = "nm4"
    asked = world.client.place("0", "nm33", allow_unknown_host=True).uuid
    world.run(20)
    assert world.statuses(asked)[-1][0] == "SUCCEEDED"
    view = world.client.view()
    assert view.processors["0"].host == "nm4"
    assert "nm33" not in view.hosts


def test_a_destination_that_dies_between_stop_and_start_is_told_as_it_is(
    world: AmInMemory, client: PlacementClient
) -> None:
    """After three minutes without the container, in the AM's own words; it is where it was."""
    asked = client.place("0", "nm4", allow_unknown_host=True).uuid
    world.run(8)
    world.am.cluster.hosts.discard("nm4")
    world.run(120)
    assert [(a.uuid, a.stage) for a in client.view().actions] == [(asked, "in_progress")]
    world.run(80)
    response = client.response(asked)
    assert response is not None
    assert response.status_code == "FAILED"
    assert response.response_message == (
        "failed to start container on destination host nm4, attempting to start on source host nm1"
    )
    view = client.view()
    assert view.actions == ()
    assert view.processors["0"].host == "nm1"


@pytest.mark.parametrize("am_behind_s", [-600, 0, 600])
def test_stops_count_as_long_whatever_the_ams_clock_says(am_behind_s: int) -> None:
    """Its answers stand behind the requests that they answer, so they are no older than those."""
    world = AmInMemory(am_behind_s=am_behind_s)
    for stops in range(1, 8):
        world.client.place("0", "LAST_SEEN")
        world.run(20)
        assert world.client.view().stop_budgets["0"].counted == stops
    with pytest.raises(Refused, match="stop 8 is left for a crash"):
        world.client.place("0", "LAST_SEEN")
    world.run(280)
    assert world.client.view().stop_budgets["0"].counted == 7
    if am_behind_s >= 0:  # a clock that is ahead is seen through when it answers next
        world.run(100)
        assert world.client.view().stop_budgets["0"].counted == 0


class _Told(Exception):
    """Ends a wait that is told something."""


def _stop(text: str) -> None:
    raise _Told(text)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time passes at each look: a wait needs none of the real."""
    monkeypatch.setattr(waiting, "_SLICE_S", 0.001)


@pytest.mark.usefixtures("quick")
def test_whoever_waits_for_a_container_whose_node_died_is_told_that_nothing_is_taken_up(
    world: AmInMemory,
) -> None:
    """One that was launched there as the node died is pending for good: it was waited for in silence."""
    client = world.beside_yarn()
    asked, here = client.place("0", "nm4").uuid, world.am.cluster.places["0"]
    world.am.cluster.hosts.discard(here)
    world.now += HOLDS_S + 1  # what the ResourceManager said is held so long; the AM looks later
    (waiting_one,) = client.view().queued
    assert (waiting_one.uuid, f"{here}, which is LOST" in waiting_one.trouble) == (asked, True)
    assert "end the AM's container" in waiting_one.trouble


@pytest.mark.usefixtures("quick")
def test_whoever_waits_for_a_destination_that_died_is_told_as_soon_as_yarn_knows(
    world: AmInMemory,
) -> None:
    """And what helps: the AM itself says so after three minutes in silence."""
    client = world.beside_yarn()
    asked = client.place("0", "nm4").uuid
    world.run(8)
    world.am.cluster.hosts.discard("nm4")
    died = world.now
    with pytest.raises(_Told, match=r"nm4 is LOST.*about three minutes.*NodeManager of nm4 back"):
        client.wait(asked, timeout_s=300, on_notice=_stop)
    assert world.now - died < 20
    (action,) = client.view().actions
    assert "nm4 is LOST" in action.trouble
    assert any("nm4 is LOST" in notice for notice in client.plan("0", "LAST_SEEN").notices)


@pytest.mark.usefixtures("quick")
def test_a_request_that_ends_in_time_is_told_nothing_beside(world: AmInMemory) -> None:
    client = world.beside_yarn()
    asked = client.place("0", "nm4").uuid
    assert client.wait(asked, timeout_s=10**6, on_notice=_stop).status_code == "SUCCEEDED"


def _replaced(world: AmInMemory) -> None:
    world.am.replaced("run-2")
    world.run(8)


def _ended(world: AmInMemory) -> None:
    world.yarn_state = world.am.failed = "FAILED"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("ends", "why"), [(_replaced, "run-2 runs"), (_ended, "nothing of the job runs any more")]
)
def test_a_request_that_a_dead_am_had_taken_is_over_for_everybody(
    world: AmInMemory, ends: Callable[[AmInMemory], None], why: str
) -> None:
    """Its IN_PROGRESS stays in the stream, and nobody will ever answer it."""
    client = world.beside_yarn()
    asked = client.place("0", "nm4").uuid
    world.run(6)
    assert [a.stage for a in client.view().actions] == ["in_progress"]
    ends(world)
    with pytest.raises(ActionFailed, match=why):
        client.wait(asked, timeout_s=1_000)
    view = client.view()
    assert (view.actions, [(a.uuid, a.stage) for a in view.over]) == ((), [(asked, "in_progress")])
    assert why in view.over[0].trouble
    plan = client.plan("0", "nm3")
    assert plan.waits_for == ()
    assert any(why in notice and asked in notice for notice in plan.notices)
    latest = on_record(client, asked)
    assert latest is not None
    assert has_failed(client, latest)
    found = client.unneeded(older_than_s=0)
    assert (asked, "response") in [(removal.uuid, removal.kind) for removal in found]


def test_a_standby_that_cant_be_placed_stays_and_is_told_so(
    world: AmInMemory, client: PlacementClient
) -> None:
    asked = client.place("0-0", "nm9", allow_unknown_host=True, request_expiry_s=20).uuid
    world.run(40)
    response = client.response(asked)
    assert response is not None
    assert response.status_code == "FAILED"
    assert "expired" in response.response_message
    assert client.view().processors["0-0"].host == "nm2"
    assert world.am.stops == []
