"""Keys and values of Samza's coordinator stream, byte for byte where bytes matter.

A key is the JSON array `[1,"<type>","<key>"]` without spaces. Compaction compares bytes, so a key
in another form would be a second record beside Samza's. A value is an envelope, or the raw
payload in namespaces of Samza's metadata store (placement messages). Pure: no clock, no client.

Sources: `CoordinatorStreamKeySerde`, `CoordinatorStreamValueSerde`, the `Set…` messages (1.8.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.model import SystemStreamPartition, TaskMode
from samza_dagster.model.numbers import long_or_none

VERSION = 1
SET_CONFIG = "set-config"
SET_CONTAINER_HOST = "set-container-host-assignment"
SET_TASK_CONTAINER = "set-task-container-assignment"
SET_TASK_MODE = "set-task-mode-assignment"
SET_TASK_PARTITION = "set-task-partition-assignment"
SET_CHANGELOG = "set-changelog"
SOURCE_JOB_RUNNER = "job-runner"
SOURCE_CONTAINER = "SamzaContainer"
"""The source in the records of Samza's own writers, the coordinator included."""


class StreamKey(NamedTuple):
    """The key of a record."""

    namespace: str  # the message's type
    key: str  # the subject of the message


class Envelope(NamedTuple):
    """The values of a record, with their author and time (ms since the epoch)."""

    host: str
    source: str
    username: str
    timestamp_ms: int
    values: Mapping[str, str]


@dataclass(frozen=True)
class Author:
    """The author of an envelope; `timestamp_ms` in ms since the epoch."""

    host: str
    username: str
    timestamp_ms: int
    source: str = SOURCE_CONTAINER

    def envelope(self, values: Mapping[str, str]) -> bytes:
        """Return the envelope of these values, signed by this author."""
        return encode_envelope(
            Envelope(self.host, self.source, self.username, self.timestamp_ms, values)
        )


@dataclass(frozen=True)
class StreamRecord:
    """A record to write; `value` None is a deletion."""

    namespace: str
    key: str
    value: bytes | None

    def key_bytes(self) -> bytes:
        """Return the key in Samza's form."""
        return encode_key(self.namespace, self.key)


# Jackson's escapes: control characters in upper-case hex, everything else unchanged.
_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(char): escaped
    for char, escaped in {
        '"': '\\"',
        "\\": "\\\\",
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
    }.items()
}


def _json_string(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def encode_key(namespace: str, key: str) -> bytes:
    """Return the key's bytes in Samza's form.

    Raises `InvalidInput` for text that has no UTF-8 form (a lone surrogate).
    """
    try:
        return f"[{VERSION},{_json_string(namespace)},{_json_string(key)}]".encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "write a key of the coordinator stream",
            seen=f"{namespace!r}, {key!r}: no UTF-8 form",
            fix="a key without lone surrogates",
        ) from error


def decode_key(data: bytes | None, *, topic: str = "", offset: int = -1) -> StreamKey:
    """Return a key; raise `MalformedRecord` that names topic and offset, if given."""
    # Any version is accepted, as Samza's readers ignore it.
    try:
        version, namespace, name = orjson.loads(data or b"")
        if isinstance(version, int) and isinstance(namespace, str) and isinstance(name, str):
            return StreamKey(namespace, name)
    except (ValueError, TypeError):
        pass
    where = f"topic {topic}, offset {offset}, key" if topic else "key"
    raise MalformedRecord(
        "read a coordinator stream key",
        seen=f"{where}: {'absent' if data is None else data[:80]!r}",
        fix='a key of the form [1,"<type>","<key>"]',
    )


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the envelope's bytes, in the order of Samza's fields."""
    return json.dumps(
        {
            "host": envelope.host,
            "source": envelope.source,
            "values": dict(envelope.values),
            "username": envelope.username,
            "timestamp": envelope.timestamp_ms,
        },
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def decode_envelope(data: bytes) -> Envelope:
    """Return an envelope; raise `MalformedRecord` that names the field.

    Samza's readers need `values` alone. Other fields may be absent, and are then empty or 0. A
    null value counts as absent.
    """
    fields = decode_fields(data)
    return Envelope(
        *(_text(fields.get(name)) for name in ("host", "source", "username")),
        timestamp_ms=long_or_none(fields.get("timestamp")) or 0,
        values=fields["values"],
    )


def decode_fields(data: bytes) -> dict[str, Any]:
    """Return the raw fields of an envelope, with `values` checked; fast, for large readings."""
    try:
        fields: Any = orjson.loads(data)
        values = fields["values"]
        others = [name for name, value in values.items() if not isinstance(value, str)]
    except (KeyError, AttributeError):
        raise _malformed("field values: missing or no object") from None
    except TypeError:
        raise _malformed(f"no object ({data[:80]!r})") from None
    except ValueError:
        raise _malformed(f"no JSON ({data[:80]!r})") from None
    for name in others:
        if values.pop(name) is not None:
            raise _malformed(f"field values.{name}: no string")
    return fields


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _malformed(seen: str) -> MalformedRecord:
    return MalformedRecord("read a coordinator stream value", seen=seen)


def delete(namespace: str, key: str) -> StreamRecord:
    """Return the record that deletes a key."""
    return StreamRecord(namespace, key, None)


def set_config(author: Author, key: str, value: str) -> StreamRecord:
    """Return the record of a setting of the job."""
    return StreamRecord(SET_CONFIG, key, author.envelope({"value": value}))


def set_container_host(author: Author, processor_id: str, host: str) -> StreamRecord:
    """Return the record of a processor's host."""
    values = {"host": host, "jmx-url": "", "jmx-tunneling-url": ""}
    return StreamRecord(SET_CONTAINER_HOST, processor_id, author.envelope(values))


def set_task_container(author: Author, task_name: str, processor_id: str) -> StreamRecord:
    """Return the record of a task's processor."""
    values = {"containerId": processor_id}
    return StreamRecord(SET_TASK_CONTAINER, task_name, author.envelope(values))


def set_task_mode(author: Author, task_name: str, mode: TaskMode) -> StreamRecord:
    """Return the record of a task's role."""
    return StreamRecord(SET_TASK_MODE, task_name, author.envelope({"taskMode": mode.value}))


def set_task_partition(
    author: Author, partition: SystemStreamPartition, task_names: Sequence[str]
) -> StreamRecord:
    """Return the record of the tasks that read an input partition."""
    # The names are JSON inside a string.
    names = json.dumps(list(task_names), separators=(",", ":"), ensure_ascii=False)
    values = {"taskNames": names}
    return StreamRecord(SET_TASK_PARTITION, partition.to_json(), author.envelope(values))


def set_changelog(author: Author, task_name: str, partition: int) -> StreamRecord:
    """Return the record of a task's changelog partition."""
    return StreamRecord(SET_CHANGELOG, task_name, author.envelope({"Partition": str(partition)}))
