"""Audit records as JSON objects and back: what the audit topic and an exported history carry.

A reader is strict: an unknown version, an unknown, missing or wrongly typed field is
refused by name. Nothing is judged here; `verification` judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_type_hints

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.certificates import LEFT_OUT, AuditRecord, Predecessor, content_of

VERSION = 1
_KINDS: dict[str, Any] = get_type_hints(AuditRecord)
_PREDECESSOR_KINDS: dict[str, Any] = get_type_hints(Predecessor)
_PAIRS = {"others": "[processor, host]", "left_behind": "[processor, execution id]"}
_A_FORM_OF = {str: "no text", int: "no whole number", int | None: "no whole number"}


def audit_to_json(record: AuditRecord) -> dict[str, Any]:
    """The record as a JSON object with `"version": 1`; what a digest leaves out is left out."""
    return {"version": VERSION, **content_of(record)}


def audit_from_json(value: object, where: str) -> AuditRecord:
    """The record of `audit_to_json`.

    `where` says for a person which one it is (topic and offset, file and line). Raises
    `MalformedRecord` that names it, the field, and what is wrong.
    """
    if not isinstance(value, Mapping):
        raise _malformed(where, "", f"{value!r:.40}, no JSON object")
    given = dict(cast("Mapping[str, Any]", value))
    version = given.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise _malformed(where, "version", f"{version!r:.40} instead of {VERSION}")
    given = {**LEFT_OUT, **given}
    _require_names(given, _KINDS, where, "")
    for name, field in given.items():
        if name == "predecessor":
            given[name] = None if field is None else _predecessor(field, where)
        elif name in _PAIRS:
            given[name] = _pairs(field, where, name)
        else:
            _require_plain(_KINDS[name], field, where, name)
    return AuditRecord(**given)


def _predecessor(value: object, where: str) -> Predecessor:
    if not isinstance(value, Mapping):
        raise _malformed(where, "predecessor", f"{value!r:.40}, no JSON object")
    given = dict(cast("Mapping[str, Any]", value))
    _require_names(given, _PREDECESSOR_KINDS, where, "predecessor.")
    for name, field in given.items():
        _require_plain(_PREDECESSOR_KINDS[name], field, where, f"predecessor.{name}")
    return Predecessor(**given)


def _pairs(value: object, where: str, name: str) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for entry in cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]:
        pair = tuple(cast("list[object]", entry)) if isinstance(entry, (list, tuple)) else ()
        if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise _malformed(where, name, f"{entry!r:.40}, no {_PAIRS[name]}")
        pairs.append(cast("tuple[str, str]", pair))
    return tuple(pairs)


def _require_names(
    given: Mapping[str, Any], kinds: Mapping[str, Any], where: str, prefix: str
) -> None:
    for name in sorted(given.keys() - kinds.keys()):
        raise _malformed(where, prefix + name, "a field that this release doesn't know")
    for name in sorted(kinds.keys() - given.keys()):
        raise _malformed(where, prefix + name, "missing")


def _require_plain(kind: Any, value: object, where: str, path: str) -> None:
    fits = type(value) is kind or (kind == int | None and (value is None or type(value) is int))
    if not fits:
        raise _malformed(where, path, f"{value!r:.40}, {_A_FORM_OF[kind]}")


def _malformed(where: str, field: str, seen: str) -> MalformedRecord:
    return MalformedRecord(
        "read an audit record",
        seen=f"{where}{', field ' + field if field else ''}: {seen}",
        fix=f"a record of version {VERSION} as this release writes it",
    )
