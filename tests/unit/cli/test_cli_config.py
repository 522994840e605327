"""`config show`, and flags of a process that stand in the environment or the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from samza_dagster.coordinator.command import run_command
from samza_dagster.coordinator.job_process import JobProcess

pytestmark = pytest.mark.unit


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_environment: Any) -> Path:
    path = tmp_path / "config.toml"
    path.write_text("")
    monkeypatch.setenv("SAMZA_DAGSTER_CONFIG_FILE", str(path))
    return path


def test_config_show_says_what_counts_and_where_it_was_said(commands: Any, file: Path) -> None:
    """Without a broker, and with the secrets masked."""
    login = file.with_name("client.properties")
    login.write_text("sasl.username=me\nsasl.password=s3cret\n")
    file.write_text(f'bootstrap_servers = "h:1"\nclient_config = "{login}"\n')
    given = ("config", "show", "--job-name", "orders")
    document = commands.json(*given)
    told = document["settings"]
    assert (told["bootstrap_servers"]["value"], told["bootstrap_servers"]["said_by"]) == (
        *("h:1", str(file)),
    )
    assert told["job_name"]["said_by"] == "--job-name"
    assert told["zookeeper"]["value"] is None
    assert document["client"] == {"sasl.username": "me", "sasl.password": "…"}
    text = commands.run(*given).stdout
    assert "orders" in text
    assert "s3cret" not in text


def test_config_show_says_what_is_missing(commands: Any, file: Path) -> None:
    """Beside what is there, with exit code 2."""
    result = commands.run("config", "show", "--bootstrap-servers", "h:1")
    assert result.exit_code == 2
    assert "h:1" in result.stdout
    assert "--job-name" in result.stderr


def test_flags_of_the_coordinator_stand_in_file_environment_and_line(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each over the one before, the needed ones, too."""
    file.write_text(
        'config = "job.properties"\n[coordinator]\ntoken_file = "t"\nurl_file = "u"\n'
        'launch = "l"\nlisten = "file:1"\n'
    )
    seen: list[dict[str, Any]] = []
    bare = JobProcess("run", section="coordinator", params=run_command.params)
    bare.callback = lambda **given: seen.append(given)

    def listen(*given: str) -> str:
        result = CliRunner().invoke(bare, list(given))
        assert result.exit_code == 0, result.output
        return seen[-1]["listen"]

    assert listen() == "file:1"
    assert seen[-1]["config"] == Path("job.properties")
    monkeypatch.setenv("SAMZA_DAGSTER_COORDINATOR_LISTEN", "environment:1")
    assert listen() == "environment:1"
    assert listen("--listen", "line:1") == "line:1"
    help_text = run_command.get_help(
        click.Context(run_command, auto_envvar_prefix="SAMZA_DAGSTER_COORDINATOR")
    )
    assert "SAMZA_DAGSTER_COORDINATOR_LISTEN" in help_text
    assert "SAMZA_DAGSTER_YARN_RESOURCE_MANAGER" in help_text
