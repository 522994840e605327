"""Reads a job's state for tools that clean up after it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.placement.state import Group


def in_flight(groups: Iterable[Group]) -> frozenset[str]:
    """Return the UUIDs of the requests that run or are queued."""
    return frozenset(
        uuid
        for group in groups
        for uuid in (
            *((group.action.ask.uuid,) if group.action is not None else ()),
            *(ask.uuid for ask in group.queue),
        )
    )
