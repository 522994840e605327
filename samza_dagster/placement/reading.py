"""What those who tidy up after a job read in its state. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.placement.state import Group


def in_flight(groups: Iterable[Group]) -> frozenset[str]:
    """UUIDs of the requests that are being acted on or wait for their turn."""
    return frozenset(
        uuid
        for group in groups
        for uuid in (
            *((group.action.ask.uuid,) if group.action is not None else ()),
            *(ask.uuid for ask in group.queue),
        )
    )
