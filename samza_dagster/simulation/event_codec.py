"""Events as plain JSON values and back, for a log of them.

Decoding is strict: an unknown kind or field, or a wrong type, is refused.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import events as ev

VERSION = 1
"""Of a log's lines."""
_PLAIN = frozenset({str, int, bool})
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(ev.Event)}


def encode_event(event: ev.Event) -> dict[str, Any]:
    """Plain JSON values; `kind` is the event's class."""
    return {"kind": type(event).__name__, **encode(event)}


def decode_event(value: Mapping[str, Any]) -> ev.Event:
    """The reverse of `encode_event`; raises `MalformedRecord` that names the field."""
    fields = dict(value)
    name = fields.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise malformed("kind", repr(name))
    return cast("ev.Event", decode_class(kind, fields, str(name)))


def encode(value: Any) -> Any:
    """Frozen data as plain JSON values; a state's derived index is left out."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if f.name != "index"]
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: encode(entry) for key, entry in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, frozenset):
        return sorted(encode(entry) for entry in cast("frozenset[Any]", value))
    if isinstance(value, tuple):
        return [encode(entry) for entry in cast("tuple[Any, ...]", value)]
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def decode_class(kind: type[Any], value: Any, path: str) -> Any:
    """The reverse of `encode` for a class; raises `MalformedRecord` that names the field."""
    given = cast("dict[str, Any]", expect(dict, value, path))
    hints = _hints(kind)
    unknown = sorted(given.keys() - hints.keys())
    if unknown:
        raise malformed(f"{path}.{unknown[0]}", "a field that this release doesn't know")
    decoded = {name: _decode(hints[name], given[name], f"{path}.{name}") for name in given}
    try:
        return kind(**decoded)
    except TypeError as error:
        raise malformed(path, str(error)) from error


def _decode(kind: Any, value: Any, path: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (inner,) = [option for option in args if option is not type(None)]
        return _decode(inner, value, path)
    if origin in (tuple, frozenset):
        entries = cast("list[Any]", expect(list, value, path))
        found = (_decode(args[0], entry, f"{path}[{n}]") for n, entry in enumerate(entries))
        return frozenset(found) if origin is frozenset else tuple(found)
    if origin is not None and issubclass(origin, Mapping):
        given = cast("dict[str, Any]", expect(dict, value, path))
        return {key: _decode(args[1], entry, f"{path}.{key}") for key, entry in given.items()}
    if dataclasses.is_dataclass(kind):
        return decode_class(cast("type[Any]", kind), value, path)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise malformed(path, repr(value)) from error
    return expect(kind, value, path)


def expect(kind: type[Any], value: Any, path: str) -> Any:
    """The value, which is of that type; raises `MalformedRecord` when it isn't."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise malformed(path, f"{value!r}, not a {kind.__name__}")
    return value


def malformed(path: str, seen: str) -> MalformedRecord:
    """What can't be read, and where."""
    return MalformedRecord(
        "read a log of events",
        seen=f"{path}: {seen}",
        fix=f"a log of version {VERSION} as this release writes it",
    )
