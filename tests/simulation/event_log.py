"""The log that a coordinator keeps, one JSON object a line, and its replay.

A term begins with a line of what its leader restored (`TermStart`); each line after it
is `{"version": 1, "event": {...}, "state": "<digest after it>", "term": <the leader's epoch>}`,
written before the step is committed (`samza_dagster/coordinator/recording.py`). Decoding is strict: an unknown kind or field, or a
wrong type, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from samza_dagster.coordinator.recording import VERSION
from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import codec
from samza_dagster.placement import events as ev
from samza_dagster.placement.codec import encode, state_digest
from samza_dagster.placement.reducer import step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import JobState, Limits
from tests.simulation.judges.durability import passed_on
from tests.simulation.judges.violation import InvariantViolated
from tests.simulation.world_state import Reducer

_KINDS: dict[str, type[ev.Event]] = {kind.__name__: kind for kind in get_args(ev.Event)}


def decode_event(value: Mapping[str, Any]) -> ev.Event:
    """The reverse of the coordinator's `encode_event`; raises `MalformedRecord` that names the field."""
    fields = dict(value)
    name = fields.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise malformed("kind", repr(name))
    return decode(kind, fields, kind.__name__)


def decode(kind: type[Any], value: Any, path: str) -> Any:
    """A value of this type; raises `MalformedRecord` that names the field."""
    try:
        return codec.decode(kind, value, path)
    except codec.Misfit as error:
        raise malformed(error.path, error.seen) from error


def malformed(path: str, seen: str) -> MalformedRecord:
    """What can't be read, and where."""
    return MalformedRecord(
        "read a log of events",
        seen=f"{path}: {seen}",
        fix=f"a log of version {VERSION} as this release writes it",
    )


_LONGEST = 200
"""Characters of a value that is told."""


@dataclass(frozen=True, slots=True)
class TermStart:
    """How a term begins in a log: with the records that its leader read, and what that must be.

    The line is `{"version": 1, "job": ..., "term": <the leader's epoch>, "records": {...},
    "limits": {...}, "state": "<digest>"}`: the records of the state topic by key, restored by
    the code that does so in production, and the limits that the leader goes by. A new job
    has no records. `stored` is what the records hold, `state` what is led on.
    """

    term: int
    stored: JobState
    state: JobState
    digest: str

    @classmethod
    def of(cls, line: Mapping[str, Any], path: str) -> TermStart:
        """Raises `MalformedRecord` that names the line and the field."""
        job = decode(str, line.get("job"), f"{path}.job")
        records: dict[str, Any] = decode(dict, line["records"], f"{path}.records")
        for key, value in records.items():
            decode(dict, value, f"{path}.records.{key}")
        limits = decode(Limits, line.get("limits"), f"{path}.limits")
        try:
            stored = restore(records, job)
        except MalformedRecord as error:
            raise malformed(f"{path}.records", error.seen) from error
        except KeyError as error:
            raise malformed(f"{path}.records", f"a record without {error}") from error
        return cls(
            decode(int, line.get("term"), f"{path}.term"),
            stored,
            replace(stored, limits=limits),
            str(line.get("state")),
        )


class Difference(NamedTuple):
    """The first field of a state that isn't as expected; values as JSON, cut to a line."""

    where: str
    expected: str
    seen: str


def not_passed_on(before: JobState, stored: JobState) -> Difference | None:
    """How `stored` differs from what a take-over after `before` restores; None when it doesn't.

    The simulator's own take-over says what that is. When the last event was, no record tells
    for certain, and nothing depends on it.
    """
    try:
        expected = _in_order(passed_on(before))
    except InvariantViolated as violation:
        return Difference(violation.invariant, "", violation.what[:_LONGEST])
    seen = _in_order(stored)
    return _difference(expected, seen, "")


def _in_order(state: JobState) -> dict[str, Any]:
    """Fields as they are declared, groups and hosts by name: which difference is first is fixed."""
    return {
        name: dict(sorted(cast("dict[str, Any]", value).items()))
        if isinstance(value, dict)
        else value
        for name, value in encode(state).items()
        if name != "now_ms"
    }


def _difference(expected: Any, seen: Any, where: str) -> Difference | None:
    if expected == seen:
        return None
    if isinstance(expected, dict) and isinstance(seen, dict):
        one, other = cast("dict[str, Any]", expected), cast("dict[str, Any]", seen)
        for key in (*one, *(key for key in other if key not in one)):
            path = f"{where}.{key}".removeprefix(".")
            if key not in one or key not in other:
                return Difference(path, _value_text(one, key), _value_text(other, key))
            if one[key] != other[key]:
                return _difference(one[key], other[key], path)
    return Difference(where, _text(expected), _text(seen))


def _value_text(values: dict[str, Any], key: str) -> str:
    return _text(values[key]) if key in values else "nothing"


def _text(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


@dataclass(frozen=True, slots=True)
class LogReplayed:
    """How far a log could be followed; `differs` names the first line that gave another state.

    `where` is the first field that differs, for a term that went on with something else than
    the term before it left, else "". `terms` were begun, and for `judged` of them the log holds
    the term before. `cut_short` are lines whose writer was killed within them.
    """

    events: int
    differs: int | None = None
    expected: str = ""
    seen: str = ""
    where: str = ""
    terms: int = 0
    judged: int = 0
    cut_short: tuple[int, ...] = ()


def replay_log(source: Path | Iterable[str], *, reducer: Reducer = step) -> LogReplayed:
    """Steps the reducer through a log and compares the state after every event.

    A term goes on from what its first line says that it restored. Where the log holds the
    term before, that must be what the records hold after its last step, or after the one
    before, since the last may not have been committed.
    Raises `MalformedRecord` for a line that can't be read, and names it; also for no event at all.
    """
    if isinstance(source, Path):
        with source.open(encoding="utf-8") as lines:
            return replay_log(lines, reducer=reducer)
    replay = _Replay(reducer)
    unread: tuple[int, str, MalformedRecord] | None = None
    for number, text in enumerate(source, 1):
        try:
            line = _line(number, text)
        except _NoJson as error:
            if unread is not None:
                raise unread[2] from None
            unread = (number, text, error.refusal)
            continue
        if unread is not None:
            if "records" not in line:
                raise unread[2]
            replay.cut_short(unread[0])
            unread = None
        if not replay.follow(number, line):
            return replay.result
    if unread is not None:
        if not unread[1].strip() or unread[1].endswith("\n"):
            raise unread[2]
        replay.cut_short(unread[0])
    if not (replay.result.events or replay.result.terms):
        raise malformed("the whole of it", "no event")
    return replay.result


@dataclass(slots=True)
class _Term:
    """One leader's; `stored` is what the records hold if its last step was committed."""

    state: JobState
    stored: JobState | None = None
    stored_before: JobState | None = None

    def go_on(self, state: JobState) -> None:
        self.stored_before, self.stored, self.state = self.stored, state, state


@dataclass(slots=True)
class _Replay:
    """The terms so far. A leader that was deposed may write to its own for a while."""

    reducer: Reducer
    terms: dict[int, _Term] = field(default_factory=dict[int, _Term])
    result: LogReplayed = LogReplayed(0)

    def follow(self, number: int, line: dict[str, Any]) -> bool:
        """Takes a line; False when it differs."""
        if "records" in line:
            return self._begin(number, TermStart.of(line, f"line {number}"))
        term = self._term_of(number, line)
        event = decode_event(decode(dict, line.get("event"), f"line {number}"))
        term.go_on(self.reducer(term.state, event).state)
        self.result = replace(self.result, events=self.result.events + 1)
        return self._compare(number, term.state, line)

    def cut_short(self, number: int) -> None:
        self.result = replace(self.result, cut_short=(*self.result.cut_short, number))

    def _term_of(self, number: int, line: dict[str, Any]) -> _Term:
        known = self.terms.get(decode(int, line.get("term"), f"line {number}.term"))
        if known is None:
            raise malformed(f"line {number}", f"term {line['term']}, whose start isn't in the log")
        return known

    def _begin(self, number: int, start: TermStart) -> bool:
        if self.terms and start.term <= max(self.terms):
            self.terms = {}  # the job's records were deleted, and it began anew
        before = self.terms.get(start.term - 1)
        self.terms[start.term] = _Term(start.state, start.stored)
        self.result = replace(self.result, terms=self.result.terms + 1)
        if before is not None:
            self.result = replace(self.result, judged=self.result.judged + 1)
            other = _judged(before, start.stored)
            if other is not None:
                where, expected, seen = other
                self.result = replace(
                    self.result, differs=number, where=where, expected=expected, seen=seen
                )
                return False
        return self._compare(number, start.state, {"state": start.digest})

    def _compare(self, number: int, state: JobState, line: dict[str, Any]) -> bool:
        seen, expected = state_digest(state), line.get("state")
        if seen != expected:
            self.result = replace(self.result, differs=number, expected=str(expected), seen=seen)
        return seen == expected


def _judged(before: _Term, stored: JobState) -> Difference | None:
    """What the take-over restored that the term before didn't leave, by either of its ends."""
    found: Difference | None = None
    for end in (before.stored, before.stored_before):
        other = None if end is None else not_passed_on(end, stored)
        if end is not None and other is None:
            return None
        found = found or other
    return found


class _NoJson(Exception):
    """A line that isn't JSON at all: its writer may have been killed within it."""

    def __init__(self, refusal: MalformedRecord) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def _line(number: int, text: str) -> dict[str, Any]:
    try:
        line: Any = json.loads(text)
    except ValueError as error:
        raise _NoJson(malformed(f"line {number}", str(error))) from error
    if not isinstance(line, dict):
        raise malformed(f"line {number}", "no JSON object")
    found = cast("dict[str, Any]", line)
    if found.get("version") != VERSION:
        raise malformed(f"line {number}", f"version {found.get('version')!r}")
    return found
