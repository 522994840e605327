"""A release before this one knew a single host where a start had failed."""

from __future__ import annotations

import pytest

from samza_dagster.placement.codec import group_from_json

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("older", "read"), [(None, ()), ("host-1", ("host-1",))])
def test_the_one_host_to_avoid_is_read_as_the_last_of_them(
    older: str | None, read: tuple[str, ...]
) -> None:
    """Its field has another name."""
    processor = {"processor_id": "0", "role": "Active", "phase": "waiting", "avoid_host": older}
    group = group_from_json({"group_id": "0", "processors": {"0": processor}})
    assert group.processors["0"].avoid_hosts == read
