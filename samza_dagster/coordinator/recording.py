"""`coordinator run --record-events`: a log of events for a replay."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from samza_dagster.errors import InvalidInput
from samza_dagster.placement.codec import encode, state_digest
from samza_dagster.placement.events import Event
from samza_dagster.placement.restoring import GROUP, HOST, JOB, REFUSED, UUID, Values
from samza_dagster.placement.state import JobState

VERSION = 1
"""Of a log's lines."""
_OF_A_JOB = (HOST, GROUP, UUID, REFUSED)
log = logging.getLogger(__name__)


def start_line_of(term: int, records: Values, state: JobState) -> str:
    """Return the line, without the newline, of a term that goes on with `state`.

    It holds the records of the state topic that its leader read; a new job has none.
    """
    read = {key: value for key, value in records.items() if key == JOB or key.startswith(_OF_A_JOB)}
    return _line(
        job=state.job,
        term=term,
        records=read,
        limits=encode(state.limits),
        state=state_digest(state),
    )


def line_of(event: Event, after: JobState, term: int) -> str:
    """Return the line, without the newline, of a step of this term that led to the state `after`."""
    return _line(event=encode_event(event), state=state_digest(after), term=term)


def encode_event(event: Event) -> dict[str, Any]:
    """Return plain JSON values; `kind` is the event's class."""
    return {"kind": type(event).__name__, **encode(event)}


def _line(**fields: Any) -> str:
    return json.dumps({"version": VERSION, **fields}, separators=(",", ":"))


class JsonLinesRecorder:
    """A log with a line for each term's start, and one per step: its event, the state's digest.

    The simulator replays it (`tests/simulation/event_log.py`). Several coordinators may
    append to one file, or each have its own: a term's first line says what it goes on with.
    A step's line is with the kernel before its commit, so that a killed coordinator's log
    lacks nothing that its records hold; only the last line may be of a step that they lack.
    Where a line can't be written (a full disk) the log ends before it, for the process's life:
    one that lacks a step tells nothing of those after it. The leader goes on: it has taken over
    by then, and nobody else leads.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending; raises `InvalidInput` for one that can't be written."""
        self._path = path
        self._term = 0
        self._stopped = False
        try:
            # Unbuffered: each line is one write, also where two processes append.
            self._out = path.open("ab", buffering=0)
            self._take_back(self._out.write(b" ") or 0)  # a disk that is full tells it now
        except OSError as error:
            raise InvalidInput(
                f"record events to {self._path}", seen=str(error), fix="a file that can be written"
            ) from error

    def begin(self, term: int, records: Values, state: JobState) -> None:
        """Record that a term (its leader's epoch) begins: its records and its state.

        If that fails, nothing of the term is recorded, and the term goes on.
        """
        if self._stopped:
            return
        self._term = term
        line = start_line_of(term, records, state)
        try:
            self._write(f"\n{line}" if self._ends_within_a_line() else line)
        except OSError as error:
            self._stop(error)

    def record(self, event: Event, state: JobState) -> None:
        """Record an event and the state after it; its step is about to be committed.

        Only a term's last recorded step may then fail to be committed. A step that can't be
        recorded ends the recording, not the term.
        """
        if self._stopped:
            return
        try:
            self._write(line_of(event, state, self._term))
        except OSError as error:
            self._stop(error)

    def close(self) -> None:
        """Close the file."""
        self._out.close()

    def _ends_within_a_line(self) -> bool:
        """Return whether an earlier writer was killed within a line."""
        if not self._path.is_file():
            return False
        with self._path.open("rb") as log:
            if log.seek(0, os.SEEK_END) == 0:
                return False
            log.seek(-1, os.SEEK_END)
            return log.read(1) != b"\n"

    def _write(self, line: str) -> None:
        whole = memoryview(line.encode() + b"\n")
        left = whole
        try:
            while left:
                left = left[self._out.write(left) or 0 :]
        except OSError:
            self._take_back(len(whole) - len(left))
            raise

    def _take_back(self, size: int) -> None:
        """Cut off the written part of a line, unless another process has appended since."""
        with suppress(OSError):
            end = self._out.tell()
            if size and os.fstat(self._out.fileno()).st_size == end:
                self._out.truncate(end - size)

    def _stop(self, error: OSError) -> None:
        self._stopped = True
        log.error(
            "events are no longer recorded to %s: %s; this coordinator goes on without. What "
            "comes later is recorded by a new one, to another file",
            self._path,
            error,
        )
