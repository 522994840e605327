"""Where a processor is, by the name of a provider."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.standalone.locations import location_id

pytestmark = pytest.mark.unit


def test_a_provider_is_named_and_several_are_one_location(tmp_path: Path) -> None:
    """A host and its disk, for instance."""
    (tmp_path / "disk").write_text("disk-3\nmore\n")
    environment = {"RACK": "r1", "POD_NAME": "orders-0"}
    assert location_id("host") == socket.gethostname()
    assert location_id("env:RACK", environment) == "r1"
    assert location_id("kubernetes", environment) == "orders-0"
    assert location_id("kubernetes", {**environment, "NODE_NAME": "n7"}) == "n7"
    assert location_id(f"env:RACK+file:{tmp_path / 'disk'}", environment) == "r1.disk-3"


@pytest.mark.parametrize(
    ("provider", "named"),
    [
        ("env:NOTHING", "NOTHING isn't set"),
        ("file:/no/such/file", "/no/such/file"),
        ("moon", "'moon'"),
        ("env:SPACED", "without spaces"),
    ],
)
def test_what_gives_no_location_is_named(provider: str, named: str) -> None:
    """With what would make it one."""
    with pytest.raises(InvalidInput, match=named):
        location_id(provider, {"SPACED": "a b"})
