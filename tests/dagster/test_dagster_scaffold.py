"""A user's way to a first `defs.yaml`: Dagster's own `dg`, in a project of its own layout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from samza_dagster import SamzaJobComponent
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.scaffold import JobParams, SamzaJobScaffolder

DG = Path(sys.executable).with_name("dg")
TYPE = "samza_dagster.SamzaJobComponent"
PROJECT = """
[project]
name = "placed"
version = "0"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "placed"
"""
DEFINITIONS = """
from pathlib import Path
from dagster import definitions, load_from_defs_folder

@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


def scaffolded(folder: Path, params: JobParams, scaffold_format: str = "yaml") -> Path:
    folder.mkdir()
    SamzaJobScaffolder().scaffold(
        dg.ScaffoldRequest(TYPE, folder, scaffold_format, None, params)  # type: ignore[arg-type]
    )
    return folder / "defs.yaml"


@pytest.mark.longdagster
def test_dg_lists_scaffolds_and_checks_it(tmp_path: Path) -> None:
    """What it writes loads as it is, by the name under which it's listed."""
    package = tmp_path / "src" / "placed"
    (package / "defs").mkdir(parents=True)
    for directory in (package, package / "defs"):
        (directory / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "src"),
        "VIRTUAL_ENV": str(DG.parents[1]),
        "DG_CLI_CONFIG": str(tmp_path / "dg.toml"),
        "COLUMNS": "200",
        "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": "localhost:9092",
    }

    def dg_(*arguments: str) -> str:
        command = [str(DG), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert TYPE in dg_("list", "components", "--package", "samza_dagster", "--json")
    dg_("scaffold", "defs", TYPE, "orders", "--app-name", "orders", "--app-id", "2")
    assert "validated" in dg_("check", "yaml")
    listed = dg_("list", "defs", "--json")
    assert "orders_move_with_standby" in listed
    assert "orders_auto_failover" in listed


@pytest.mark.dagster
def test_a_scaffolded_job_loads_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder's name is its prefix, so that a second one never collides with it."""
    monkeypatch.setenv("SAMZA_DAGSTER_BOOTSTRAP_SERVERS", "kafka-1:9092")
    params = JobParams(app_name='or"ders: 1', app_id="007")
    job = SamzaJobComponent.from_file(scaffolded(tmp_path / "my-job", params))
    assert (job.bootstrap_servers, job.job) == ("kafka-1:9092", 'or"ders: 1/007')
    assert job.prefix == "my_job"
    assert job.auto_failover.mode is None


@pytest.mark.dagster
def test_what_it_shows_as_comments_is_valid_too(tmp_path: Path) -> None:
    """Whoever takes the `#` away has a job that loads."""
    path = scaffolded(tmp_path / "job", JobParams(app_name="orders", bootstrap_servers="k:1"))
    text = path.read_text()
    for comment in ("# hosts:", "# auto_failover:", "# bounces:", "#   - {name"):
        assert comment in text
        text = text.replace(comment, comment.replace("# ", "", 1).replace("#", "", 1))
    text = text.replace("{}  # ", "")
    path.write_text(text)
    job = SamzaJobComponent.from_file(path)
    assert job.hosts == ["host-1", "host-2"]
    assert [each.name for each in job.bounces] == ["sunday"]
    assert job.client_config_env == {"sasl.password": "KAFKA_PASSWORD"}


@pytest.mark.dagster
def test_another_one_is_appended(tmp_path: Path) -> None:
    """A `defs.yaml` may hold several."""
    path = scaffolded(tmp_path / "jobs", JobParams(app_name="orders"))
    params = JobParams(app_name="billing", prefix="billing")
    SamzaJobScaffolder().scaffold(dg.ScaffoldRequest(TYPE, path, "yaml", None, params, append=True))
    found = [each["attributes"]["prefix"] for each in yaml.safe_load_all(path.read_text())]
    assert found == ["jobs", "billing"]


@pytest.mark.dagster
def test_python_instead_of_yaml_is_refused(tmp_path: Path) -> None:
    """The component's values are resolved from YAML: environment, bounds."""
    with pytest.raises(InvalidInput, match="--format yaml"):
        scaffolded(tmp_path / "job", JobParams(app_name="orders"), "python")
