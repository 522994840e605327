"""`coordinator run --record-events`: what happened, so that it can be played again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from samza_dagster.errors import InvalidInput
from samza_dagster.placement.events import Event
from samza_dagster.placement.restoring import Values
from samza_dagster.placement.state import JobState

StartLine = Callable[[int, Values, JobState], str]
EventLine = Callable[[Event, JobState, int], str]


class JsonLinesRecorder:
    """Appends a line when a term begins, and one per step: its event, and the state's digest.

    The form is `simulation/event_log.py`'s, which plays it again. Several coordinators may
    append to one file, or each have its own: a term's first line says what it goes on with.
    A step's line is with the kernel before its commit, so that a killed coordinator's log
    lacks nothing that its records hold; only the last line may be of a step that they lack.
    """

    def __init__(self, path: Path, *, start_line_of: StartLine, line_of: EventLine) -> None:
        self._path = path
        self._start_line_of = start_line_of
        self._line_of = line_of
        self._term = 0
        try:
            # Unbuffered: each line is one write, also where two processes append.
            self._out = path.open("ab", buffering=0)
        except OSError as error:
            raise InvalidInput(
                f"record events to {path}", seen=str(error), fix="a file that can be written"
            ) from error

    @classmethod
    def open(cls, path: Path) -> JsonLinesRecorder:
        """Opens the file for appending; raises `InvalidInput` for one that can't be written."""
        from samza_dagster.simulation.event_log import line_of
        from samza_dagster.simulation.term_start import start_line_of

        return cls(path, start_line_of=start_line_of, line_of=line_of)

    def begin(self, term: int, records: Values, state: JobState) -> None:
        """Sees `EventRecorder`."""
        self._term = term
        line = self._start_line_of(term, records, state)
        self._write(f"\n{line}" if self._ends_within_a_line() else line)

    def record(self, event: Event, state: JobState) -> None:
        """Sees `EventRecorder`."""
        self._write(self._line_of(event, state, self._term))

    def close(self) -> None:
        """Closes the file."""
        self._out.close()

    def _ends_within_a_line(self) -> bool:
        """Whoever wrote last was killed meanwhile."""
        if not self._path.is_file():
            return False
        with self._path.open("rb") as log:
            if log.seek(0, os.SEEK_END) == 0:
                return False
            log.seek(-1, os.SEEK_END)
            return log.read(1) != b"\n"

    def _write(self, line: str) -> None:
        left = memoryview(line.encode() + b"\n")
        while left:
            left = left[self._out.write(left) or 0 :]
