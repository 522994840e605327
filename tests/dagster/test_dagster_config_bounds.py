"""What the Launchpad offers: lists and maps have bounds, and every field is heeded."""

from __future__ import annotations

from typing import Any

import pytest
from fake_placement import fake_job
from pydantic import BaseModel, ValidationError

from samza_dagster.orchestration.bounce.config import RollingBounceConfig
from samza_dagster.orchestration.drain.config import DrainHostConfig
from samza_dagster.orchestration.reconcile.job import ReconcileConfig

pytestmark = pytest.mark.dagster
LISTS: list[tuple[type[BaseModel], str]] = [
    (DrainHostConfig, "destinations"),
    (DrainHostConfig, "exclude"),
    (ReconcileConfig, "only"),
    (ReconcileConfig, "skip"),
    (RollingBounceConfig, "only"),
    (RollingBounceConfig, "skip"),
]


@pytest.mark.parametrize(("config", "field"), LISTS)
def test_a_list_names_as_many_as_the_largest_job_has_and_no_more(
    config: type[BaseModel], field: str
) -> None:
    """Each entry is a processor id or a host name."""
    most = [f"host-{n}.example.com" for n in range(10_000)]
    assert getattr(config(**{field: most}), field) == most
    for refused in ([*most, "one"], ["h" * 256], ["a host"], [""], ["a\nb"], ["host-1\n"]):
        with pytest.raises(ValidationError, match=field):
            config(**{field: refused})


def test_pins_are_processors_on_hosts() -> None:
    """As many as the largest job has."""
    most = {str(n): f"host-{n % 100}" for n in range(10_000)}
    assert ReconcileConfig(wanted=most).wanted == most
    wrong: list[dict[str, Any]] = [
        {**most, "one": "host-1"},
        {"0-": "host-1"},
        {"0" * 129: "host-1"},
        {"0": "h" * 256},
        {"0": "a host"},
    ]
    for refused in wrong:
        with pytest.raises(ValidationError, match="wanted"):
            ReconcileConfig(wanted=refused)


def test_to_give_up_offers_no_time_that_it_doesn_t_heed() -> None:
    """It reserves nothing and verifies nothing."""
    (op,) = fake_job("cancel_waiting").nodes
    fields = set(op.definition.config_schema.config_type.fields)
    assert fields == {
        *("reason", "ticket", "requested_by", "timeout_s", "dry_run"),
        *("run", "remove_standby"),
    }
