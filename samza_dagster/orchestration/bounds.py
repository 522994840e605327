"""Bounds of the numbers in a component's YAML, each of which may come from the environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Within:
    """From `least` to `most`, or more than `above`; nothing without an end.

    Not `Field(ge=…, le=…)`: Dagster looks at a template, `{{ env('NAME', '5') | int }}`, before
    it looks at the number that comes of it, and Pydantic's bounds refuse a text. This one
    passes the text and looks at the number.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        shown = handler(schema)
        bounds = {"minimum": self.least, "maximum": self.most, "exclusiveMinimum": self.above}
        shown.update({name: bound for name, bound in bounds.items() if bound is not None})
        return shown

    def _checked(self, value: object) -> object:
        if isinstance(value, (int, float)) and not self._holds(value):
            raise ValueError(f"{value:,} is out of bounds: {self}")
        return value

    def _holds(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
        )

    def __str__(self) -> str:
        """In words, for an error: `from 1 to 100`."""
        words = {"more than": self.above, "from": self.least, "to": self.most}
        return " ".join(f"{word} {bound:,}" for word, bound in words.items() if bound is not None)


IntervalS = Annotated[int, Within(1, 3_600)]
"""Seconds between two ticks of a sensor."""
