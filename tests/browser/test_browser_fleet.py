"""A thousand containers on one screen, as the UI renders them."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from playwright.sync_api import Browser

from samza_dagster.orchestration.assets.datasets import DATASETS, snapshot_assets
from samza_dagster.orchestration.assets.fleet import fleet_overview
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.pictures import MOST_BYTES
from samza_dagster.snapshots import FleetSnapshot
from samza_dagster.snapshots.tables import arrow_table
from tests.browser.cockpit import Cockpit
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser

ACTIVES, HOSTS = 500, 50
DOMAIN = ".prod.dc1.example.com"
LEAST_LETTERS = 6
"""Pixels of the screen."""
# Every text of the picture that isn't whole within it, and every box with too long a text.
_CUT_OFF = """() => {
  const all = document.querySelector('svg').getBoundingClientRect();
  return [...document.querySelectorAll('text')].filter(text => {
    const at = text.getBoundingClientRect();
    return at.left < all.left || at.right > all.right || at.bottom > all.bottom || !at.width;
  }).map(text => text.textContent);
}"""
_OVERLAPPING = """() => {
  const texts = [...document.querySelectorAll('g > text')].map(
    text => [text.textContent, text.getBoundingClientRect()]);
  const found = [];
  texts.forEach(([one, a], number) => texts.slice(number + 1).forEach(([other, b]) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 4) found.push(`${one} and ${other}`);
  }));
  return found;
}"""
_COLOURS = """() => {
  const of = selector => getComputedStyle(document.querySelector(selector)).fill;
  return [of('rect.g'), of('text')];
}"""


class Fleet(SnapshotStore):
    """The rows that Spark would give of 500 actives with a standby each."""

    hosts: int = HOSTS
    domain: str = ""

    def take(self, samza: SamzaClientResource) -> FleetSnapshot:
        rows: list[dict[str, Any]] = []
        at = datetime(2023, 11, 14, tzinfo=UTC)
        for number in range(ACTIVES):
            for processor, host in ((f"{number}", number), (f"{number}-0", number + 7)):
                rows.append(
                    {
                        "snapshot_time": at.timestamp() * 1000,
                        "job_name": "fleet",
                        "job_id": "1",
                        "processor_id": processor,
                        "host": f"host-{host % self.hosts}{self.domain}",
                        "mode": "Standby" if "-" in processor else "Active",
                        "tasks": 2,
                        "reported_at": at,
                    }
                )
        found = {name: arrow_table(name, ()) for name in DATASETS}
        found["container_locality"] = arrow_table("container_locality", rows)
        return FleetSnapshot(at, self.tables(), found, 0, {}, {}, {})


def materialized(stage: Stage, fleet: Fleet) -> None:
    """The asset as it is, in the instance whose UI is looked at."""
    with dg.DagsterInstance.from_config(str(stage.stack.home)) as instance:
        done = dg.materialize(
            [snapshot_assets()],
            instance=instance,
            resources={
                "samza": SamzaClientResource(bootstrap_servers="here:9092", job_name="fleet"),
                "samza_policies": PlacementPolicies(),
                "snapshot_store": fleet,
            },
        )
    assert done.success


@pytest.mark.parametrize(
    ("hosts", "domain", "scheme"),
    [(HOSTS, "", "light"), (HOSTS, "", "dark"), (100, DOMAIN, "light"), (250, DOMAIN, "light")],
)
def test_a_thousand_containers_are_seen_on_one_screen(
    browser: Browser,
    cockpit: Cockpit,
    stage: Stage,
    tmp_path: Path,
    hosts: int,
    domain: str,
    scheme: str,
) -> None:
    """The whole map is in the window without scrolling, no text of it is cut off or too small."""
    materialized(stage, Fleet(hosts=hosts, domain=domain, uri=str(tmp_path)))
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_asset("container_locality")
    cockpit.reads("hosts")
    dialog = cockpit.open_markdown("map")
    cockpit.screenshot(f"asset-map-{hosts}-{scheme}")
    (picture,) = cockpit.pictures_in(dialog)
    assert picture.is_whole, picture
    assert picture.right - picture.left > 1_300
    assert len(picture.source) < MOST_BYTES
    words = set(cockpit.page.locator("body").inner_text().replace(",", " ").split())
    for number in range(ACTIVES):
        assert {f"{number}", f"{number}-0"} <= words
    assert {f"host-{number}{domain}" for number in range(hosts)} <= words
    svg = base64.b64decode(picture.source.partition(",")[2]).decode()
    assert _letters(svg) * (picture.right - picture.left) / _width(svg) >= LEAST_LETTERS
    drawn = browser.new_page(viewport={"width": 1920, "height": 1080}, color_scheme=scheme)
    drawn.set_content(svg)
    assert drawn.locator("text").count() > 2 * ACTIVES + hosts
    assert drawn.evaluate(_CUT_OFF) == []
    assert drawn.evaluate(_OVERLAPPING) == []
    ground, ink = (_brightness(colour) for colour in drawn.evaluate(_COLOURS))
    assert (ground < ink) is (scheme == "dark")
    assert abs(ground - ink) > 150
    drawn.close()


def test_several_jobs_are_seen_at_a_glance(cockpit: Cockpit, stage: Stage) -> None:
    """A line for each, of one that runs and of one that isn't there; the summary stands without a click."""
    jobs = [f"{stage.connection.job_name}/{stage.connection.job_id}", "billing/2"]
    samza = SamzaClientResource(bootstrap_servers=stage.connection.bootstrap_servers, jobs=jobs)
    with dg.DagsterInstance.from_config(str(stage.stack.home)) as instance:
        assert dg.materialize(
            [fleet_overview()], instance=instance, resources={"samza": samza}
        ).success
    cockpit.open_asset("fleet_overview")
    cockpit.sees("well: 1 of 2 jobs; to look at: billing/2")
    cockpit.screenshot("fleet-overview")
    for said in (
        *jobs,
        "our coordinator on",
        "(4 containers)",
        "can't be read",
        "moves_7d",
        "bounced_7d",
    ):
        cockpit.reads(said)


def _letters(svg: str) -> int:
    (size,) = re.findall(r'<g font-size="(\d+)">', svg)
    return int(size)


def _width(svg: str) -> int:
    (width,) = re.findall(r'viewBox="0 0 (\d+) ', svg)
    return int(width)


def _brightness(colour: str) -> float:
    parts = [int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    return sum(parts) / 3
