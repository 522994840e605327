"""What stays of a container that failed by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.agent.incarnation import HostedIncarnation

pytestmark = pytest.mark.unit


def _dead(root: Path, execution_id: str, log: str) -> HostedIncarnation:
    directory = root / "incarnations" / execution_id
    directory.mkdir(parents=True)
    (directory / "container.log").write_text(log)
    return HostedIncarnation(
        directory,
        {"processor_id": "0", "sequence": 1, "store_directories": [], "stop_grace_s": 1.0},
    )


def test_the_log_of_the_last_failure_stays_one_per_processor(tmp_path: Path) -> None:
    """A loop of failing starts says why, and fills no disk."""
    for number, status in enumerate((1, 1, 137)):
        found = _dead(tmp_path, f"e{number}", f"failure {number}")
        found.exit_status = status
        found.forget()
        assert not found.directory.exists()
    (kept,) = (tmp_path / "last-failure").iterdir()
    assert (kept.name, kept.read_text()) == ("0.log", "failure 2")


def test_what_was_cut_off_the_log_stays_with_it(tmp_path: Path) -> None:
    """The reason of a failure may lie before the cut. An earlier failure's goes."""
    kept = tmp_path / "last-failure"
    for number, older in enumerate((None, "before 1", None)):
        found = _dead(tmp_path, f"e{number}", f"failure {number}")
        if older is not None:
            (found.directory / "container.log.1").write_text(older)
        found.exit_status = 1
        found.forget()
        there = {file.name: file.read_text() for file in kept.iterdir()}
        assert there.pop("0.log") == f"failure {number}"
        assert there == ({} if older is None else {"0.log.1": older})


@pytest.mark.parametrize(("status", "asked"), [(0, False), (143, True), (None, False)])
def test_one_that_was_stopped_or_ended_well_leaves_nothing(
    tmp_path: Path, status: int | None, asked: bool
) -> None:
    """Its log is no failure's."""
    found = _dead(tmp_path, "e1", "fine")
    found.exit_status, found.stop_asked = status, asked
    found.forget()
    assert not (tmp_path / "last-failure").exists()
