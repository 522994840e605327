"""Nobody is offered an expiry that the coordinator refuses, nor denied one that it takes."""

from __future__ import annotations

import pytest

from samza_dagster.client.checks import expiry_ms
from samza_dagster.errors import InvalidInput
from samza_dagster.model.own_requests import LONGEST_EXPIRY_MS
from samza_dagster.orchestration.config import RunConfig
from samza_dagster.orchestration.plans.bounce import RollingBounceConfig
from samza_dagster.orchestration.policies import PlacementPolicies

pytestmark = pytest.mark.unit

LONGEST_S = LONGEST_EXPIRY_MS // 1000


def test_the_client_asks_for_the_longest_expiry_at_most() -> None:
    """And so both command lines, which ask through it."""
    assert expiry_ms(LONGEST_S) == LONGEST_EXPIRY_MS
    with pytest.raises(InvalidInput, match=f"{LONGEST_S}"):
        expiry_ms(LONGEST_S + 0.001)


@pytest.mark.parametrize("config", [RunConfig, RollingBounceConfig, PlacementPolicies])
def test_a_run_may_name_the_longest_expiry_at_most(config: type) -> None:
    """Where a launchpad, a component's policies or a schedule says it."""
    bounds = config.model_fields["request_expiry_s"].metadata  # type: ignore[attr-defined]
    most = [getattr(b, "le", getattr(b, "most", None)) for b in bounds]
    assert LONGEST_S in most, bounds
