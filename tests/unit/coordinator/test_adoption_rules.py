"""Whose a deployment is, by what coordinator stream and state topic say."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.adoption import Deployed, deployed_by, require_ours
from samza_dagster.errors import Refused
from samza_dagster.metadata.memory_store import MemoryMetadataStore

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


def test_a_record_that_cant_be_read_gives_nobodys_job_away() -> None:
    """One in another's config made its whole deployment nobody's, which was then led unasked."""
    store = MemoryMetadataStore()
    store.put("set-config", "app.run.id", b'{"values":{"value":"run-1"}}')
    store.put("set-config", "poison", b"{")
    assert deployed_by(store, None).run_id == "run-1"
    store.put("set-config", "app.run.id", b"{")
    with pytest.raises(Refused, match="not readable"):
        require_ours(deployed_by(store, None), adopt=False)
    require_ours(deployed_by(store, "run-1"), adopt=False)
