"""Whose a deployment is, by what coordinator stream and state topic say."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.adoption import Deployed, require_ours
from samza_dagster.errors import Refused

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "deployed",
    [Deployed(), Deployed(ours="run-1"), Deployed(run_id="run-1", ours="run-1")],
    ids=["nothing was deployed", "the stream was made anew", "both say the same"],
)
def test_what_nobody_else_deployed_is_led_unasked(deployed: Deployed) -> None:
    require_ours(deployed, adopt=False)


@pytest.mark.parametrize("ours", [None, "run-0"])
def test_what_another_deployed_is_led_when_told_to(ours: str | None) -> None:
    deployed = Deployed(run_id="run-1", ours=ours)
    with pytest.raises(Refused, match="--adopt"):
        require_ours(deployed, adopt=False)
    require_ours(deployed, adopt=True)
