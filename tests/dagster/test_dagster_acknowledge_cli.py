"""`samza-dagster acknowledge`: into the Dagster instance that is named, and nowhere else."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner
from lookout import Lookout

from samza_dagster.cli.main import cli
from samza_dagster.cli.options import Target
from samza_dagster.client import PlacementClient
from samza_dagster.orchestration.history.names import KEY
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.reported import history, with_events

pytestmark = pytest.mark.dagster


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "SAMZA_DAGSTER_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    world = Lookout()

    def client(_: Target) -> AbstractContextManager[PlacementClient]:
        return nullcontext(world.client())

    monkeypatch.setattr(Target, "client", client)


def acknowledge(home: Path, processor: str, *more: str) -> tuple[int, str]:
    target = ("--bootstrap-servers", "here:9092", "--job-name", "j", "--json")
    done = CliRunner().invoke(
        cli, ["acknowledge", processor, "--dagster-home", str(home), *target, *more]
    )
    return done.exit_code, done.stdout


@pytest.mark.longdagster
def test_a_group_is_acknowledged_in_the_instance(tmp_path: Path) -> None:
    """A dry run and a refusal first: they write nothing."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    code, told = acknowledge(tmp_path, "0", "--reason", "looked", "--dry-run")
    assert (code, json.loads(told)["written"]) == (0, False)
    code, told = acknowledge(tmp_path, "77", "--reason", "looked")
    assert code == 2
    assert "processors 0" in json.loads(told)["seen"]
    assert acknowledge(tmp_path, "0")[0] == 2
    code, told = acknowledge(tmp_path, "1-0", "--reason", "looked")
    assert (code, json.loads(told)) == (
        0,
        {"job": "j/1", "group": "1", "reason": "looked", "written": True},
    )
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        prefixed = dg.AssetKey(["orders", "placement_history"])
        assert acknowledged(instance, KEY) == acknowledged(instance, prefixed) == {"1"}
        at_its_prefix = ("--reason", "looked", "--prefix", "orders")
        assert acknowledge(tmp_path, "0", *at_its_prefix)[0] == 0
        assert acknowledged(instance, KEY) == {"1"}
        assert acknowledged(instance, prefixed) == {"0", "1"}


def acknowledged(instance: dg.DagsterInstance, key: dg.AssetKey) -> set[str]:
    """Groups, by what the sensor reads under its key."""
    return {*with_events(FailoverCursor("j/1"), history(instance, key))[0].acknowledged}


@pytest.mark.parametrize(
    ("option", "text"), [("--reason", "x" * 501), ("--reason", " "), ("--ticket", "x" * 129)]
)
def test_a_text_has_the_bounds_that_it_has_in_dagster_s_form(
    tmp_path: Path, option: str, text: str
) -> None:
    """It is kept with the event, and shown with it."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    code, told = acknowledge(tmp_path, "0", "--reason", "looked", option, text, "--dry-run")
    assert code == 2
    assert option in json.loads(told)["asked"]
    assert " characters" in json.loads(told)["fix"]
    longest = ("--reason", "x" * 500, "--ticket", "x" * 128, "--dry-run")
    assert acknowledge(tmp_path, "0", *longest)[0] == 0


def test_a_directory_that_is_no_instance_is_told_nothing(tmp_path: Path) -> None:
    """It isn't acknowledged there, nor would it be; Dagster makes no new instance of it."""
    for more in ((), ("--dry-run",)):
        code, told = acknowledge(tmp_path, "0", "--reason", "looked", *more)
        assert code == 2
        assert "DAGSTER_HOME" in json.loads(told)["asked"]
        assert f"samza-dagster instance {tmp_path}" in json.loads(told)["fix"]
    assert list(tmp_path.iterdir()) == []
