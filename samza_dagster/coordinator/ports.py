"""What a term needs of the outside, as small interfaces; `kafka.py` has the real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from samza_dagster.coordinator.durable import Record
from samza_dagster.model import PlacementRequest
from samza_dagster.placement.commands import Projection


class CoordinatorLog(Protocol):
    """The one writer of a job's durable state."""

    def commit(self, records: Sequence[Record], projections: Sequence[Projection]) -> None:
        """One transaction; returns when it is committed.

        Raises `Fenced` when another coordinator leads, `Unreachable` when the broker
        doesn't answer in time.
        """
        ...


class RequestSource(Protocol):
    """Placement requests in the coordinator stream."""

    def tail(
        self, on_request: Callable[[PlacementRequest], None]
    ) -> AbstractContextManager[object]:
        """Calls `on_request` for those that are there, then for each as it arrives."""
        ...

    def no_start_because(self) -> str:
        """Why no container could start at present; empty when nothing is known against it."""
        ...
