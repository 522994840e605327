"""A job's audit history: from its topic, with what the state says of its end; or from a file.

And what it says of single containers: which request has started a standby.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.metadata.audit_log import AuditEntry, AuditLog
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.placement.audit_codec import audit_from_json, audit_to_json
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import AskKind
from samza_dagster.placement.verification import Head

_READINGS = 5
_ON_REQUEST = re.compile(rf"{AskKind.START_STANDBY.value} (\S+) to ")


@dataclass(frozen=True)
class AuditHistory:
    """The records in order, and the head that they have to end with (None: not known)."""

    records: tuple[AuditRecord, ...]
    head: Head | None = None


class Entries(Protocol):
    """The audit topic, read whole at each call."""

    topic: str

    def entries(self) -> list[AuditEntry]:
        """All records that were committed before the call."""
        ...


class AuditSource(Entries, Protocol):
    """The audit topic of one job, opened."""

    def close(self) -> None:
        """Releases the connections."""
        ...


def open_audit(connection: Connection) -> AuditLog:
    """The job's audit topic; connects at the first reading."""
    return AuditLog(
        connection.bootstrap_servers,
        connection.audit_topic,
        client_config=connection.client_config,
    )


def standby_origins(records: Iterable[AuditRecord]) -> dict[str, str]:
    """Standby → UUID of the request that has spun it up, the newest one of those that had its id.

    `records` in order. What it was started for later, as after a host was lost, is no origin.
    """
    found: dict[str, str] = {}
    for record in records:
        asked = _ON_REQUEST.match(record.why) if record.kind == "start" else None
        if asked is not None:
            found[record.processor_id] = asked[1]
    return found


def read_history(connection: Connection) -> AuditHistory:
    """The whole history of a job, and the head that its state names.

    Raises `InvalidInput` when the job has no audit topic, `MalformedRecord` for a record
    that can't be read (offset and field), `Unreachable`.
    """
    log = open_audit(connection)
    state = StateReader(
        connection.bootstrap_servers,
        connection.state_topic,
        client_config=connection.client_config,
    )
    try:
        return consistent(log, lambda: _head(state))
    finally:
        log.close()
        state.close()


def consistent(log: Entries, head: Callable[[], Head | None]) -> AuditHistory:
    """Records and head of one moment, though the job goes on while they are read.

    What the state names was committed with the record, so a record that it names and
    that isn't there may only be late: it is read again, a few times. Records that came
    after the state was read are left out; those that were there before it stay, and
    are too many if the state doesn't know them.
    """
    records = decoded(log)
    named = head()
    if named is None:
        return AuditHistory(records)
    known = records[-1].number if records else 0
    for _ in range(_READINGS):
        if (records[-1].number if records else 0) >= named.number:
            break
        later = decoded(log)
        records = tuple(r for r in later if r.number <= max(known, named.number))
    return AuditHistory(records, named)


def history_of_lines(lines: Iterable[str], name: str) -> AuditHistory:
    """An exported history, a JSON object a line; empty lines are skipped.

    Raises `MalformedRecord` that names the file, the line and the field.
    """
    records: list[AuditRecord] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MalformedRecord(
                "read an exported history",
                seen=f"{where}: no JSON",
                fix="a file that `samza-dagster verify --export` wrote",
            ) from error
        records.append(audit_from_json(value, where))
    return AuditHistory(tuple(records))


def lines_of(records: Sequence[AuditRecord]) -> Iterable[str]:
    """The history as `history_of_lines` reads it."""
    for record in records:
        yield json.dumps(audit_to_json(record), separators=(",", ":"), ensure_ascii=False) + "\n"


def decoded(log: Entries) -> tuple[AuditRecord, ...]:
    """The records as they stand; raises `MalformedRecord` that names the offset and the field."""
    return tuple(
        audit_from_json(entry.value, f"topic {log.topic}, offset {entry.offset}")
        for entry in log.entries()
    )


def _head(state: StateReader) -> Head | None:
    try:
        found = state.snapshot().records.get("job")
    except MalformedRecord:
        raise
    except InvalidInput:  # no state topic: the history stands alone
        return None
    return head_of_state(found.value if found is not None else None)


def head_of_state(job: Mapping[str, Any] | None) -> Head | None:
    """What the state topic's `job` record says of the last audit record."""
    state: object = (job or {}).get("state")
    if not isinstance(state, dict):
        return None
    fields = cast("dict[str, Any]", state)
    number, digest = fields.get("certificates"), fields.get("certificate_hash")
    if type(number) is not int or not isinstance(digest, str):
        return None
    return Head(number, digest)
