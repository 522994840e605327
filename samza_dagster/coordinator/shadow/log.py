"""The shadow's log: JSON lines, appended, that a kill may cut short anywhere.

`begin` and `end` stand around a shadow's life, `listening` counts what it has heard, `event` is an episode
as it is by then: of several with one id the last counts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from samza_dagster.coordinator.shadow.episodes import Episode, episode_of
from samza_dagster.errors import InvalidInput, MalformedRecord

VERSION = 1
BEGIN, LISTENING, EVENT, END = "begin", "listening", "event", "end"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Span:
    """How long one shadow listened, up to its last line. Times are ms since the epoch, by its clock.

    `blind_s` is the part in which the brokers didn't answer. `ended`: it ended in order, and said `why`.
    """

    job: str
    began_ms: int
    last_ms: int
    listened_s: float = 0.0
    blind_s: float = 0.0
    ended: bool = False
    why: str = ""


@dataclass(frozen=True)
class ShadowHistory:
    """A whole log: each shadow's span, each episode as it was last written, in order of its beginning.

    `unreadable` names lines that can't be read.
    """

    spans: tuple[Span, ...]
    episodes: tuple[Episode, ...]
    unreadable: tuple[str, ...] = ()


class ShadowLog:
    """Appends lines to a file. Each is with the kernel when a call returns; raises `OSError`."""

    def __init__(self, path: Path, job: str) -> None:
        """Open the file; raises `InvalidInput` for one that can't be written."""
        self._job = job
        try:
            torn = _ends_within_a_line(path)
            self._out = path.open("ab", buffering=0)
            if torn:  # whoever wrote last was killed
                self._out.write(b"\n")
        except OSError as error:
            raise InvalidInput(
                f"write the shadow's log to {path}",
                seen=str(error),
                fix="a file that can be written",
            ) from error

    def begin(self, at_ms: int) -> None:
        """A shadow begins to listen."""
        self._write(BEGIN, at_ms)

    def listening(self, at_ms: int, listened_s: float, blind_s: float) -> None:
        """It has listened for so long since it began, and was blind for so long."""
        self._write(LISTENING, at_ms, listened_s=round(listened_s, 1), blind_s=round(blind_s, 1))

    def event(self, at_ms: int, episode: Episode) -> None:
        """An episode began, or more is known of it."""
        self._write(EVENT, at_ms, event=episode.to_json())

    def end(self, at_ms: int, listened_s: float, blind_s: float, why: str) -> None:
        """It ends in order."""
        spent = {"listened_s": round(listened_s, 1), "blind_s": round(blind_s, 1)}
        self._write(END, at_ms, **spent, why=why)

    def close(self) -> None:
        """Close the file."""
        self._out.close()

    def _write(self, kind: str, at_ms: int, **fields: Any) -> None:
        line = {"version": VERSION, "record": kind, "job": self._job, "at_ms": at_ms, **fields}
        left = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        while left:
            left = left[self._out.write(left) or 0 :]


def read_history(path: Path, since_ms: int = 0) -> ShadowHistory:
    """Read a log; what began before `since_ms`, and spans that had ended by then, are left out.

    A torn line is skipped, with a warning. Raises `InvalidInput` for a file that can't be read, and
    `MalformedRecord` for a line of a later release.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(
            f"read {path}", seen=str(error.strerror), fix="the file of coordinator run --shadow-log"
        ) from error
    spans: list[Span] = []
    episodes: dict[str, Episode] = {}
    unreadable: list[str] = []
    for number, kind, value in _records(path, lines, unreadable):
        try:
            if kind == EVENT:
                episode = episode_of(value["event"])
                episodes[episode.id] = episode
            else:
                _count(spans, kind, value)
        except (KeyError, TypeError, ValueError) as error:
            unreadable.append(f"line {number}: {error!s:.80}")
    for each in unreadable:
        _log.warning("%s: skipped %s", path, each)
    return ShadowHistory(
        tuple(span for span in spans if span.last_ms >= since_ms),
        tuple(e for e in episodes.values() if e.noticed_ms >= since_ms),
        tuple(unreadable),
    )


def _records(
    path: Path, lines: Sequence[bytes], unreadable: list[str]
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found: object = json.loads(line)
        except ValueError:
            unreadable.append(f"line {number}: it is torn")
            continue
        value = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        version = value.get("version")
        if version is not None and version != VERSION:
            raise MalformedRecord(
                f"read {path}",
                seen=f"line {number}: version {version}",
                fix="the samza_dagster that wrote it",
            )
        if version is None:
            unreadable.append(f"line {number}: it is no record of a shadow")
            continue
        yield number, str(value.get("record")), value


def _count(spans: list[Span], kind: str, value: dict[str, Any]) -> None:
    at_ms, job = int(value["at_ms"]), str(value["job"])
    if kind == BEGIN or not spans:
        spans.append(Span(job, at_ms, at_ms))
    if kind in (LISTENING, END):
        began_ms = spans[-1].began_ms
        spent = float(value["listened_s"]), float(value["blind_s"])
        spans[-1] = Span(job, began_ms, at_ms, *spent, kind == END, str(value.get("why", "")))


def _ends_within_a_line(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as log:
        log.seek(-1, 2)
        return log.read(1) != b"\n"
