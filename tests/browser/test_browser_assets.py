"""The pages of assets as an operator finds them: pictures in place, times, checks."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from samza_dagster.orchestration.assets.datasets import DATASETS
from tests.browser.cockpit import Cockpit
from tests.browser.stage import Stage
from tests.rig.pace import PACE

pytestmark = pytest.mark.browser

MILLISECONDS = re.compile(r"\b1[678]\d{11}\b")


@pytest.fixture(scope="module")
def snapshots(stage: Stage) -> str:
    """Two runs of the snapshot assets by Spark, of the job as it is: the last one's id."""
    run_id = stage.run_id("snapshot_assets")
    for _ in range(2):
        run_id = stage.stack.runs.launch("snapshot_assets")
        assert stage.stack.runs.wait(run_id, timeout_s=240 * PACE) == "SUCCESS"
    return run_id


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("asset", DATASETS)
def test_the_page_of_an_asset_shows_its_picture_without_a_click(
    cockpit: Cockpit, snapshots: str, asset: str, scheme: str
) -> None:
    """At the top of its metadata, whole in width; no time in milliseconds since the epoch."""
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_asset(asset)
    name = DATASETS[asset].picture or "rows"
    cockpit.reads(name)
    if name != "rows":
        # The newest one stands in the description, that of the newest snapshot in its metadata.
        first, *_ = cockpit.pictures_in_place(2)
        assert first.is_seen
        assert first.right <= 1_400, "the column beside has the rest of the window"
        assert first.top < 800
    cockpit.screenshot(f"asset-{asset}-{scheme}")
    if asset == "container_locality" and scheme == "light":
        at_the_end_of_its_history = f"/{datetime.now(UTC).year}"
        cockpit.picture_of_the_pages("map", " ago", "check results", at_the_end_of_its_history)
    assert not MILLISECONDS.search(cockpit.page.locator("body").inner_text())


def test_no_check_was_never_evaluated(cockpit: Cockpit, snapshots: str) -> None:
    """The sensors' first ticks judge all, and the first snapshot the rest."""
    for asset in ("container_locality", "task_locality", "changelog_lag"):
        cockpit.page.goto(f"{cockpit.url}/assets/{asset}?view=checks")
        expect(cockpit.page.get_by_text("Never", exact=False)).to_have_count(0)
        expect(cockpit.page.get_by_text("Not evaluated", exact=False)).to_have_count(0)
        cockpit.screenshot(f"checks-{asset}")
