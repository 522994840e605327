"""The state as plain JSON values and back: the content of the state topic's records.

The writer includes `None` fields and empty defaults, so a record is complete. The reader refuses
an unknown version, an unknown field and a wrong type. It accepts a missing field only when the
field has a default.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.state import Action, Group, Host, JobState

# These fields have records of their own.
_APART = ("groups", "hosts", "uuids", "refused", "lags", "index")
# A record of one of these names its class.
_KINDS = {kind.__name__: kind for kind in get_args(Action)}

T = TypeVar("T")
_PLAIN = frozenset({str, int, bool})
_IN_WORDS: dict[type, str] = {str: "text", int: "whole number", list: "array", dict: "JSON object"}


class Misfit(Exception):
    """The field at `path` has an invalid value; `seen` describes the value for a person."""

    def __init__(self, path: str, seen: str) -> None:
        super().__init__(f"{path}: {seen}")
        self.path = path
        self.seen = seen


def state_digest(state: JobState) -> str:
    """Return the SHA-256 of a state in canonical JSON, without its derived index."""
    text = json.dumps(encode(state), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def group_to_json(group: Group) -> dict[str, Any]:
    """Return a group as a JSON object."""
    return cast("dict[str, Any]", encode(group))


def group_from_json(value: Any) -> Group:
    """Return the group of `group_to_json`; raise `MalformedRecord` that names the field."""
    return _read(Group, value, "group")


def host_to_json(host: Host) -> dict[str, Any]:
    """Return a host as a JSON object."""
    return cast("dict[str, Any]", encode(host))


def job_to_json(state: JobState) -> dict[str, Any]:
    """Return a job's state without the fields that have own records or are read after a restart."""
    return {
        f.name: encode(getattr(state, f.name))
        for f in dataclasses.fields(state)
        if f.name not in _APART
    }


def job_from_json(value: Any) -> JobState:
    """Return the state of `job_to_json`, still without groups, hosts and uuids."""
    if isinstance(value, dict) and (apart := [name for name in _APART if name in value]):
        raise _malformed(f"job.{apart[0]}", "a field that has records of its own")
    return _read(JobState, value, "job")


def encode(value: Any) -> Any:
    """Return frozen data as plain JSON values, without a state's derived index."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        encoded = {name: encode(getattr(value, name)) for name in _names(type(value))}
        kind = type(value).__name__
        return {"kind": kind, **encoded} if kind in _KINDS else encoded
    if isinstance(value, Mapping):
        return {key: encode(entry) for key, entry in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, frozenset):
        return sorted(encode(entry) for entry in cast("frozenset[Any]", value))
    if isinstance(value, tuple):
        return [encode(entry) for entry in cast("tuple[Any, ...]", value)]
    return value


def decode(kind: Any, value: Any, path: str) -> Any:
    """Return the value of type `kind` that `encode` wrote; raise `Misfit` that names the field."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        options = [option for option in args if option is not type(None)]
        return _decode_kind(value, path) if options[1:] else decode(options[0], value, path)
    if origin in (tuple, frozenset):
        entries = cast("list[Any]", _expect(list, value, path))
        if origin is tuple and args[-1] is not Ellipsis and len(entries) != len(args):
            raise Misfit(path, f"{value!r:.40}, no array of {len(args)}")
        found = [decode(args[0], entry, f"{path}[{place}]") for place, entry in enumerate(entries)]
        return frozenset(found) if origin is frozenset else tuple(found)
    if origin is not None and issubclass(origin, Mapping):
        given = cast("dict[str, Any]", _expect(dict, value, path))
        return {key: decode(args[1], entry, f"{path}.{key}") for key, entry in given.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_class(cast("type[Any]", kind), value, path)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise Misfit(path, f"{value!r:.40}") from error
    return _expect(kind, value, path)


def _expect(kind: type[T], value: Any, path: str) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Misfit(path, f"{value!r:.40}, no {_IN_WORDS.get(kind, kind.__name__)}")
    return value


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if f.name != "index")


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return the type of each field."""
    # rpds' class takes no type parameters at run time.
    return get_type_hints(kind, localns={"HashTrieMap": Mapping})


def _decode_kind(value: Any, path: str) -> Any:
    fields = dict(cast("dict[str, Any]", _expect(dict, value, path)))
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Misfit(f"{path}.kind", f"{kind!r:.40}, no kind of action")
    return _decode_class(_KINDS[kind], fields, path)


@cache
def _required(kind: type[Any]) -> frozenset[str]:
    missing = dataclasses.MISSING
    return frozenset(
        f.name
        for f in dataclasses.fields(kind)
        if f.default is missing and f.default_factory is missing
    )


def _decode_class(kind: type[T], value: Any, path: str) -> T:
    fields = cast("dict[str, Any]", _expect(dict, value, path))
    hints = _hints(kind)
    if unknown := fields.keys() - _names(kind):
        raise Misfit(f"{path}.{min(unknown)}", "a field that this release doesn't know")
    if missing := _required(kind) - fields.keys():
        raise Misfit(f"{path}.{min(missing)}", "missing")
    return kind(**{name: decode(hints[name], fields[name], f"{path}.{name}") for name in fields})


def _read(kind: type[T], value: Any, path: str) -> T:
    try:
        return decode(kind, value, path)
    except Misfit as error:
        raise _malformed(error.path, error.seen) from error


def _malformed(path: str, seen: str) -> MalformedRecord:
    return MalformedRecord(
        "read a record of the state topic",
        seen=f"field {path}: {seen}",
        fix="a record as this release, or the one before it, writes it",
    )
