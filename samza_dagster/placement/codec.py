"""The state as plain JSON values and back: what the state topic's records carry.

`None` fields and empty defaults are written too, so a record shows all that it says.
A reader is strict: an unknown version, an unknown field or a wrong type is refused.
A missing field is taken only when it has a default (a record of an older release).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.state import Group, Host, JobState, Processor

# Kept in records of their own.
_APART = ("groups", "hosts", "uuids", "refused", "lags", "index")

T = TypeVar("T")


def group_to_json(group: Group) -> dict[str, Any]:
    """A group as a JSON object."""
    return cast("dict[str, Any]", _encode(group))


def group_from_json(value: Any) -> Group:
    """A group from `group_to_json`; raises `MalformedRecord` that names the field."""
    return _decode_class(Group, value, "group")


def host_to_json(host: Host) -> dict[str, Any]:
    """A host as a JSON object."""
    return cast("dict[str, Any]", _encode(host))


def host_from_json(value: Any) -> Host:
    """A host from `host_to_json`; raises `MalformedRecord` that names the field."""
    return _decode_class(Host, value, "host")


def job_to_json(state: JobState) -> dict[str, Any]:
    """A job's state without what has records of its own, or is read anew after a restart."""
    return {
        f.name: _encode(getattr(state, f.name))
        for f in dataclasses.fields(state)
        if f.name not in _APART
    }


def job_from_json(value: Any) -> JobState:
    """The state from `job_to_json`, with no groups, hosts and uuids yet."""
    if isinstance(value, dict) and (apart := [name for name in _APART if name in value]):
        raise _malformed(f"job.{apart[0]}", "a field that has records of its own")
    return _decode_class(JobState, value, "job")


def _encode(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        return {key: _encode(entry) for key, entry in entries.items()}
    if isinstance(value, tuple):
        return [_encode(entry) for entry in cast("tuple[Any, ...]", value)]
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, value: Any, path: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (inner,) = [option for option in get_args(kind) if option is not type(None)]
        return _decode(inner, value, path)
    if origin is tuple:
        entries = cast("list[Any]", _expect(list, value, path))
        return tuple(
            _decode(get_args(kind)[0], entry, f"{path}[{place}]")
            for place, entry in enumerate(entries)
        )
    if origin is not None and issubclass(origin, Mapping):
        fields = cast("dict[str, Any]", _expect(dict, value, path))
        return {
            key: _decode(get_args(kind)[1], entry, f"{path}.{key}") for key, entry in fields.items()
        }
    if dataclasses.is_dataclass(kind):
        return _decode_class(cast("type[Any]", kind), value, path)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise _malformed(path, f"{value!r}") from error
    return _expect(kind, value, path)


def _decode_class(kind: type[T], value: Any, path: str) -> T:
    fields = cast("dict[str, Any]", _expect(dict, value, path))
    hints = _hints(kind)
    if kind is Processor and "avoid_host" in fields:
        fields = _without_avoid_host(fields)
    unknown = sorted(fields.keys() - hints.keys())
    if unknown:
        raise _malformed(f"{path}.{unknown[0]}", "a field that this release doesn't know")
    decoded = {
        name: _decode(hints[name], entry, f"{path}.{name}") for name, entry in fields.items()
    }
    try:
        return kind(**decoded)
    except TypeError as error:
        raise _malformed(path, str(error)) from error


def _without_avoid_host(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 1 remembered one host where a start had failed, not all of them."""
    kept = dict(fields)
    avoided = kept.pop("avoid_host")
    return {"avoid_hosts": [] if avoided is None else [avoided], **kept}


def _expect(kind: type[T], value: Any, path: str) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _malformed(path, f"{value!r}, not a {kind.__name__}")
    return value


def _malformed(path: str, seen: str) -> MalformedRecord:
    return MalformedRecord(
        "read a record of the state topic",
        seen=f"field {path}: {seen}",
        fix="a record as this release, or the one before it, writes it",
    )
