"""Tables as a program reads them through a pipe, and as they fit a narrow terminal."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
from rich.cells import cell_len
from rich.text import Text

from samza_dagster.cli.output import busy, print_table

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
    print_table("Title", COLUMNS, [ROW], spare=("at",))
    out, err = capsys.readouterr()
    assert UUID in out
    assert "15:26:23" not in out
    assert "no room for: at;" in err


@pytest.mark.usefixtures("narrow")
def test_a_table_that_fits_keeps_its_spare_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is left out without need."""
    print_table("Title", ("a", "b"), [("1", "2")], spare=("b",))
    out, err = capsys.readouterr()
    assert "b" in out
    assert err == ""


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("given", ["explain 0 --to host-3", "explain 0", "status", "lag"])
def test_no_line_of_a_table_is_wider_than_the_terminal_and_no_name_is_cut(
    commands: Any, monkeypatch: pytest.MonkeyPatch, width: int, given: str
) -> None:
    """Cells are whole in a table and in rows that are folded."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", str(width))):
        monkeypatch.setenv(name, value)
    lines = Text.from_ansi(commands.run(*given.split()).stdout).plain.splitlines()
    assert max(cell_len(line) for line in lines) <= width
    for host in ("host-1", "host-2", "host-3", "host-4"):
        assert any(re.search(rf"\b{host}\b", line) for line in lines), host


@pytest.mark.usefixtures("narrow")
def test_where_names_alone_are_too_wide_each_row_is_folded_with_every_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = ("request", "before it", "after it", "host")
    print_table("Title", columns, [(UUID, UUID, UUID, None)], spare=("host",))
    out, err = capsys.readouterr()
    lines = [line.split() for line in Text.from_ansi(out).plain.splitlines()]
    assert lines == [["Title"], ["request", UUID], ["before", "it", UUID], ["after", "it", UUID]]
    assert err == ""


def test_explain_says_each_thing_once(commands: Any) -> None:
    """The rule beside the question, what was seen and the change in the host's row."""
    out = commands.run("explain", "0", "--to", "host-3").stdout
    facts, hosts = out.split("Hosts", 1)
    assert facts.count("never on one host") == 1
    for once in ("standby 0-0 is on host-3", "move 0-0 first"):
        assert (facts.count(once), hosts.count(once)) == (0, 1)
    assert "would go to" not in commands.run("explain", "0", "--to", "host-2").stdout


@pytest.mark.usefixtures("narrow")
def test_no_word_of_a_sentence_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """A variable's name is copied from a fix, too."""
    name = "SAMZA_DAGSTER_BOOTSTRAP_SERVERS"
    print_table("Title", ("check", "seen", "fix"), [("a b", f"no {name}", f"set {name} to it")])
    print_table(
        "Title", ("check", "seen", "fix"), [("a b", f"no {name}S_OF_IT", f"set {name}S_OF_IT")]
    )
    as_table, folded = Text.from_ansi(capsys.readouterr().out).plain.split("Title")[1:]
    assert "┏" in as_table
    assert "┏" not in folded
    assert as_table.count(name) == folded.count(name) == 2


def test_a_terminal_without_utf_8_gets_a_spinner_that_it_can_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not the escapes of what it can't."""
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, encoding="latin-1", errors="backslashreplace")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with busy("Reading the job …"):
        pass
    terminal.flush()
    assert b"Reading the job ..." in written.getvalue()
    assert b"\\u" not in written.getvalue()
