"""What a rule forbids is told where an operator looks: on the run's page."""

from __future__ import annotations

import pytest

from tests.browser.cockpit import STARTS_S, Cockpit
from tests.browser.stage import Stage

pytestmark = pytest.mark.browser


def test_a_move_onto_a_forbidden_host_tells_the_rule_and_the_fix(
    stage: Stage, cockpit: Cockpit
) -> None:
    """A standby beside its active: the words of `explain`, and nothing was asked."""
    before, asked = stage.all_run(), stage.requests()
    forbidden = before["0"].host
    ruled = stage.client.plan("0-0", forbidden)
    assert ruled.refusal is not None
    cockpit.open_launchpad("move_container")
    cockpit.choose("0-0")
    legal = [one.host for one in ruled.hosts if one.legal and one.host != before["0-0"].host]
    cockpit.asks_for(destination=" or ".join([*legal, "ANY_HOST"]))
    cockpit.screenshot("launchpad-move_container-as-it-is-filled")
    cockpit.fill(destination=forbidden, reason="beside its active")
    cockpit.screenshot("launchpad-move_container")
    run_id = cockpit.launch()
    cockpit.status_is("Failure", seconds=STARTS_S)
    verdict = next(v for v in ruled.hosts if v.host == forbidden)
    cockpit.filter_events("type:STEP_FAILURE")
    for told in (verdict.rule, verdict.seen, verdict.fix):
        assert told
        cockpit.reads(told)
    cockpit.screenshot("run-move_container-refused")
    assert stage.requests() == asked
    assert stage.all_run() == before
    assert run_id
