"""`coordinator run --record-events`: what happened, so that it can be played again."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samza_dagster.errors import InvalidInput, MissingPrerequisite
from samza_dagster.placement.events import Event
from samza_dagster.placement.state import JobState

_FORM = "samza_dagster.simulation.event_log"


class JsonLinesRecorder:
    """Appends one line `{"event": …, "digest": …}` per committed step; flushed line by line."""

    def __init__(
        self,
        path: Path,
        *,
        encode_event: Callable[[Event], Any],
        state_digest: Callable[[JobState], str],
    ) -> None:
        self._encode_event = encode_event
        self._state_digest = state_digest
        try:
            self._out = path.open("a", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                f"record events to {path}", seen=str(error), fix="a file that can be written"
            ) from error

    @classmethod
    def open(cls, path: Path) -> JsonLinesRecorder:
        """Opens the file for appending; raises `InvalidInput` for one that can't be written."""
        try:
            form = importlib.import_module(_FORM)
        except ModuleNotFoundError as error:
            raise MissingPrerequisite(
                f"record events to {path}", seen=f"no {_FORM}", fix="a release that has it"
            ) from error
        return cls(path, encode_event=form.encode_event, state_digest=form.state_digest)

    def record(self, event: Event, state: JobState) -> None:
        """Sees `EventRecorder`."""
        line = {"event": self._encode_event(event), "digest": self._state_digest(state)}
        self._out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Closes the file."""
        self._out.close()
