"""A bounce that an operator ends half-way leaves nothing half done."""

from __future__ import annotations

import re

import pytest

from tests.browser.cockpit import STARTS_S, Cockpit
from tests.browser.stage import Stage
from tests.rig.waiting import until

pytestmark = pytest.mark.browser


def test_a_bounce_ended_half_way_leaves_the_job_clean(stage: Stage, cockpit: Cockpit) -> None:
    """Nothing held, everybody runs, nobody else is asked, and the run says who was bounced."""
    before, locality = stage.all_run(), stage.locality()
    asked = stage.requests()
    cockpit.open_launchpad("rolling_bounce")
    cockpit.fill(bake_s=0, reason="half a bounce")
    cockpit.screenshot("launchpad-rolling_bounce")
    run_id = cockpit.launch()
    first = until(
        "one container is back and the next one is asked",
        lambda: _half_way(stage.logged(run_id)),
        seconds=STARTS_S + 60,
        every=0.1,
    )
    cockpit.screenshot("run-rolling_bounce-half-way")
    cockpit.terminate()
    cockpit.status_is("Canceled", seconds=60)
    requests = stage.requests()
    after = stage.all_run()
    bounced = {p for p in before if before[p].execution != after[p].execution}
    cockpit.filter_events("terminated")
    cockpit.reads("terminated")
    cockpit.screenshot("run-rolling_bounce-terminated")
    told = next(text for text in stage.logged(run_id) if text.startswith("**terminated**"))
    back, flying = _listed(told, "bounced"), _listed(told, "in flight")
    assert first in back
    assert len(flying) <= 1
    assert back <= bounced <= back | flying
    assert bounced != before.keys()
    assert all(p in told for p in before)
    tags = stage.tags(run_id)
    assert tags["samza/bounce"] == "terminated"
    assert tags["samza/progress"].startswith(f"{len(back)}/4")
    assert stage.locality() == locality
    assert {p: c.execution for p, c in stage.all_run().items()} == {
        p: c.execution for p, c in after.items()
    }
    assert stage.requests() == requests > asked


def _listed(told: str, what: str) -> set[str]:
    """The processors that the bounce's last words name so."""
    lines = re.findall(rf"^- {what}: (.*)$", told, re.MULTILINE)
    return {found for line in lines for found in re.findall(r"\b\d+(?:-\d+)?(?=,|:|$)", line)}


def _half_way(logged: list[str]) -> str:
    """Who is back, once another one is in flight; empty until then."""
    back = [m[1] for text in logged if (m := re.match(r"(\S+) on \S+: back", text))]
    flying = {m[1] for text in logged if (m := re.match(r"(\S+) on \S+: in[ -]flight", text))}
    return back[0] if len(back) == 1 and len(flying) > 1 else ""
