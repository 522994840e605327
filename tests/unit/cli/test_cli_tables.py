"""Tables as a program reads them through a pipe, and as they fit a narrow terminal."""

from __future__ import annotations

import pytest

from samza_dagster.cli.output import print_table

pytestmark = pytest.mark.unit

COLUMNS = ("request", "host", "at", "message")
UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
MESSAGE = "a message of many words " * 12
ROW = (UUID, None, "2026-11-21 15:26:23.102Z", MESSAGE)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_pipe_gets_a_line_per_row_and_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    """However long a cell is: `grep` and `awk` find whole records, without borders."""
    print_table("Title", COLUMNS, [ROW, ROW], spare=("at",))
    out, err = capsys.readouterr()
    title, header, *rows = (line.rstrip() for line in out.splitlines())
    assert title == "Title"
    assert header.split() == list(COLUMNS)
    assert len(rows) == 2
    assert rows[0].split() == [UUID, "-", *ROW[2].split(), *MESSAGE.split()]  # type: ignore[union-attr]
    assert err == ""


@pytest.mark.usefixtures("narrow")
def test_a_narrow_terminal_loses_spare_columns_and_breaks_no_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An id is copied from one line; what is missing is told beside the result."""
    print_table("Title", COLUMNS, [ROW], spare=("at", "absent"))
    out, err = capsys.readouterr()
    assert UUID in out
    assert "15:26:23" not in out
    assert "no room for: at, absent" in err


@pytest.mark.usefixtures("narrow")
def test_a_table_that_fits_keeps_its_spare_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is left out without need."""
    print_table("Title", ("a", "b"), [("1", "2")], spare=("b",))
    out, err = capsys.readouterr()
    assert "b" in out
    assert err == ""
