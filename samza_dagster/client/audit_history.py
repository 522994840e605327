"""A job's audit history: from its topic, with what the state says of its end; or from a file.

And what it says of single containers: which request has started a standby.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from samza_dagster.errors import InvalidInput, MalformedRecord, UnknownTopic, Unreachable
from samza_dagster.metadata.audit_log import AuditLog
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import require_own_topics
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.placement.certificates import AuditRecord, audit_from_json, audit_to_json
from samza_dagster.placement.codec import Misfit, decode, encode
from samza_dagster.placement.verification import Head

_READINGS = 5
_CLOSING = {"version": 1, "kind": "closing"}


@dataclass(frozen=True)
class AuditHistory:
    """The records in order, and the head that they have to end with (None: not known).

    What was written at `since_ms` or later had to be there when it was read; None: not
    known. `unread`: why the state, which names the
    head, couldn't be read (None: it was).
    """

    records: tuple[AuditRecord, ...]
    head: Head | None = None
    since_ms: int | None = None
    unread: str | None = None


@dataclass(frozen=True)
class _Closing:
    """The last line of an export: what the state named, and how far back the topic had to go."""

    number: int | None
    digest: str | None
    at_ms: int | None
    since_ms: int | None


def open_audit(connection: Connection) -> AuditLog:
    """The job's audit topic; connects at the first reading."""
    return AuditLog(KafkaCluster.of(connection), connection.audit_topic)


def read_history(connection: Connection) -> AuditHistory:
    """The whole history of a job, the head that its state names, and how far back it must go.

    Raises `Refused` when its topics are another job's, `InvalidInput` when it has no audit topic, and
    `MalformedRecord` for an unreadable record (offset and field). Raises `Unreachable` when the audit topic
    can't be read; without the state the head is unknown.
    """
    log = open_audit(connection)
    state = StateReader.of(connection)
    try:
        since_ms = log.kept_since_ms()
        with suppress(Unreachable):  # what can't be read names no other owner
            require_own_topics(connection)
        return replace(consistent(log, lambda: head_in(state)), since_ms=since_ms)
    finally:
        log.close()
        state.close()


def consistent(log: AuditLog, head: Callable[[], Head | None]) -> AuditHistory:
    """Records and head of one moment, though the job goes on while they are read.

    What the state names was committed with the record, so a record that it names and
    that isn't there may only be late: it is read again, a few times. Records that came
    after the state was read are left out; those that were there before it stay, and
    are too many if the state doesn't know them.
    """
    records = log.records()
    try:
        named = head()
    except Unreachable as error:
        return AuditHistory(records, unread=error.seen)
    if named is None:
        return AuditHistory(records)
    known = records[-1].number if records else 0
    for _ in range(_READINGS):
        if (records[-1].number if records else 0) >= named.number:
            break
        records = tuple(r for r in log.records() if r.number <= max(known, named.number))
    return AuditHistory(records, named)


def history_of_lines(lines: Iterable[str], name: str) -> AuditHistory:
    """An exported history, a JSON object a line; empty lines are skipped.

    Raises `MalformedRecord` that names the file, the line and the field.
    """
    records: list[AuditRecord] = []
    closing: AuditHistory | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _no_export(where, "no JSON") from error
        if closing is not None:
            raise _no_export(where, "a line behind the closing one")
        fields = cast("dict[str, Any]", value if isinstance(value, dict) else {})
        if fields.get("kind") == _CLOSING["kind"]:
            closing = _closing(fields, where)
        else:
            records.append(audit_from_json(cast("object", value), where))
    return replace(closing or AuditHistory(()), records=tuple(records))


def lines_of(records: Sequence[AuditRecord]) -> Iterable[str]:
    """The records, one a line."""
    for record in records:
        yield _line(audit_to_json(record))


def exported(history: AuditHistory) -> Iterable[str]:
    """The history as `history_of_lines` reads it: its records, and a closing line.

    That says what the state named, and how far back the topic had to go at the time: a
    file that was cut at either end, or lacks all records, shows it.
    """
    yield from lines_of(history.records)
    head = history.head
    named = (None, None, None) if head is None else (head.number, head.digest, head.at_ms)
    yield _line({**_CLOSING, **encode(_Closing(*named, history.since_ms))})


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"


def _closing(value: Mapping[str, Any], where: str) -> AuditHistory:
    """Return what the closing line says, without records."""
    fields = {name: field for name, field in value.items() if name not in _CLOSING}
    if value.get("version") != _CLOSING["version"]:
        raise _no_export(where, f"field version: {value.get('version')!r:.40}")
    try:
        said: _Closing = decode(_Closing, fields, "")
    except Misfit as error:
        raise _no_export(where, f"field {error.path.removeprefix('.')}: {error.seen}") from error
    if said.number is not None and said.digest is not None:
        return AuditHistory((), Head(said.number, said.digest, said.at_ms), said.since_ms)
    if said.number is not None or said.digest is not None:
        raise _no_export(where, "fields number and digest: no head")
    return AuditHistory((), None, said.since_ms)


def _no_export(where: str, seen: str) -> MalformedRecord:
    return MalformedRecord(
        "read an exported history",
        seen=f"{where}: {seen}",
        fix="a file that `samza-dagster verify --export` wrote",
    )


def head_in(state: StateReader) -> Head | None:
    """Return the last audit record by the state topic; None without such a topic.

    Raises `Unreachable` also where this client has no right to read it, `MalformedRecord`.
    """
    try:
        found = state.snapshot().records.get("job")
    except UnknownTopic:  # the history stands alone
        return None
    except MalformedRecord:
        raise
    except InvalidInput as error:  # no right to read it
        raise Unreachable(error.asked, seen=error.seen, fix=error.fix) from error
    return head_of_state(found.value if found is not None else None)


def head_of_state(job: Mapping[str, Any] | None) -> Head | None:
    """Return the last audit record by the state topic's `job` record."""
    state: object = (job or {}).get("state")
    if not isinstance(state, dict):
        return None
    fields = cast("dict[str, Any]", state)
    number, digest = fields.get("certificates"), fields.get("certificate_hash")
    if type(number) is not int or not isinstance(digest, str):
        return None
    at_ms = fields.get("certificate_at_ms")
    return Head(number, digest, at_ms if type(at_ms) is int and at_ms > 0 else None)
