"""`shadow report`, and what `coordinator run --shadow` says of options that it has no use for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from samza_dagster.cli.main import cli
from samza_dagster.coordinator.command import run_command
from samza_dagster.coordinator.shadow.command import unheeded
from samza_dagster.coordinator.shadow.decision import Decision
from samza_dagster.coordinator.shadow.events import ShadowEvent
from samza_dagster.coordinator.shadow.log import ShadowLog, Span

pytestmark = pytest.mark.unit

NOON_MS = 1_796_040_000_000
OURS = Decision("fail-over", "h2", "0-0", 17, with_state=True, waits_s=30.0, expected_s=33.2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shadow.jsonl"
    log = ShadowLog(path, "job/1")
    failed = ShadowEvent(
        "failure", NOON_MS + 5_000, "over", "0", "active", "h1", "h3", downtime_s=41.5, ours=OURS, same_host=False
    )  # fmt: skip
    log.event(failed)
    log.add_span(Span(NOON_MS, NOON_MS + 3_600_000, 3_590.0, 10.0, "it was told to end"))
    return path


def test_the_report_has_the_events_the_sums_and_how_long_somebody_listened(
    commands: Any, file: Path
) -> None:
    shown = commands.run("shadow", "report", str(file))
    assert shown.exit_code == 0
    (row,) = (line for line in shown.stdout.splitlines() if line.startswith("2026-11-30"))
    cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
    assert cells[1:9] == [
        "failure",
        "0",
        "h1",
        "h3",
        "41.5",
        "fail-over",
        "h2 (0-0, lag 17)",
        "33.2",
    ]
    assert "Both chose the same host in 0 of 1 events." in shown.stdout
    assert "Listened for 0:59:50, without the brokers for 0:00:10" in shown.stdout


def test_the_report_as_json(commands: Any, file: Path) -> None:
    document = commands.json("shadow", "report", str(file))
    assert document["summary"]["samza"]["failure"]["median_s"] == 41.5
    assert document["summary"]["expected"]["sum_s"] == 33.2
    assert [each["ours"]["standby"] for each in document["events"]] == ["0-0"]
    assert document["unreadable"] == []


def test_since_leaves_out_what_was_before(commands: Any, file: Path) -> None:
    document = commands.json("shadow", "report", "--since", "2026-12-01", str(file))
    assert document["events"] == []
    assert document["summary"]["shadows"] == 0
    shown = commands.run("shadow", "report", "--since", "2026-12-01", str(file))
    assert "No shadow listened." in shown.stdout


def test_a_torn_line_is_a_warning_and_not_an_error(commands: Any, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])
    shown = commands.run("shadow", "report", str(file))
    assert shown.exit_code == 0
    assert "skipped line 3" in shown.stderr


def test_a_file_that_is_not_there_is_exit_2(commands: Any, tmp_path: Path) -> None:
    assert (
        commands.json("shadow", "report", str(tmp_path / "none"), code=2)["error"] == "InvalidInput"
    )


def test_what_a_shadow_has_no_use_for_is_named() -> None:
    """By the flag that was given; what stands by default isn't."""
    given = [
        "--config",
        "a",
        "--shadow",
        "--launch",
        "b",
        "--token-file",
        "c",
        "--take-over",
        "now",
    ]
    parent = click.Context(cli)
    context = run_command.make_context("run", given, parent)
    assert unheeded(context) == ["--launch", "--token-file", "--take-over"]
    context = run_command.make_context("run", ["--config", "a", "--shadow"], parent)
    assert unheeded(context) == []


def test_without_a_shadow_a_launch_template_is_needed(commands: Any, tmp_path: Path) -> None:
    config = tmp_path / "job.properties"
    config.touch()
    shown = commands.run("coordinator", "run", "--config", str(config))
    assert shown.exit_code == 2
    assert "--launch" in shown.stderr
