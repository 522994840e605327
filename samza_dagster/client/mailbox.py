"""Where requests of our own are written and their answers are heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from samza_dagster.metadata.interface import Watch
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import OwnRequest


class Mailbox(Protocol):
    """The writing side of the state topic, for those who don't lead (`OwnRequestStore`)."""

    def prepare_writes(self) -> None:
        """Gets ready for the first write; returns at once."""
        ...

    def write(self, uuid: str, request: OwnRequest) -> int:
        """Writes a request; returns its position."""
        ...

    def delete_request(self, uuid: str) -> None:
        """Deletes a request (if present)."""
        ...

    def delete_response(self, uuid: str) -> None:
        """Deletes an answer (if present)."""
        ...

    def end_position(self) -> int:
        """The position that the next record will have, or a later one."""
        ...

    def watch_responses(
        self,
        on_response: Callable[[PlacementResponse, int], None],
        *,
        from_position: int | None = None,
    ) -> Watch:
        """Calls `on_response` with each answer and its position, as it is committed."""
        ...

    def close(self) -> None:
        """Releases connections."""
        ...
