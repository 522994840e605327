"""An operator moves an active by hand: Launchpad, run page, and what an outsider sees."""

from __future__ import annotations

import pytest

from samza_dagster.model.naming import group_of
from tests.browser.cockpit import STARTS_S, Cockpit
from tests.browser.stage import Stage
from tests.rig.pace import PACE

pytestmark = pytest.mark.browser


def test_a_move_launched_by_clicking_ends_on_the_standbys_host(
    stage: Stage, cockpit: Cockpit
) -> None:
    """Chosen, typed, launched, watched: the containers' own word in the stream shows the move."""
    before, ran = stage.locality(), stage.all_run()
    cockpit.open_launchpad("move_with_standby")
    cockpit.choose("0")
    cockpit.fill(reason="empty the host", ticket="CHG-7")
    cockpit.screenshot("launchpad-move_with_standby")
    run_id = cockpit.launch()
    cockpit.status_is("Success", seconds=STARTS_S + 60)
    after, runs = stage.locality(), stage.all_run()
    assert after["0"] == before["0-0"]
    assert after["0-0"] not in (before["0"], before["0-0"])
    assert {p: h for p, h in after.items() if group_of(p) == "1"} == {
        p: h for p, h in before.items() if group_of(p) == "1"
    }
    assert {p for p in ran if ran[p].execution != runs[p].execution} == {"0", "0-0"}
    assert {p: c.host for p, c in runs.items()} == after
    told = stage.tags(run_id)
    assert (told["samza/why"], told["samza/ticket"]) == ("empty the host", "CHG-7")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_runs_page_shows_the_move(stage: Stage, cockpit: Cockpit, scheme: str) -> None:
    """Tables at once, pictures on a click; both whole, whatever the colour scheme."""
    run_id = stage.run_id("move_with_standby")
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_run(run_id)
    cockpit.filter_events("step:verify_placement type:STEP_OUTPUT")
    cockpit.reads("hosts_and_containers_table")
    cockpit.reads("0 active running")
    cockpit.screenshot(f"run-move_with_standby-{scheme}")
    for key, count in (("hosts_and_containers", 2), ("timeline", 1)):
        dialog = cockpit.open_markdown(key)
        cockpit.screenshot(f"run-{key}-{scheme}")
        pictures = cockpit.pictures_in(dialog)
        assert len(pictures) == count
        assert all(each.is_whole for each in pictures), pictures
        cockpit.close_dialog()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lag_of_the_standbys_is_plotted(stage: Stage, cockpit: Cockpit, scheme: str) -> None:
    """A snapshot by Spark of the job as it is; its picture, its table and Dagster's own plot."""
    if not stage.run_id("snapshot_assets"):
        run_id = stage.stack.runs.launch("snapshot_assets")
        assert stage.stack.runs.wait(run_id, timeout_s=240 * PACE) == "SUCCESS"
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_asset("changelog_lag")
    cockpit.reads("max_standby_lag_records")
    cockpit.reads("joiner-state")
    cockpit.screenshot(f"asset-changelog_lag-{scheme}")
    dialog = cockpit.open_markdown("lag_over_time")
    cockpit.screenshot(f"asset-lag_over_time-{scheme}")
    (picture,) = cockpit.pictures_in(dialog)
    assert picture.is_whole, picture
    cockpit.close_dialog()
    cockpit.page.get_by_text("Plots", exact=True).click()
    cockpit.reads("max_standby_lag_records")
    cockpit.screenshot(f"asset-plots-{scheme}")
    assert cockpit.page.locator("canvas").first.is_visible()
