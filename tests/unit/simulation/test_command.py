"""`python -m tests.simulation`: searches, replays, follows a log, and says how it went."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from samza_dagster.coordinator.recording import line_of, start_line_of
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import JobState
from tests.simulation.campaign import CampaignResult
from tests.simulation.command import simulate as command
from tests.simulation.coverage import COLUMNS, ROWS
from tests.simulation.driver import simulate
from tests.simulation.judges.violation import JUDGES

pytestmark = pytest.mark.unit


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner()


def test_a_search_reports_every_invariant_and_the_table(runner: CliRunner) -> None:
    """One JSON document; the exit code follows from it."""
    result = runner.invoke(command, ["--events", "600", "--json"])
    document = json.loads(result.stdout)
    assert set(document["premises"]) == set(JUDGES)
    assert document["events"] >= 600
    assert document["coverage"]["running"]["death"] > 0
    bad = document["violations"] or not all(document["premises"].values())
    assert result.exit_code == (1 if bad else 0)
    assert "100 %" in result.stderr.splitlines()[-1], "progress, also where nobody is at a terminal"


@pytest.mark.parametrize(("met", "exit_code"), [(100, 0), (99, 1), (0, 1)])
@pytest.mark.parametrize("long_run", [True, False])
def test_a_long_run_in_which_a_fault_hardly_met_a_transition_fails(
    runner: CliRunner,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    met: int,
    exit_code: int,
    *,
    long_run: bool,
) -> None:
    """The table has each pair's count, the end names those that are too rare."""
    coverage = Counter({(row, column): 321 for row in ROWS for column in COLUMNS})
    coverage["queued", "freeze"] = met
    premises = Counter(dict.fromkeys(JUDGES, 1))
    result = CampaignResult(1, histories=1, coverage=coverage, premises=premises)
    monkeypatch.setattr("tests.simulation.campaign.run", lambda *_, **__: result)
    events = "5000000" if long_run else "4999999"
    told = runner.invoke(command, ["--events", events, "--report", "report.json"])
    assert told.exit_code == (exit_code if long_run else 0)
    queued = next(line for line in told.stdout.splitlines() if line.startswith("queued"))
    assert queued.split().count("321") == len(COLUMNS) - 1
    assert str(met) in queued.split()
    assert ("Met less than 100 times" in told.stderr) == bool(told.exit_code)
    assert (f"queued x freeze {met}" in told.stderr) == bool(told.exit_code)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert document["coverage"]["queued"]["freeze"] == met


def test_a_broken_rule_is_told_as_soon_as_it_is_found(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives up on a long search knows the seed; what shortens it comes at the end."""
    monkeypatch.setattr("samza_dagster.placement.rules.violation", lambda *_, **__: None)
    monkeypatch.setattr("tests.simulation.shrinking.shrink", lambda script, _: script)
    result = runner.invoke(command, ["--events", "9000", "--laws-every", "100", "--json"])
    assert result.exit_code == 1
    seed = json.loads(result.stdout)["violations"][0]["seed"]
    lines = result.stderr.splitlines()
    told = next(n for n, line in enumerate(lines) if line.startswith(f"Seed {seed} breaks "))
    assert told < next(n for n, line in enumerate(lines) if line.startswith("Shortening "))
    assert any(" events  " in line for line in lines[told:]), "the progress goes on after it"


def test_a_script_is_played_again(runner: CliRunner, tmp_path: Path) -> None:
    """Move by move, event by event."""
    history = simulate(11, 60)
    path = tmp_path / "script.json"
    path.write_text(json.dumps(history.script.to_json()), encoding="utf-8")
    result = runner.invoke(command, ["--replay", str(path)])
    assert "      > " in result.stdout
    assert result.exit_code == (0 if history.violation is None else 1)


def test_a_recorded_log_is_followed(runner: CliRunner, tmp_path: Path) -> None:
    """The same states: 0; another one: 1, and the line is named."""
    state = JobState("demo")
    lines = [start_line_of(1, {}, state)]
    for at_ms in (1, 2):
        event = ev.HostRegistered(at_ms, f"host-{at_ms}", frozenset())
        state = step(state, event).state
        lines.append(line_of(event, state, 1))
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert runner.invoke(command, ["--log", str(path)]).exit_code == 0
    path.write_text("\n".join([lines[0], lines[2]]) + "\n", encoding="utf-8")
    result = runner.invoke(command, ["--log", str(path)])
    assert result.exit_code == 1
    assert "Line 2" in result.stdout


def test_a_log_of_two_terms_is_told(runner: CliRunner, tmp_path: Path) -> None:
    """How many take-overs were judged; the first field that one of them changed; a cut line."""
    event = ev.HostRegistered(1, "host-1", frozenset())
    lines = [start_line_of(1, {}, JobState("demo"))]
    lines.append(line_of(event, step(JobState("demo"), event).state, 1))
    path = tmp_path / "events.jsonl"
    for alive, exit_code, told in (
        (True, 0, "1 events in 2 terms, 1 take-overs judged, every state the same.\n"),
        (False, 1, "Line 4 took over another state than the term before left: "),
    ):
        records = {"host/host-1": {"host": "host-1", "alive": alive}}
        start = start_line_of(2, records, restore(records, "demo"))
        path.write_text("\n".join([*lines, '{"ver', start]) + "\n", encoding="utf-8")
        result = runner.invoke(command, ["--log", str(path)])
        assert (result.exit_code, told in result.stdout) == (exit_code, True), result.stdout
        assert "Line 3 was cut short" in result.stdout
    assert "hosts.host-1.alive is false, expected was true.\n" in result.stdout
    result = runner.invoke(command, ["--log", str(path), "--json"])
    assert json.loads(result.stdout) == {
        "version": 1,
        "events": 1,
        "terms": 2,
        "take_overs_judged": 1,
        "lines_cut_short": [3],
        "differs_at_line": 4,
        "where": "hosts.host-1.alive",
        "expected": "true",
        "seen": "false",
    }
