"""A shadow beside Samza's own AM as it was recorded, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from samza_dagster.client.access import JobAccess
from samza_dagster.coordinator.shadow.downtime import Downtime, Partition
from samza_dagster.coordinator.shadow.events import ShadowEvent
from samza_dagster.coordinator.shadow.log import ShadowHistory, ShadowLog, read_history
from samza_dagster.coordinator.shadow.picture import PictureReader
from samza_dagster.coordinator.shadow.running import Shadow
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.interface import KeptValue
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.placement.state import Limits
from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import BACK_S, JOB

pytestmark = pytest.mark.unit


class World:
    """The recorded AM, and a shadow that looks every second."""

    def __init__(self, path: Path) -> None:
        self.am = AmInMemory()
        self.path = path
        self.away = False
        self.access = JobAccess(
            self.am.store,
            JOB,
            now_ms=self.am._now_ms,
            monotonic=lambda: self.am.now,
            yarn=ResourceManager(
                ["http://rm:8088"], fetch=self.am._of_yarn, monotonic=lambda: self.am.now
            ),
        )
        self.reader = PictureReader(
            self.access, now_ms=self.am._now_ms, monotonic=lambda: self.am.now
        )
        self.shadow = Shadow(
            self.reader,
            self,
            ShadowLog(path, f"{JOB}/1"),
            Limits(),
            now_ms=self.am._now_ms,
            monotonic=lambda: self.am.now,
        )
        whole = self.am.store.whole

        def reachable() -> dict[str, dict[str, KeptValue]]:
            if self.away:
                raise Unreachable("read the coordinator stream", seen="no broker answers")
            return whole()

        self.am.store.whole = reachable  # type: ignore[method-assign]

    def around(self, tasks: Mapping[str, Sequence[Partition]], around_ms: int) -> Downtime | None:
        """The container works two seconds after it started, as it did nine seconds before."""
        assert tasks
        works_ms = around_ms + 2_000
        if self.am._now_ms() < works_ms:
            return Downtime(around_ms - 9_000, None, None)
        return Downtime(around_ms - 9_000, works_ms, 11.0)

    def watch(self, seconds: int) -> None:
        for _ in range(seconds):
            self.am.run(1)
            self.shadow.look()

    def ended(self) -> ShadowHistory:
        self.shadow.close()
        return read_history(self.path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "shadow.jsonl")
    made.watch(2)
    return made


def only(history: ShadowHistory) -> ShadowEvent:
    (event,) = history.events
    return event


def test_a_quiet_hour_is_told_from_nobody_listening(world: World) -> None:
    world.watch(3_600)
    history = world.ended()
    assert history.events == ()
    (span,) = history.spans
    assert span.why
    assert span.listened_s == pytest.approx(3_602, abs=2)


def test_it_writes_nothing_to_the_job(world: World) -> None:
    """All that stands in the stream was written by the AM, and by whoever asked it."""
    before = len(world.am.store.written)
    world.watch(60)
    assert len(world.am.store.written) == before
    world.am.by_others("0", "nm3")
    world.watch(40)
    assert {change.namespace for change in world.am.store.written[before:]} == {
        "samza-place-container-v1",
        "set-container-host-assignment",
    }


def test_a_move_is_one_event_with_the_masters_own_times(world: World) -> None:
    """As recorded: 12.6 s at most after its poll until SUCCEEDED, and the start 3 s later."""
    host = next(iter(sorted(world.am.am.cluster.hosts - set(world.am.am.cluster.places.values()))))
    uuid = world.am.by_others("0", host)
    world.watch(40)
    event = only(world.ended())
    assert (event.kind, event.uuid, event.destination) == ("placement", uuid, host)
    assert (event.status, event.state, event.samza_host) == ("SUCCEEDED", "over", host)
    assert event.answer_s is not None
    assert 8 < event.answer_s < 18
    assert event.downtime_s == 11.0
    assert event.ours is not None
    assert (event.ours.action, event.ours.host, event.same_host) == ("move", host, True)


def test_a_move_that_the_am_refuses_ours_refuses_too(world: World) -> None:
    world.am.by_others("0", world.am.am.cluster.places["0-0"])
    world.watch(15)
    event = only(world.ended())
    assert (event.status, event.state) == ("BAD_REQUEST", "over")
    assert event.ours is not None
    assert event.ours.action == "refuse"


def test_a_forced_restart_is_the_requests_own(world: World) -> None:
    """Its SUCCEEDED comes with the stop; the container comes back later."""
    world.am.by_others("0", "FORCE_RESTART_LAST_SEEN")
    world.watch(round(BACK_S) + 20)
    event = only(world.ended())
    assert (event.kind, event.state, event.downtime_s) == ("placement", "over", 11.0)


def test_a_container_that_comes_back_by_itself_had_failed(world: World) -> None:
    host = world.am.am.cluster.places["1"]
    world.am.am._started("1", host)
    world.watch(5)
    event = only(world.ended())
    assert (event.kind, event.processor, event.host) == ("failure", "1", host)
    assert (event.state, event.downtime_s, event.same_host) == ("over", 11.0, True)
    assert event.ours is not None
    assert (event.ours.action, event.ours.expected_s) == ("restart", 2.2)


def test_a_host_that_yarn_has_lost_makes_ours_fail_over(world: World) -> None:
    cluster = world.am.am.cluster
    lost, standby = cluster.places["1"], cluster.places["1-0"]
    cluster.hosts.discard(lost)
    cluster.places["1"] = other = next(iter(sorted(cluster.hosts - {standby})))
    world.watch(6)
    world.am.am._started("1", other)
    world.watch(5)
    event = next(e for e in world.ended().events if e.processor == "1")
    assert (event.kind, event.samza_host) == ("failure", other)
    assert event.ours is not None
    assert (event.ours.action, event.ours.standby) == ("fail-over", "1-0")
    assert (event.ours.host, event.same_host) == (standby, False)


def test_what_happened_while_the_brokers_were_away_is_seen_after_them(world: World) -> None:
    """The shadow goes on, and its blindness stands in the log."""
    world.away = True
    world.watch(30)
    world.am.am._started("1", world.am.am.cluster.places["1"])
    world.watch(5)
    world.away = False
    world.watch(5)
    history = world.ended()
    assert only(history).kind == "failure"
    assert history.spans[0].blind_s == pytest.approx(35, abs=1)


def test_a_replaced_master_and_the_containers_that_it_starts_anew(world: World) -> None:
    """Ours would have let all of them run on: YARN says that it is the same application."""
    world.am.am.replaced("run-2")
    world.watch(60)
    history = world.ended()
    assert {e.kind for e in history.events} == {"deployment", "redeployed"}
    assert {e.processor for e in history.events} == {"", *world.am.am.cluster.places}
    assert {e.ours.action for e in history.events if e.ours is not None} == {"run-on"}
    (deployment,) = (e for e in history.events if e.kind == "deployment")
    assert deployment.deployment == "run-2"


def test_what_is_open_at_the_end_is_unfinished(world: World) -> None:
    world.am.by_others("0", "nm9", requestExpiry=600_000)
    world.watch(8)
    history = world.ended()
    assert only(history).state == "unfinished"
    assert history.spans[0].why
