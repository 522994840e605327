"""The commands over a standalone group: the same words and shapes as for a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.cli.options import Target
from samza_dagster.client import PlacementClient
from tests.rig.standalone_job import StandaloneJob
from tests.unit.cli.conftest import Commands, NoTopics

pytestmark = pytest.mark.unit


@pytest.fixture
def job(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> StandaloneJob:
    made = StandaloneJob()

    def client(_: Target) -> PlacementClient:
        return PlacementClient(made.access(NoTopics()))

    monkeypatch.setattr(Target, "client", client)
    return made


@pytest.mark.usefixtures("job")
def test_status_shows_tasks_locations_and_processors(commands: Commands) -> None:
    """A table more than for a cluster: who is registered, who leads, what is agreed on."""
    shown = commands.run("status")
    assert shown.exit_code == 0, shown.output
    for text in ("coordinator standalone", "Standby-P 1-0", "host-c", "agreed on 3"):
        assert text in shown.output
    document = commands.json("status")
    assert sorted(document["members"]) == ["a", "b", "c"]
    assert document["agreement"]["leader"] == "a"


@pytest.mark.usefixtures("job")
def test_locality_lag_and_explain_speak_of_tasks(commands: Commands) -> None:
    """As they do of containers."""
    assert commands.json("locality")["task-localities"]["P 1"] == "host-b"
    assert {row["processor_id"] for row in commands.json("lag")["replicas"]} == {
        "P 0",
        "P 1",
        "Standby-P 0-0",
        "Standby-P 1-0",
    }
    verdicts = {row["host"]: row["legal"] for row in commands.json("explain", "P 0")["hosts"]}
    assert verdicts == {"host-a": True, "host-b": False, "host-c": True}


def test_place_asks_and_a_dry_run_writes_nothing(commands: Commands, job: StandaloneJob) -> None:
    """By the options that it has for a cluster."""
    plan = commands.json("place", "P 0", "--to", "STANDBY", "--dry-run")
    assert (plan["coordinator"], plan["host"]) == ("standalone", "host-b")
    assert job.asked == []
    done = commands.json("place", "P 0", "--to", "STANDBY", "--timeout", "10")
    assert done["response"]["statusCode"] == "SUCCEEDED"
    assert job.places["P 0"] == "b"


def test_status_names_a_request_and_what_is_wrong(commands: Commands, job: StandaloneJob) -> None:
    """Of a task alone too."""
    job.leads = False
    asked = commands.json("place", "P 0", "--to", "host-c", "--no-wait")["request"]["uuid"]
    assert asked in commands.run("status", "P 0").output
    job.group = type(job.group)(model=job.group.model)
    assert "nobody leads" in commands.run("status").output


@pytest.mark.parametrize(
    "asked",
    [
        ("place", "P 0", "--to", "host-c", "--hold"),
        ("fail-over", "P 0"),
        ("control-standby", "start", "P 0"),
        ("cancel", "88b0d30c-d518-4307-9e8e-c8529eb30f04"),
    ],
)
@pytest.mark.usefixtures("job")
def test_what_has_no_meaning_there_is_refused(commands: Commands, asked: tuple[str, ...]) -> None:
    """With why, and what to do instead."""
    said = commands.json(*asked, code=2)
    assert "standalone group" in said["seen"]
    assert said["fix"]


@pytest.mark.usefixtures("clean_environment")
def test_where_zookeeper_is_says_a_jobs_config_unless_the_option_does(tmp_path: Path) -> None:
    """Without either, a cluster's coordinator runs the job."""
    config = tmp_path / "job.properties"
    lines = ["job.name=j", "job.default.system=k", "systems.k.consumer.bootstrap.servers=h:1"]
    config.write_text("\n".join([*lines, "job.coordinator.zk.connect=in-config:2181"]))
    given = {"config": str(config)}
    assert Target.of(**given).connection().zookeeper == "in-config:2181"
    assert Target.of(**given, zookeeper="option:2181").connection().zookeeper == "option:2181"
    assert Target.of(bootstrap_servers="h:1", job_name="j").connection().zookeeper == ""


def test_processor_names_what_it_serves() -> None:
    """Who runs processors finds the commands that ask of them."""
    shown = CliRunner().invoke(cli, ["processor", "--help"]).output
    for command in ("status", "locality", "lag", "explain", "place"):
        assert command in shown
