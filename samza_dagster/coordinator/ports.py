"""What a term needs of the outside, as small interfaces; `kafka.py` has the real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from samza_dagster.coordinator.durable import Record
from samza_dagster.coordinator.mail import Mail
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.placement.commands import Projection
from samza_dagster.placement.events import Event
from samza_dagster.placement.restoring import Values
from samza_dagster.placement.state import JobState


class CoordinatorLog(Protocol):
    """The one writer of a job's durable state."""

    def commit(
        self,
        records: Sequence[Record],
        projections: Sequence[Projection],
        stream_records: Sequence[StreamRecord] = (),
    ) -> None:
        """One transaction; returns when it is committed.

        `stream_records` go to the coordinator stream as they are. Raises `Fenced` when
        another coordinator leads, `Unreachable` when the broker doesn't answer in time.
        """
        ...


class MailSource(Protocol):
    """Requests in one topic."""

    def tail(self, on_mail: Callable[[Mail], None]) -> AbstractContextManager[object]:
        """Calls `on_mail` for those that are there, then for each as it arrives."""
        ...


class RequestSource(MailSource, Protocol):
    """Placement requests in the coordinator stream."""

    def no_start_because(self) -> str:
        """Why no container could start at present; empty when nothing is known against it."""
        ...


class Cleaner(Protocol):
    """Finds what nobody needs any more."""

    def removals(
        self, state: JobState, now_ms: int
    ) -> tuple[Sequence[Record], Sequence[StreamRecord]]:
        """Deletions of finished placement messages, for state topic and coordinator stream."""
        ...


class EventRecorder(Protocol):
    """Keeps what happened, so that it can be played again."""

    def begin(self, term: int, records: Values, state: JobState) -> None:
        """A term (its leader's epoch) begins: the records that it read, and what it goes on with.

        One whose beginning can't be kept isn't kept at all, and goes on.
        """
        ...

    def record(self, event: Event, state: JobState) -> None:
        """An event, and the state after it; its step is about to be committed.

        Of a term's steps only the last may then fail to be. A step that can't be kept ends the
        keeping, not the term.
        """
        ...
