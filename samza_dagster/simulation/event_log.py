"""The events that a coordinator took, one JSON object a line, and their replay.

A line is `{"version": 1, "event": {...}, "state": "<digest after it>"}`; the first may be
`{"version": 1, "job": "<name>"}` for a job that begins with it, else a job's name is "demo".
Decoding is strict: an unknown kind or field, or a wrong type, is refused.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState
from samza_dagster.simulation.fingerprint import state_digest
from samza_dagster.simulation.world import Reducer

__all__ = ["LogReplayed", "decode_event", "encode_event", "line_of", "replay_log", "state_digest"]

VERSION = 1
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(ev.Event)}


def encode_event(event: ev.Event) -> dict[str, Any]:
    """Plain JSON values; `kind` is the event's class."""
    return {"kind": type(event).__name__, **_encode(event)}


def decode_event(value: Mapping[str, Any]) -> ev.Event:
    """The reverse of `encode_event`; raises `MalformedRecord` that names the field."""
    fields = dict(value)
    name = fields.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise _malformed("kind", repr(name))
    return cast("ev.Event", _decode_class(kind, fields, str(name)))


def line_of(event: ev.Event, after: JobState) -> str:
    """A line of the log, without the newline."""
    line = {"version": VERSION, "event": encode_event(event), "state": state_digest(after)}
    return json.dumps(line, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class LogReplayed:
    """How far a log could be followed; `differs` names the first line that gave another state."""

    events: int
    differs: int | None = None
    expected: str = ""
    seen: str = ""


def replay_log(
    source: Path | Iterable[str], *, heart: Reducer = step, start: JobState | None = None
) -> LogReplayed:
    """Steps the heart through a log and compares the state after every event.

    Raises `MalformedRecord` for a line that can't be read, and names it.
    """
    if isinstance(source, Path):
        with source.open(encoding="utf-8") as lines:
            return replay_log(lines, heart=heart, start=start)
    state = start if start is not None else JobState("demo")
    events = 0
    for number, text in enumerate(source, 1):
        line = _line(number, text)
        if "job" in line:
            state = JobState(str(line["job"]))
            continue
        state = heart(state, decode_event(_expect(dict, line.get("event"), f"line {number}")))
        state = state.state
        events += 1
        seen = state_digest(state)
        if seen != line.get("state"):
            return LogReplayed(events, number, str(line.get("state")), seen)
    return LogReplayed(events)


def _line(number: int, text: str) -> dict[str, Any]:
    try:
        line: Any = json.loads(text)
    except ValueError as error:
        raise _malformed(f"line {number}", str(error)) from error
    if not isinstance(line, dict):
        raise _malformed(f"line {number}", "no JSON object")
    found = cast("dict[str, Any]", line)
    if found.get("version") != VERSION:
        raise _malformed(f"line {number}", f"version {found.get('version')!r}")
    return found


def _encode(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _encode(entry) for key, entry in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, frozenset):
        return sorted(_encode(entry) for entry in cast("frozenset[Any]", value))
    if isinstance(value, tuple):
        return [_encode(entry) for entry in cast("tuple[Any, ...]", value)]
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode_class(kind: type[Any], value: Any, path: str) -> Any:
    given = cast("dict[str, Any]", _expect(dict, value, path))
    hints = _hints(kind)
    unknown = sorted(given.keys() - hints.keys())
    if unknown:
        raise _malformed(f"{path}.{unknown[0]}", "a field that this release doesn't know")
    decoded = {name: _decode(hints[name], given[name], f"{path}.{name}") for name in given}
    try:
        return kind(**decoded)
    except TypeError as error:
        raise _malformed(path, str(error)) from error


def _decode(kind: Any, value: Any, path: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (inner,) = [option for option in args if option is not type(None)]
        return _decode(inner, value, path)
    if origin in (tuple, frozenset):
        entries = cast("list[Any]", _expect(list, value, path))
        found = (_decode(args[0], entry, f"{path}[{n}]") for n, entry in enumerate(entries))
        return frozenset(found) if origin is frozenset else tuple(found)
    if origin is not None and issubclass(origin, Mapping):
        given = cast("dict[str, Any]", _expect(dict, value, path))
        return {key: _decode(args[1], entry, f"{path}.{key}") for key, entry in given.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_class(cast("type[Any]", kind), value, path)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise _malformed(path, repr(value)) from error
    return _expect(kind, value, path)


def _expect(kind: type[Any], value: Any, path: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _malformed(path, f"{value!r}, not a {kind.__name__}")
    return value


def _malformed(path: str, seen: str) -> MalformedRecord:
    return MalformedRecord(
        "read a log of events",
        seen=f"{path}: {seen}",
        fix=f"a log of version {VERSION} as this release writes it",
    )
