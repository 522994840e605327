"""Small JSON files that are whole or absent: written beside, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional


def write_json(path: Path, value: Dict[str, Any], *, durable: bool = False) -> None:
    """Replaces `path` in one step, mode 0600; with `durable` it also survives a host crash."""
    write_text(path, json.dumps(value), durable=durable)


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Replaces `path` in one step, mode 0600."""
    beside = path.with_name(".{}.{}".format(path.name, os.getpid()))
    descriptor = os.open(str(beside), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    beside.replace(path)


def read_json(path: Path) -> Optional[Dict[str, Any]]:
    """The object in `path`; None when it is absent or no JSON object."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
