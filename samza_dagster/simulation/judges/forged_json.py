"""JSON that is no audit record of this release: what a reader has to refuse by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ODD_PAIRS: tuple[Any, ...] = (
    None,
    "ab",
    7,
    {},
    [["one"]],
    [["a", "b", "c"]],
    [[1, "b"]],
    [["a", 2]],
    [7],
    ["ab"],
)
_ODD: dict[str, tuple[Any, ...]] = {
    "others": _ODD_PAIRS,
    "left_behind": _ODD_PAIRS,
    "predecessor": (7, "none", [], True, {}),
    "lag_records": ("1", True, 2.5, []),
    "ready_in_ms": ("1", True, 2.5, []),
    "previous_at_ms": ("1", True, 2.5, []),
}


def forged_records(value: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """JSON that is no record of this release, and the field that a refusal must name."""
    nothing: tuple[Any, ...] = (None, [], "text", 7)
    for odd in nothing:
        yield odd, "no JSON object"
    for version in (0, 2, "1", None, True, 1.0):
        yield {**value, "version": version}, "version"
    yield {k: v for k, v in value.items() if k != "version"}, "version"
    yield {**value, "later": 1}, "later"
    named = {
        "execution_id": "e",
        "epoch": 1,
        "host": "h",
        "how": "dead",
        "at_ms": 1,
        "evidence": "",
    }
    yield {**value, "predecessor": {**named, "later": 1}}, "predecessor.later"
    for name, kept in named.items():
        left = {k: v for k, v in named.items() if k != name}
        yield {**value, "predecessor": left}, f"predecessor.{name}"
        others: tuple[Any, ...] = (None, True, 2.5, [], "1" if isinstance(kept, int) else 1)
        for odd in others:
            wrong = {**named, name: odd}
            yield {**value, "predecessor": wrong}, f"predecessor.{name}"
    for name, kept in value.items():
        if name == "version":
            continue
        if name not in ("left_behind", "previous_at_ms", "grouping"):  # without it there is none
            yield {k: v for k, v in value.items() if k != name}, name
        odd_ones = _ODD.get(name) or (None, True, 2.5, [], "1" if isinstance(kept, int) else 1)
        for odd in odd_ones:
            yield {**value, name: odd}, name
