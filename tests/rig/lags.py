"""What a drain knows of lags, in a word."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.plans.conditions import Reported

Lags = tuple[Reported, CatchUp]


def lags(behind: Mapping[str, int | None], limit: int) -> Lags:
    """How far each is behind, and up to where that is warm."""
    return Reported(behind, {}, {}), CatchUp(limit, 0.0, 0.0)
