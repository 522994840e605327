"""`coordinator run --record-events`: what happened, so that it can be played again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from samza_dagster.errors import InvalidInput
from samza_dagster.placement.events import Event
from samza_dagster.placement.state import JobState


class JsonLinesRecorder:
    """Appends a line per committed step: the event, and the digest of the state after it.

    The form is `simulation/event_log.py`'s, which plays it again. A file that begins with
    the job is complete in itself; one that begins later needs the state of that time.
    Each line is flushed, so that a killed coordinator's log ends with its last commit.
    """

    def __init__(self, path: Path, *, line_of: Callable[[Event, JobState], str]) -> None:
        self._line_of = line_of
        try:
            self._out = path.open("a", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                f"record events to {path}", seen=str(error), fix="a file that can be written"
            ) from error

    @classmethod
    def open(cls, path: Path) -> JsonLinesRecorder:
        """Opens the file for appending; raises `InvalidInput` for one that can't be written."""
        from samza_dagster.simulation.event_log import line_of

        return cls(path, line_of=line_of)

    def begin(self, state: JobState) -> None:
        """Sees `EventRecorder`."""
        if not state.deployment_id:
            self._write(json.dumps({"version": 1, "job": state.job}, separators=(",", ":")))

    def record(self, event: Event, state: JobState) -> None:
        """Sees `EventRecorder`."""
        self._write(self._line_of(event, state))

    def close(self) -> None:
        """Closes the file."""
        self._out.close()

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()
