"""A thousand containers on one screen, as the UI renders them."""

from __future__ import annotations

import base64
from typing import Any

import dagster as dg
import pytest
from playwright.sync_api import Browser

from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore, TakenSnapshot
from samza_dagster.orchestration.assets.snapshots import snapshot_assets
from samza_dagster.orchestration.pictures import MOST_BYTES
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.browser.cockpit import Cockpit
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser

ACTIVES, HOSTS = 500, 50
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
    """The rows that Spark would give of 500 actives with a standby each, on 50 hosts."""

    def take(self, samza: SamzaClientResource) -> TakenSnapshot:
        rows: list[dict[str, Any]] = []
        for number in range(ACTIVES):
            for processor, host in ((f"{number}", number), (f"{number}-0", number + 7)):
                rows.append(
                    {
                        "processor_id": processor,
                        "host": f"host-{host % HOSTS}",
                        "mode": "Standby" if "-" in processor else "Active",
                        "tasks": 2,
                        "reported_at_ms": 1_700_000_000_000,
                    }
                )
        taken = {"container_locality": rows, "task_locality": [], "changelog_lag": []}
        return TakenSnapshot(1_700_000_000_000, taken, dict.fromkeys(taken, "/data"), {})


@pytest.fixture(scope="module")
def fleet(stage: Stage) -> None:
    """The asset as it is, materialized into the instance whose UI is looked at."""
    with dg.DagsterInstance.from_config(str(stage.stack.home)) as instance:
        done = dg.materialize(
            [snapshot_assets()],
            instance=instance,
            resources={
                "samza": SamzaClientResource(bootstrap_servers="here:9092", job_name="fleet"),
                "samza_policies": PlacementPolicies(),
                "snapshot_store": Fleet(),
            },
        )
    assert done.success


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_thousand_containers_are_seen_on_one_screen(
    browser: Browser, cockpit: Cockpit, scheme: str
) -> None:
    """The whole map is in the window without scrolling, and no text of it is cut off."""
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_asset("container_locality")
    cockpit.reads("hosts")
    dialog = cockpit.open_markdown("map")
    cockpit.screenshot(f"asset-map-{scheme}")
    (picture,) = cockpit.pictures_in(dialog)
    assert picture.is_whole, picture
    assert picture.right - picture.left > 1_300
    assert len(picture.source) < MOST_BYTES
    text = dialog.inner_text()
    words = set(text.replace(",", " ").split())
    for number in range(ACTIVES):
        assert {f"{number}", f"{number}-0"} <= words
    assert {f"host-{number}:" for number in range(HOSTS)} <= words
    drawn = browser.new_page(viewport={"width": 1920, "height": 1080}, color_scheme=scheme)
    drawn.set_content(base64.b64decode(picture.source.partition(",")[2]).decode())
    assert drawn.locator("text").count() > 2 * ACTIVES + HOSTS
    assert drawn.evaluate(_CUT_OFF) == []
    assert drawn.evaluate(_OVERLAPPING) == []
    ground, ink = (_brightness(colour) for colour in drawn.evaluate(_COLOURS))
    assert (ground < ink) is (scheme == "dark")
    assert abs(ground - ink) > 150
    drawn.close()


def _brightness(colour: str) -> float:
    parts = [int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    return sum(parts) / 3
