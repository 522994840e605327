"""How a term begins in a log: with the records that its leader read, and what that must be.

The line is `{"version": 1, "job": ..., "term": <the leader's epoch>, "records": {...},
"limits": {...}, "state": "<digest>"}`: the records of the state topic by key, restored by
the code that does so in production, and the limits that the leader goes by. A new job
has no records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.codec import encode
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import JobState, Limits
from tests.simulation.event_codec import decode, malformed
from tests.simulation.judges.durability import passed_on
from tests.simulation.judges.violation import InvariantViolated

_LONGEST = 200
"""Characters of a value that is told."""


@dataclass(frozen=True, slots=True)
class TermStart:
    """The line read back: `stored` is what the records hold, `state` what is led on."""

    term: int
    stored: JobState
    state: JobState
    digest: str

    @classmethod
    def of(cls, line: Mapping[str, Any], path: str) -> TermStart:
        """Raises `MalformedRecord` that names the line and the field."""
        job = decode(str, line.get("job"), f"{path}.job")
        records: dict[str, Any] = decode(dict, line["records"], f"{path}.records")
        for key, value in records.items():
            decode(dict, value, f"{path}.records.{key}")
        limits = decode(Limits, line.get("limits"), f"{path}.limits")
        try:
            stored = restore(records, job)
        except MalformedRecord as error:
            raise malformed(f"{path}.records", error.seen) from error
        except KeyError as error:
            raise malformed(f"{path}.records", f"a record without {error}") from error
        return cls(
            decode(int, line.get("term"), f"{path}.term"),
            stored,
            replace(stored, limits=limits),
            str(line.get("state")),
        )


class Difference(NamedTuple):
    """The first field of a state that isn't as expected; values as JSON, cut to a line."""

    where: str
    expected: str
    seen: str


def not_passed_on(before: JobState, stored: JobState) -> Difference | None:
    """How `stored` differs from what a take-over after `before` restores; None when it doesn't.

    The simulator's own take-over says what that is. When the last event was, no record tells
    for certain, and nothing depends on it.
    """
    try:
        expected = _in_order(passed_on(before))
    except InvariantViolated as violation:
        return Difference(violation.invariant, "", violation.what[:_LONGEST])
    seen = _in_order(stored)
    return _difference(expected, seen, "")


def _in_order(state: JobState) -> dict[str, Any]:
    """Fields as they are declared, groups and hosts by name: which difference is first is fixed."""
    return {
        name: dict(sorted(cast("dict[str, Any]", value).items()))
        if isinstance(value, dict)
        else value
        for name, value in encode(state).items()
        if name != "now_ms"
    }


def _difference(expected: Any, seen: Any, where: str) -> Difference | None:
    if expected == seen:
        return None
    if isinstance(expected, dict) and isinstance(seen, dict):
        one, other = cast("dict[str, Any]", expected), cast("dict[str, Any]", seen)
        for key in (*one, *(key for key in other if key not in one)):
            path = f"{where}.{key}".removeprefix(".")
            if key not in one or key not in other:
                return Difference(path, _value_text(one, key), _value_text(other, key))
            if one[key] != other[key]:
                return _difference(one[key], other[key], path)
    return Difference(where, _text(expected), _text(seen))


def _value_text(values: dict[str, Any], key: str) -> str:
    return _text(values[key]) if key in values else "nothing"


def _text(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
