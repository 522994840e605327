"""Requests for a resource, with a clock that only the test moves and agents that it plays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.cluster import resource_requests
from samza_dagster.cluster.agent_messages import parse_sync
from samza_dagster.cluster.host_record import HostRecord
from samza_dagster.cluster.interface import ContainerLaunch, ResourceAsk
from samza_dagster.cluster.resource_requests import ResourceRequests

pytestmark = pytest.mark.unit


class Cluster:
    """Books, commands sent and callbacks made."""

    def __init__(self, gather_s: float = 0.0) -> None:
        self.now = 0.0
        self.hosts: dict[str, HostRecord] = {}
        self.sent: list[tuple[str, str, str]] = []
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self.requests = ResourceRequests(
            self.hosts,
            send=self._send,
            notify=lambda notice: notice(self),  # pyright: ignore[reportArgumentType]
            clock=lambda: self.now,
            gather_s=gather_s,
        )

    def _send(self, host: str, kind: str, /, **fields: Any) -> None:
        self.sent.append((host, kind, fields["request_id"]))
        self.hosts[host].commands[str(len(self.sent))] = {"kind": kind, **fields}

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, arguments))

    def report(
        self,
        host: str,
        free: int = 1000,
        held: tuple[str, ...] = (),
        parked: dict[str, bool] | None = None,
    ) -> None:
        record = self.hosts.setdefault(host, HostRecord(host))
        record.commands.clear()
        message: dict[str, Any] = {
            "version": 1,
            "host": host,
            "boot_id": "b",
            "journal": "j",
            "instance": "i",
            "began_ms": 1,
            "losses": record.losses,
            "sequence": record.sequence + 1,
            "resources": {"memory_mb": 1000, "cores": 9, "free_memory_mb": free, "free_cores": 9},
            "reservations": [{"request_id": r, "memory_mb": 1, "cores": 1} for r in held],
            "parked": [
                {"execution_id": f"e-{request_id}", "request_id": request_id, "ready": ready}
                for request_id, ready in (parked or {}).items()
            ],
        }
        record.take(parse_sync(json.dumps(message).encode()))
        self.requests.reconcile(record)
        self.requests.place()

    def ask(
        self, request_id: str, host: str | None = None, *excluded: str, urgent: bool = False
    ) -> None:
        ask = ResourceAsk(request_id, host, excluded, 400, 1, 10.0, urgent=urgent)
        self.requests.request(ask)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_refusal_leads_elsewhere_and_the_same_host_is_asked_again_later(cluster: Cluster) -> None:
    """Without a storm of questions to a host that says no although it seems to have room."""
    cluster.report("a", free=900)
    cluster.report("b", free=800)
    cluster.ask("r")
    cluster.requests.answered("a", "r", ok=False, why="disk full")
    cluster.requests.place()
    cluster.requests.answered("b", "r", ok=False, why="full")
    cluster.hosts["a"].commands.clear()
    cluster.requests.place()
    assert [host for host, _, _ in cluster.sent] == ["a", "b"]
    cluster.now = 1.0
    cluster.requests.place()
    assert [host for host, _, _ in cluster.sent] == ["a", "b", "a"]


def test_a_time_to_ask_again_that_passes_before_the_next_sleep_is_not_slept_over(
    cluster: Cluster,
) -> None:
    """On a busy machine a refused request waited for the next word of anybody's."""
    cluster.report("host-1")
    cluster.ask("r1")
    cluster.requests.answered("host-1", "r1", ok=False, why="full")
    cluster.requests.place()
    again = min(cluster.requests.deadlines())
    cluster.now = again + 0.001  # by the time that the sleep is reckoned
    assert min(cluster.requests.deadlines()) == again
    cluster.requests.place()
    assert cluster.sent[-1] == ("host-1", "reserve", "r1")
    assert min(cluster.requests.deadlines()) > cluster.now


def test_an_urgent_request_ends_with_the_refusal_of_its_host(cluster: Cluster) -> None:
    """The host is asked though it looks full, since its agent knows best, and only once."""
    cluster.report("a", free=100)
    cluster.ask("r", "a", urgent=True)
    assert cluster.sent == [("a", "reserve", "r")]
    cluster.requests.answered("a", "r", ok=False, why="100 MiB free")
    ((what, (request_id, why)),) = cluster.told
    assert (what, request_id) == ("on_request_expired", "r")
    assert "at once" in why
    assert "a: refused: 100 MiB free" in why
    cluster.now = 60.0
    cluster.requests.place()
    cluster.requests.expire()
    assert len(cluster.sent) == len(cluster.told) == 1


def test_an_urgent_request_is_held_where_there_is_room(cluster: Cluster) -> None:
    """Also by a host that looked full: what it used is free by the time that it is asked."""
    cluster.report("a", free=100)
    cluster.ask("r", "a", urgent=True)
    cluster.requests.answered("a", "r", ok=True, why="")
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]


def test_an_answer_after_the_expiry_allocates_nothing_and_is_given_back(cluster: Cluster) -> None:
    """The release is queued behind the reserve, so nothing stays held."""
    cluster.report("a")
    cluster.ask("r")
    cluster.now = 10.0
    cluster.requests.expire()
    cluster.requests.answered("a", "r", ok=True, why="")
    assert cluster.sent == [("a", "reserve", "r"), ("a", "release", "r")]
    assert [name for name, _ in cluster.told] == ["on_request_expired"]


def test_what_an_earlier_leader_reserved_is_taken_up(cluster: Cluster) -> None:
    """Asked before or after the host registers: held at once, no agent is asked twice."""
    cluster.ask("before")
    cluster.report("a", free=0, held=("before", "after"))
    told = [arguments for _, arguments in cluster.told]
    assert told == [("before", "a"), ("after", "a")]
    cluster.ask("after")
    assert [arguments for _, arguments in cluster.told] == [*told, ("after", "a")]
    assert cluster.sent == []


def test_a_reservation_whose_release_was_lost_in_a_crash_is_told_and_given_back(
    cluster: Cluster,
) -> None:
    """Nobody here asked for it: the coordinator hears of it once, and its release goes out."""
    cluster.report("a", held=("orphan",))
    cluster.report("a", held=("orphan",))
    assert cluster.told == [("on_resource_allocated", ("orphan", "a"))]
    cluster.requests.release("orphan")
    assert cluster.sent == [("a", "release", "orphan")]


def test_a_reservation_that_ended_here_is_given_back_by_a_host_that_returns(
    cluster: Cluster,
) -> None:
    """Released while its host was away, or held by another one meanwhile; and asked only once."""
    cluster.ask("moved")
    cluster.report("b")
    cluster.requests.answered("b", "moved", ok=True, why="")
    cluster.requests.release("gone")
    cluster.report("a", held=("moved", "gone", "unknown"))
    assert sorted(cluster.sent[1:]) == [("a", "release", "gone"), ("a", "release", "moved")]
    cluster.requests.reconcile(cluster.hosts["a"])
    assert len(cluster.sent) == 3


def test_ended_requests_are_remembered_within_bounds_and_the_oldest_is_told_instead(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A term has no end. The coordinator gives back what it is told of and doesn't need."""
    monkeypatch.setattr(resource_requests, "REMEMBERED_ENDS", 2)
    for number in range(4):
        cluster.requests.release(f"r{number}")
    cluster.told.clear()
    cluster.report("h", held=("r3", "r2", "r0"))
    assert cluster.sent == [("h", "release", "r3"), ("h", "release", "r2")]
    assert cluster.told == [("on_resource_allocated", ("r0", "h"))]


def test_what_was_asked_of_a_lost_host_is_asked_elsewhere(cluster: Cluster) -> None:
    """And a request for that host alone waits for it until its time is up."""
    cluster.report("a", free=900)
    cluster.report("b", free=800)
    cluster.ask("any")
    cluster.ask("only", "a")
    cluster.hosts["a"].lose()
    cluster.requests.host_lost("a")
    cluster.requests.place()
    assert cluster.sent[-1] == ("b", "reserve", "any")
    cluster.now = 10.0
    cluster.requests.answered("b", "any", ok=True, why="")
    cluster.requests.expire()
    assert "a: lost, no word for 10.0 s" in cluster.told[-1][1][1]


def test_the_end_of_a_container_ends_what_it_used(cluster: Cluster) -> None:
    """The same request id asked again is a new request, not a memory of the old one."""
    cluster.report("a")
    cluster.ask("r")
    cluster.requests.answered("a", "r", ok=True, why="")
    cluster.requests.started("r", "e1")
    cluster.requests.container_ended("e1")
    cluster.report("a")
    cluster.ask("r")
    assert cluster.sent == [("a", "reserve", "r"), ("a", "reserve", "r")]


def test_the_first_host_to_register_does_not_get_everything() -> None:
    """A named host is asked at once; any host once nobody has registered for a while."""
    cluster = Cluster(gather_s=1.0)
    cluster.ask("named", "a")
    cluster.ask("any-1")
    cluster.ask("any-2")
    cluster.now = 7.0  # however late the first comes, the others have their time
    cluster.report("a")
    assert cluster.sent == [("a", "reserve", "named")]
    assert 8.0 in cluster.requests.deadlines()
    cluster.now = 7.9
    cluster.report("b")
    cluster.now = 8.5
    cluster.requests.place()
    assert cluster.sent == [("a", "reserve", "named")]
    assert 8.9 in cluster.requests.deadlines()
    cluster.now = 8.9
    cluster.requests.place()
    assert {host for host, _, request in cluster.sent if request.startswith("any")} == {"a", "b"}


def test_hosts_that_come_one_after_another_hold_nobody_up_for_long() -> None:
    """Four quiet times after the first host it's over, and later ones begin nothing anew."""
    cluster = Cluster(gather_s=1.0)
    cluster.ask("any")
    for number in range(7):
        cluster.now = number * 0.6
        cluster.report(f"h{number}")
        assert cluster.sent == []
    cluster.now = 4.0
    cluster.requests.place()
    assert [request for _, _, request in cluster.sent] == ["any"]
    cluster.report("late")
    cluster.ask("another")
    assert [request for _, _, request in cluster.sent] == ["any", "another"]


def test_a_request_that_ends_while_hosts_register_says_so() -> None:
    """The host had room, and was not asked."""
    cluster = Cluster(gather_s=20.0)
    cluster.ask("any")
    cluster.now = 9.0
    cluster.report("a")
    cluster.now = 10.0
    cluster.requests.expire()
    ((_, (_, why)),) = cluster.told
    assert "still registering with a new leader" in why


def ahead(
    cluster: Cluster, host: str | None = None, expires_in_s: float = 60.0, *, runs: bool = True
) -> None:
    """Asks for `r` with a launch, while what it replaces `runs` on, or is down."""
    launch = ContainerLaunch("e-r", "0", ("java",), (), "", ())
    ask = ResourceAsk("r", host, (), 400, 1, expires_in_s, launch, ahead=runs)
    cluster.requests.request(ask)


def test_what_runs_is_told_of_its_place_once_its_replacement_is_ready(cluster: Cluster) -> None:
    """The reserve brings the launch; a report that says ready brings the callback, once."""
    cluster.report("a")
    ahead(cluster)
    ((command),) = cluster.hosts["a"].commands.values()
    assert command["launch"]["execution_id"] == "e-r"
    assert "job_model_json" not in command["launch"]
    cluster.requests.answered("a", "r", ok=True, why="")
    cluster.report("a", held=("r",), parked={"r": False})
    assert cluster.told == []
    cluster.report("a", held=("r",), parked={"r": True})
    cluster.report("a", held=("r",), parked={"r": True})
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]


def test_for_what_is_down_its_place_is_told_before_its_process_is_ready(cluster: Cluster) -> None:
    """By the agent's answer alone: nothing is gained by waiting for the JVM beside it."""
    cluster.report("a")
    ahead(cluster, runs=False)
    cluster.requests.answered("a", "r", ok=True, why="")
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]
    cluster.report("a", held=("r",), parked={"r": True})
    assert len(cluster.told) == 1


def test_what_goes_down_meanwhile_waits_no_longer_for_a_process_to_be_ready(
    cluster: Cluster,
) -> None:
    """Asked again for a container that is down: its place is told of at once."""
    cluster.report("a")
    ahead(cluster)
    cluster.requests.answered("a", "r", ok=True, why="")
    cluster.report("a", held=("r",), parked={"r": False})
    assert cluster.told == []
    ahead(cluster, runs=False)
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]
    assert [kind for _, kind, _ in cluster.sent] == ["reserve"]


@pytest.mark.parametrize(("then_s", "ends_at"), [(5.0, 7.0), (60.0, 10.0)])
def test_an_open_request_that_is_asked_again_has_the_shorter_time(
    cluster: Cluster, then_s: float, ends_at: float
) -> None:
    """It ends once, and says how long it had."""
    cluster.requests.request(ResourceAsk("r", "a", (), 400, 1, 10.0))
    cluster.now = 2.0
    cluster.requests.request(ResourceAsk("r", "a", (), 400, 1, then_s))
    assert list(cluster.requests.deadlines()) == [ends_at]
    cluster.now = ends_at
    cluster.requests.expire()
    assert [(name, told[0]) for name, told in cluster.told] == [("on_request_expired", "r")]


def test_an_agent_that_parks_nothing_is_not_waited_for(cluster: Cluster) -> None:
    """One of before, one that has enough parked, one whose process died."""
    cluster.report("a")
    ahead(cluster)
    cluster.requests.answered("a", "r", ok=True, why="")
    assert cluster.told == []
    cluster.report("a", held=("r",))
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]


@pytest.mark.parametrize(("expires_in_s", "told_at"), [(60.0, 8.0), (5.0, 4.0)])
def test_readiness_is_waited_for_within_bounds(
    cluster: Cluster, expires_in_s: float, told_at: float
) -> None:
    """A few seconds, and never to the request's end: the resource is held, it is told of."""
    cluster.report("a")
    ahead(cluster, expires_in_s=expires_in_s)
    cluster.requests.answered("a", "r", ok=True, why="")
    cluster.report("a", held=("r",), parked={"r": False})
    assert min(cluster.requests.deadlines()) == told_at
    cluster.now = told_at - 0.1
    cluster.requests.expire()
    assert cluster.told == []
    cluster.now = told_at
    cluster.requests.expire()
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]


def test_a_new_leader_waits_for_what_it_finds_parked(cluster: Cluster) -> None:
    """The reservation of the leader before, its process on its way."""
    cluster.report("a", held=("r",), parked={"r": False})
    cluster.told.clear()
    cluster.requests = ResourceRequests(
        cluster.hosts,
        send=cluster._send,
        notify=lambda notice: notice(cluster),  # pyright: ignore[reportArgumentType]
        clock=lambda: cluster.now,
    )
    ahead(cluster)
    assert cluster.told == []
    cluster.report("a", held=("r",), parked={"r": True})
    assert cluster.told == [("on_resource_allocated", ("r", "a"))]
    assert not [kind for _, kind, _ in cluster.sent if kind == "reserve"]


def test_a_release_or_a_lost_host_ends_the_wait(cluster: Cluster) -> None:
    """Given back where it is held; asked anew elsewhere."""
    for name in ("a", "b"):
        cluster.report(name)
    ahead(cluster)
    cluster.requests.answered("a", "r", ok=True, why="")
    cluster.report("a", held=("r",), parked={"r": False})
    cluster.hosts["a"].lose()
    cluster.requests.host_lost("a")
    cluster.requests.place()
    assert cluster.sent[-1] == ("b", "reserve", "r")
    cluster.requests.answered("b", "r", ok=True, why="")
    cluster.report("b", held=("r",), parked={"r": False})
    cluster.requests.release("r")
    assert ("b", "release", "r") in cluster.sent
    cluster.now = 30.0
    cluster.requests.expire()
    cluster.report("b", held=("r",), parked={"r": True})
    assert cluster.told == []
