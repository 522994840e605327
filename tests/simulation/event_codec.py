"""Events from the plain JSON values of a log of them.

Decoding is strict: an unknown kind or field, or a wrong type, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from samza_dagster.coordinator.recording import VERSION
from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import codec
from samza_dagster.placement import events as ev

_KINDS: dict[str, type[ev.Event]] = {kind.__name__: kind for kind in get_args(ev.Event)}


def decode_event(value: Mapping[str, Any]) -> ev.Event:
    """The reverse of the coordinator's `encode_event`; raises `MalformedRecord` that names the field."""
    fields = dict(value)
    name = fields.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise malformed("kind", repr(name))
    return decode(kind, fields, kind.__name__)


def decode(kind: type[Any], value: Any, path: str) -> Any:
    """A value of this type; raises `MalformedRecord` that names the field."""
    try:
        return codec.decode(kind, value, path)
    except codec.Misfit as error:
        raise malformed(error.path, error.seen) from error


def malformed(path: str, seen: str) -> MalformedRecord:
    """What can't be read, and where."""
    return MalformedRecord(
        "read a log of events",
        seen=f"{path}: {seen}",
        fix=f"a log of version {VERSION} as this release writes it",
    )
