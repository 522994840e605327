"""`samza-dagster bounce`: through the Dagster instance that is named, whatever is wrong with that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from bounce_runs import bounce
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.orchestration.instance import POSTGRES_URL, write_instance
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster


@pytest.fixture
def home(dagster_home: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A DAGSTER_HOME."""
    return dagster_home(tmp_path)


@pytest.fixture
def on_disk(home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance on SQLite, which the command line opens beside the run."""
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def command(home: Path, *arguments: str, code: int = 0) -> Any:
    """The JSON of `samza-dagster bounce …`."""
    given = ["bounce", *arguments, "--json", "--dagster-home", str(home)]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_the_command_line_shows_the_newest_bounces_and_one_with_its_containers(
    world: BounceWorld, on_disk: dg.DagsterInstance, home: Path
) -> None:
    """Through the instance alone: no web server is asked."""

    def terminate(world: BounceWorld) -> None:
        if len(world.requests) == 2:
            raise dg.DagsterExecutionInterruptedError

    world.on_sleep = terminate
    run = bounce(on_disk, requested_by="jo", reason="image")
    (shown,) = command(home, "status")["bounces"]
    assert shown["run_id"] == run.run_id
    assert (shown["state"], shown["who"], shown["why"]) == ("terminated", "jo", "image")
    assert shown["progress"].startswith("1/4")
    one = command(home, "status", run.run_id[:6])
    statuses = [(p["processor"], p["status"]) for p in one["processors"]]
    assert statuses == [("0-0", "back"), *((p, "not yet") for p in ("1-0", "0", "1"))]
    assert command(home, "status", "ffffffffff", code=2)["seen"] == "none"
    assert command(home, "status", "--job-name", "other") == {"bounces": []}

    given = ["bounce", "status", run.run_id, "--dagster-home", str(home)]
    lines = CliRunner().invoke(cli, given).stdout.splitlines()
    assert any(line.split()[:2] == ["0-0", "back"] for line in lines)
    assert any(line.split()[:4] == ["1", "not", "yet", "host-2"] for line in lines)


def test_the_command_line_says_that_it_needs_an_instance() -> None:
    """And which."""
    result = CliRunner().invoke(cli, ["bounce", "status"], env={"DAGSTER_HOME": ""})
    assert result.exit_code == 2
    assert "DAGSTER_HOME" in result.stderr


def test_a_directory_that_is_no_instance_is_refused_and_nothing_is_made_in_it(
    tmp_path: Path,
) -> None:
    """Dagster would make a new instance of it, which has no bounces."""
    for home in (tmp_path, tmp_path / "none"):
        refused = command(home, "status", code=2)
        assert "DAGSTER_HOME" in refused["asked"] + refused["fix"]
        assert refused["seen"]
    assert f"samza-dagster instance {tmp_path}" in command(tmp_path, "status", code=2)["fix"]
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "runs.db").write_text("no database")
    assert "no dagster.yaml" in command(tmp_path, "status", code=2)["seen"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["history", "runs.db"]


@pytest.mark.longdagster
def test_an_instance_with_dagster_s_defaults_needs_no_dagster_yaml(tmp_path: Path) -> None:
    """What it keeps of runs shows that it is one."""
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        assert made.get_runs_count() == 0
    assert command(tmp_path, "status") == {"bounces": []}


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"a: [", "while parsing"),
        (b"- 1\n", "to parse to dictionary"),
        (b"\xff\xfe\x80", "utf-8"),
    ],
)
def test_a_dagster_yaml_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, seen: str
) -> None:
    """As one JSON document, without a traceback."""
    (tmp_path / "dagster.yaml").write_bytes(content)
    refused = command(tmp_path, "status", code=2)
    assert seen in refused["seen"]
    assert str(tmp_path / "dagster.yaml") in refused["fix"]


def test_the_command_line_says_what_keeps_it_from_opening_the_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that isn't set; a database that doesn't answer, without its password."""
    write_instance(tmp_path, storage="postgres")
    monkeypatch.delenv(POSTGRES_URL, raising=False)
    unset = command(tmp_path, "status", code=2)
    assert (unset["error"], POSTGRES_URL in unset["seen"]) == ("InvalidInput", True)
    monkeypatch.setenv(POSTGRES_URL, "postgresql+psycopg2://me:s3cret@127.0.0.1:1/dagster")
    monkeypatch.setattr("dagster_postgres.utils.time.sleep", lambda _: None)
    down = command(tmp_path, "status", code=4)
    assert down["error"] == "Unreachable"
    assert "refused" in down["seen"]
    assert "s3cret" not in str(down)
