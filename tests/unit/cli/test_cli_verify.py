"""`verify` over a file: what it prints and how it exits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client import audit_history
from samza_dagster.client.audit_history import AuditHistory, lines_of
from samza_dagster.metadata.connection import Connection
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.verification import Head
from tests.unit.placement.chronicle import Chronicle

pytestmark = pytest.mark.unit


def history() -> list[AuditRecord]:
    job = Chronicle()
    active = job.start("0", "host-1")
    job.start("0-0", "host-2")
    job.end(active, "lease")
    job.start("0", "host-3")
    return job.records


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(lines_of(history())))
    return path


def test_a_history_in_order_is_exit_0(commands: Any, file: Path) -> None:
    """With a summary: how many, of whom, and how what they replaced had ended."""
    head = f"4:{history()[-1].digest}"
    assert commands.json("verify", "--from-file", str(file)) == {
        "ok": True,
        "records": 4,
        "complete": True,
        "first_number": 1,
        "first_at_ms": 1_007,
        "last_at_ms": 1_028,
        "head": head,
        "state_head": None,
        "kept_since_ms": None,
        "unread": None,
        "starts": {"0": 2, "0-0": 1},
        "predecessors": {"first": 2, "lease": 1},
        "violation": None,
    }
    shown = commands.run("verify", "--from-file", str(file), "--head", head)
    assert shown.exit_code == 0
    assert "4 records, 1 to 4" in shown.stdout
    assert shown.stdout.endswith(f"Head: {head}\nNo rule is broken.\n")


def test_the_first_violation_is_exit_1(commands: Any, file: Path) -> None:
    """Which record, which rule, what was seen."""
    records = history()
    records[2] = replace(records[2], how="dead")
    file.write_text("".join(lines_of(records)))
    document = commands.json("verify", "--from-file", str(file), code=1)
    assert document["ok"] is False
    violation = document["violation"]
    assert (violation["position"], violation["number"], violation["rule"]) == (3, 3, "digest")
    shown = commands.run("verify", "--from-file", str(file))
    assert shown.exit_code == 1
    assert "Violation in record 3 (place 3 in the history), rule digest: " in shown.stdout


def test_a_history_cut_at_its_end_doesnt_fit_a_head_kept_elsewhere(
    commands: Any, file: Path
) -> None:
    """Alone it looks like a younger one."""
    head = f"4:{history()[-1].digest}"
    file.write_text("".join(lines_of(history()[:3])))
    assert commands.json("verify", "--from-file", str(file))["ok"] is True
    document = commands.json("verify", "--from-file", str(file), "--head", head, code=1)
    assert document["violation"]["rule"] == "head"


def test_a_history_that_begins_later_says_so(commands: Any, file: Path) -> None:
    """On stderr and in the document; it isn't a violation."""
    file.write_text("".join(lines_of(history()[2:])))
    assert commands.json("verify", "--from-file", str(file))["complete"] is False
    shown = commands.run("verify", "--from-file", str(file))
    assert shown.exit_code == 0
    assert "records before 3 aren't there" in shown.stderr


@pytest.mark.parametrize(
    ("content", "seen"),
    [("{\n", "line 1"), ('{"version":1}\n', "field "), (b"\xff\xfe\n", "UTF-8")],
)
def test_a_file_that_is_no_history_is_exit_2(
    commands: Any, file: Path, content: str | bytes, seen: str
) -> None:
    """Line and field are named."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    document = commands.json("verify", "--from-file", str(file), code=2)
    assert seen in document["seen"]


def test_wrong_usage_is_exit_2(commands: Any, file: Path, clean_environment: Any) -> None:
    """A file that isn't there, a head that is none, no job at all."""
    assert commands.json("verify", "--from-file", "/no/such/file", code=2)["asked"]
    assert commands.json("verify", "--from-file", str(file), "--head", "4", code=2)["asked"]
    assert "SAMZA_DAGSTER_BOOTSTRAP_SERVERS" in commands.json("verify", code=2)["seen"]


def test_a_jobs_history_is_exported_and_checked_again(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file alone tells the same, on a machine without the cluster."""
    records = history()
    asked: list[Connection] = []

    def read(connection: Connection) -> AuditHistory:
        asked.append(connection)
        return AuditHistory(tuple(records), Head(4, records[-1].digest, 1_028), 1_000)

    monkeypatch.setattr(audit_history, "read_history", read)
    exported = tmp_path / "out.jsonl"
    job = ("--bootstrap-servers", "h:1", "--job-name", "j", "--job-id", "2")
    first = commands.json("verify", *job, "--export", str(exported))
    assert asked[0].audit_topic == "__samza_dagster_audit_j_2"
    second = commands.json("verify", "--from-file", str(exported))
    assert first["state_head"] == second["head"]
    assert first == second
    lines = exported.read_text().splitlines(keepends=True)
    for left, rule in ((lines[-1:], "retention"), (lines[2:], "retention"), (lines[:-2], "head")):
        closing = lines[-1:] if left is not lines[-1:] and left[-1] != lines[-1] else []
        exported.write_text("".join([*left, *closing]))
        document = commands.json("verify", "--from-file", str(exported), code=1)
        assert document["violation"]["rule"] == rule
    assert commands.json("verify", *job, "--export", "/no/such/place", code=2)["asked"]


@pytest.mark.parametrize(
    ("head", "since_ms", "code", "said"),
    [
        (None, 0, 0, "No record yet."),
        (Head(9, "a" * 64, 5), 6, 0, "the state counts 9, older than what the topic keeps"),
        (Head(9, "a" * 64, 6), 6, 1, "Violation, rule retention: no record is there"),
        (Head(9, "a" * 64), None, 1, "isn't known"),
    ],
)
def test_no_record_at_all_is_said(
    commands: Any,
    monkeypatch: pytest.MonkeyPatch,
    head: Head | None,
    since_ms: int | None,
    code: int,
    said: str,
) -> None:
    """A job that never started anything, records older than the topic keeps, or a wiped topic."""
    found = AuditHistory((), head, since_ms)
    monkeypatch.setattr(audit_history, "read_history", lambda _connection: found)
    shown = commands.run("verify", "--bootstrap-servers", "h:1", "--job-name", "j")
    assert (shown.exit_code, said in shown.stdout) == (code, True)


@pytest.mark.parametrize(
    ("since_ms", "code", "said"),
    [
        (None, 0, "how long their topic keeps them, or how old they were, isn't known"),
        (1_021, 1, "the topic keeps what was written since"),
        (1_022, 0, "dropped by age"),
    ],
)
def test_why_a_beginning_is_gone_is_said(
    commands: Any, monkeypatch: pytest.MonkeyPatch, since_ms: int | None, code: int, said: str
) -> None:
    """By age, or while the topic keeps what is so young: that is a violation."""
    found = AuditHistory(tuple(history()[3:]), None, since_ms)
    monkeypatch.setattr(audit_history, "read_history", lambda _connection: found)
    shown = commands.run("verify", "--bootstrap-servers", "h:1", "--job-name", "j")
    assert (shown.exit_code, said in shown.stderr) == (code, True)
    assert ("rule retention: record 3, written at" in shown.stdout) == (code == 1)
