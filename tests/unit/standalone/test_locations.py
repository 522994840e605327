"""Where a processor is, by the name of a provider."""

from __future__ import annotations

import socket
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from samza_dagster.cli import location_ids as locations
from samza_dagster.cli.location_ids import location_id
from samza_dagster.errors import InvalidInput

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


def test_a_package_brings_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under an entry point; what stands behind the colon is its argument."""
    point = EntryPoint(
        "rack", "tests.unit.standalone.test_locations:rack_of", locations.ENTRY_POINTS
    )
    monkeypatch.setattr(
        locations, "entry_points", lambda **asked: EntryPoints([point]).select(**asked)
    )
    assert location_id("rack:7+env:DISK", {"DISK": "d1"}) == "rack-7.d1"


def rack_of(number: str) -> str:
    """A provider."""
    return f"rack-{number}"


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
