"""Values of a component's YAML: numbers within bounds, and texts as they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

import dagster as dg
from pydantic import (
    BeforeValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
)
from pydantic_core import CoreSchema, core_schema

from samza_dagster.errors import InvalidInput


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


def as_written(context: dg.ResolutionContext, value: Any) -> Any:
    """Resolve templates in a value, and in those that it holds, without making numbers of texts.

    Dagster reads each text as Python does, quoted or not: 12e5 as 1200000.0, and "0" as 0.
    """
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return {name: as_written(context, each) for name, each in held.items()}
    if isinstance(value, list):
        return [as_written(context, each) for each in cast("list[Any]", value)]
    if not isinstance(value, str) or not any(sign in value for sign in ("{{", "{%", "{#")):
        return value
    known = context.resolve_value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    resolve = cast("Callable[[str], Any]", known)
    given = resolve(value)
    if type(given) in (int, float, complex):
        return resolve(f"={value}")[1:]  # Python reads nothing in a text that begins so
    return given


def text(description: str | None = None, model: Any = None) -> dg.Resolver:
    """Resolve an attribute of texts by `as_written`; `model` is its type in the YAML, if another."""
    return dg.Resolver(
        as_written, inject_before_resolve=False, description=description, model_field_type=model
    )


def text_of(value: object, field: str) -> str:
    """A name or an id as text. Raises `InvalidInput` for what else YAML made of it."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise InvalidInput(
        f"{field} of the component",
        seen=f"{value!r}, which is neither a text nor a whole number",
        fix=f'quotes, as in {field}: "010"',
    )


def _as_text(value: object, info: ValidationInfo) -> str:
    return text_of(value, str(info.field_name))


Text = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]
"""A text in YAML, or a whole number: Pydantic alone takes `on` for 1."""
