"""Small JSON files that are whole or absent: written beside, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional

RECORD_VERSION = 1


class RecordError(Exception):
    """A record of this host that can't be understood; its text names the record and the reason."""


class UnreadableFile(RecordError):
    """A file exists and can't be read, or is no record: torn by a power cut, or on a failing disk."""


def write_json(path: Path, value: Dict[str, Any], *, durable: bool = False) -> None:
    """Replace `path` in one step, mode 0600; with `durable` it also survives a host crash."""
    write_text(path, json.dumps(value), durable=durable)


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace `path` in one step, mode 0600; `durable` as in `write_json`."""
    beside = path.with_name(".{}.{}".format(path.name, os.getpid()))
    descriptor = os.open(str(beside), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    beside.replace(path)
    if durable:
        directory = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # of the new name
        finally:
            os.close(directory)


def read_json(path: Path) -> Optional[Dict[str, Any]]:
    """Return the object in `path`; None when it is absent or no JSON object."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def read_record(path: Path) -> Optional[Dict[str, Any]]:
    """Return the object in `path`; None only when it is absent.

    An unknown record must be neither adopted nor taken for absent. Raises `RecordError` for a
    version more than one away, and its subclass `UnreadableFile` for a file that is no record.
    """
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, "{}: {}".format(type(error).__name__, error)) from error
    if not isinstance(value, dict):
        raise unreadable(path, "no JSON object")
    record: Dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    version = record.get("version")
    if not isinstance(version, int) or abs(version - RECORD_VERSION) > 1:
        raise RecordError(
            "{}: version {!r} isn't understood, only those up to one from {}: run the agent "
            "that wrote it".format(path, version, RECORD_VERSION)
        )
    return record


def unreadable(path: Path, seen: str) -> UnreadableFile:
    """Return the error for `path`; `seen` describes its content."""
    return UnreadableFile(
        "{}: a record that can't be read is never taken for absent: {}. Make it readable, or see "
        "that no process of it lives and remove it".format(path, seen)
    )
