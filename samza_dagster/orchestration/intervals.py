"""How often a sensor ticks, as the YAML of a component says it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

LEAST_S, MOST_S = 1, 3_600


def _within(value: Any) -> Any:
    """Dagster looks at the YAML's template, a text, before it looks at the number that comes of it."""
    if isinstance(value, int) and not LEAST_S <= value <= MOST_S:
        raise ValueError(f"{value} s; from {LEAST_S} to {MOST_S} s are possible")
    return value


IntervalS = Annotated[
    int,
    AfterValidator(_within),
    Field(json_schema_extra={"minimum": LEAST_S, "maximum": MOST_S}),
]
"""Seconds between two ticks, 1 to 3,600. May stand in a component's YAML as
`{{ env('NAME', '5') | int }}`, which Pydantic's own bounds would refuse before it is a number."""
