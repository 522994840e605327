"""`samza-dagster acknowledge`: into the Dagster instance that is named, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.orchestration.failover_log import InstanceEvents, acknowledged

pytestmark = pytest.mark.unit
TARGET = ("--bootstrap-servers", "here:9092", "--job-name", "j")


@pytest.fixture(autouse=True)
def quiet(clean_environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


def kept(home: Path) -> dict[str, int]:
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home)) as instance:
        return acknowledged(InstanceEvents(instance).observations(), "j/1")


def test_a_group_is_acknowledged_in_the_instance(commands: Any, tmp_path: Path) -> None:
    """A dry run first: it writes nothing."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    asked = ("acknowledge", "0", "--reason", "looked", "--dagster-home", str(tmp_path), *TARGET)
    assert commands.json(*asked, "--dry-run")["written"] is False
    assert kept(tmp_path) == {}
    assert commands.json(*asked) == {
        "job": "j/1",
        "group": "0",
        "reason": "looked",
        "written": True,
    }
    assert set(kept(tmp_path)) == {"0"}


def test_an_unknown_processor_and_a_missing_reason_are_refused(
    commands: Any, tmp_path: Path
) -> None:
    """Exit 2, and the ids that there are."""
    asked = ("acknowledge", "77", "--reason", "x", "--dagster-home", str(tmp_path), *TARGET)
    assert "processors 0" in commands.json(*asked, code=2)["seen"]
    assert commands.run("acknowledge", "0", *TARGET).exit_code == 2
