"""An operator moves an active by hand: Launchpad, run page, and what an outsider sees."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from samza_dagster.model.naming import group_of
from tests.browser.cockpit import STARTS_S, Cockpit
from tests.browser.stage import Stage

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
    """The table at once; map before and after, and timeline, on a click and whole."""
    run_id = stage.run_id("move_with_standby")
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_run(run_id)
    cockpit.status_is("Success", seconds=60)
    if scheme == "light":
        cockpit.open_run(run_id, levels="critical|error|info|warning")
        cockpit.reads("Succeeded (6)")
        # Dagster's own events have paths of the machine that made the picture.
        expect(cockpit.page.get_by_text("STEP_SUCCESS")).to_have_count(0)
        cockpit.picture_of_the_pages("run", "Succeeded (6)")
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
def test_the_asset_of_requests_shows_the_moves_timeline(cockpit: Cockpit, scheme: str) -> None:
    """Without a click, and whole in width."""
    cockpit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    cockpit.open_asset("placement_history")
    cockpit.reads("timeline_picture")
    first, *_ = cockpit.pictures_in_place(1)
    assert first.is_seen
    assert first.right <= 1_400, "the column beside has the rest of the window"
    cockpit.screenshot(f"asset-placement_history-{scheme}")
