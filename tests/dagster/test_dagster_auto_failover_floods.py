"""`auto_failover` finds again what it did, and what a person said to it, behind a flood of other events."""

from __future__ import annotations

import dagster as dg
import pytest
from lookout import DictKeeper, Lookout

from samza_dagster.orchestration.history.names import KEY
from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.watch import stored
from samza_dagster.orchestration.watch.failover_tick import Tick
from samza_dagster.orchestration.watch.reported import acknowledgement
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.orchestration.watch.stored import InstanceEvents

pytestmark = pytest.mark.dagster
FLOOD, PAGES = 40, 140
"""More than is looked back at, and more than a page beyond that: each a tenth of what it is."""
REAL_PAGES = 10 * PAGES
UNDER = dg.AssetKey(["orders", "placement_history"])


class Sensor:
    """A world, an instance, and the sensor's ticks in between, one look each."""

    def __init__(self, instance: dg.DagsterInstance, key: dg.AssetKey, cap: int) -> None:
        self.world = Lookout(actives=8, host_count=8)
        self.instance, self.key = instance, key
        self.settings = AutoFailover(mode="act", cap_per_hour=cap)
        self.keeper = DictKeeper()
        self.cursor: str | None = None
        self.held: list[str] = []
        self.said: list[str] = []

    def tick(self, times: int = 1) -> None:
        world = self.world
        for _ in range(times):
            world.now_ms += 5_000
            world.alive()
            events = InstanceEvents(self.instance, self.key)
            tick = Tick(
                world.client(),
                events,
                self.keeper,
                self.settings,
                lambda: world.now_ms,
                say=self.said.append,
                key=self.key,
            )
            self.cursor = tick.run(self.cursor).to_text()
            for event in tick.reported:
                self.instance.report_runless_asset_event(event)
                if event.metadata.get("verdict", dg.TextMetadataValue("")).value == "held":
                    self.held.append(str(event.metadata["because"].value).partition(":")[0])

    def acts_on_0(self) -> None:
        """Its host falls sick, it is failed over, and all looks well again."""
        self.tick()
        self.world.words["host-0"] = 15_000
        self.tick(3)
        (uuid,) = self.world.asked
        self.world.fail_over_done(uuid)
        self.world.words["host-0"] = 100
        self.tick(4)

    def falls_sick_again(self) -> list[str]:
        """The host that active 0 runs on now; who was asked to fail over since."""
        before = len(self.world.asked)
        self.world.words[self.world.at["0"]] = 15_000
        self.tick(4)
        return [processor for _, processor in list(self.world.asked.values())[before:]]

    def flood(self, many: int = FLOOD, key: dg.AssetKey | None = None) -> None:
        """What `placement_responses` names within two ticks."""
        for number in range(many):
            self.instance.report_runless_asset_event(
                dg.AssetObservation(
                    key or self.key,
                    tags={EVENT: "no-end"},
                    metadata={"request": str(number), "job": "demo/1"},
                )
            )

    def acknowledge(self, key: dg.AssetKey) -> None:
        self.instance.report_runless_asset_event(
            acknowledgement("demo/1", "0", at_ms=self.world.now_ms, who="me", why="looked", key=key)
        )


@pytest.fixture
def instance(
    own_instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> dg.DagsterInstance:
    """Of which a tenth is read back, but in the long suite: it takes a millisecond to keep an event."""
    if request.node.get_closest_marker("longdagster"):
        return own_instance
    for name in ("LOOKED_BACK", "PAGE", "MOST_READ"):
        monkeypatch.setattr(stored, name, getattr(stored, name) // 10)
    return own_instance


@pytest.mark.parametrize(
    "many", [FLOOD, PAGES, pytest.param(REAL_PAGES, marks=pytest.mark.longdagster)]
)
def test_a_lost_cursor_forgets_no_block_behind_a_flood(
    instance: dg.DagsterInstance, many: int
) -> None:
    """The group is left alone until somebody acknowledges it."""
    sensor = Sensor(instance, KEY, cap=9)
    sensor.acts_on_0()
    sensor.flood(many)
    sensor.cursor = None
    assert "0" not in sensor.falls_sick_again()
    assert "block" in sensor.held


def test_a_lost_cursor_forgets_no_cap_behind_a_flood(instance: dg.DagsterInstance) -> None:
    """One request within the hour is allowed."""
    sensor = Sensor(instance, KEY, cap=1)
    sensor.acts_on_0()
    sensor.flood()
    sensor.cursor = None
    assert sensor.falls_sick_again() == []
    assert "cap" in sensor.held


@pytest.mark.parametrize("written", [KEY, UNDER])
@pytest.mark.parametrize("key", [KEY, UNDER])
def test_an_acknowledgement_behind_a_flood_is_found(
    instance: dg.DagsterInstance, key: dg.AssetKey, written: dg.AssetKey
) -> None:
    """Both came while the daemon was away; under the plain key it counts for every job of that name."""
    sensor = Sensor(instance, key, cap=9)
    sensor.acts_on_0()
    sensor.acknowledge(written)
    sensor.flood(key=written)
    asked = sensor.falls_sick_again()
    assert ("0" in asked) == (written in (KEY, key))


def test_an_acknowledgement_from_before_the_block_lifts_nothing_behind_a_flood(
    instance: dg.DagsterInstance,
) -> None:
    """It is about what had been before."""
    sensor = Sensor(instance, KEY, cap=9)
    sensor.acknowledge(KEY)
    sensor.flood()
    sensor.acts_on_0()
    sensor.flood()
    assert "0" not in sensor.falls_sick_again()


def test_more_than_is_read_back_is_said(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is behind it is unknown: a block stays."""
    monkeypatch.setattr(stored, "MOST_READ", 50)
    sensor = Sensor(instance, KEY, cap=9)
    sensor.acts_on_0()
    sensor.acknowledge(KEY)
    sensor.flood(60)
    assert "0" not in sensor.falls_sick_again()
    assert [text for text in sensor.said if "acknowledge it again" in text]
