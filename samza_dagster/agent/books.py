"""The id of a directory's records: who has another one knows nothing of what these hold.

`books.json` lasts as long as the directory. An agent that is started with another directory,
with one that was emptied, or on another machine tells another id, so that what its records
lack isn't taken for dead.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from samza_dagster.agent.files import read_record, unreadable, write_json


def identity(directory: Path) -> str:
    """The id, made at the first call for a directory, before anything is started from it.

    Raises `RecordError` for one that isn't understood.
    """
    path = directory / "books.json"
    kept = read_record(path)
    if kept is None:
        made = str(uuid.uuid4())
        write_json(path, {"version": 1, "books": made}, durable=True)
        return made
    books = kept.get("books")
    if not isinstance(books, str) or not books:
        raise unreadable(path, "no id in it")
    return books
