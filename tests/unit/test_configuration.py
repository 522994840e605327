"""What is said once, where it may be said, and which of several words counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.configuration import (
    Configuration,
    JobSettings,
    configuration,
    flag,
    table_of,
    variable,
)
from samza_dagster.directories import artifacts_directory, config_file, sandboxes_directory
from samza_dagster.errors import InvalidInput

pytestmark = pytest.mark.unit


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a user with nothing but a home."""
    return {"HOME": str(tmp_path)}


def written(environment: dict[str, str], text: str) -> Path:
    path = config_file(environment)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def properties(directory: Path, **more: str) -> Path:
    lines = ["job.name=of-config", "job.id=3", "job.default.system=k"]
    lines += ["systems.k.consumer.bootstrap.servers=config:1"]
    lines += [f"{name.replace('__', '.')}={value}" for name, value in more.items()]
    path = directory / "job.properties"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def shown(found: Configuration, *names: str) -> list[tuple[str, str]]:
    return [(found.said[name].value, found.said[name].where) for name in names]


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    environment: dict[str, str],
) -> None:
    """And each value tells where it was said; 0 is an id as any other."""
    file = written(environment, 'bootstrap_servers = "f:1"\njob_name = "f"\njob_id = 0\n')
    environment |= {"SAMZA_DAGSTER_JOB_NAME": "e", "SAMZA_DAGSTER_JOB_ID": ""}
    found = configuration({"bootstrap_servers": "flag:1", "job_name": None}, environment)
    assert shown(found, "bootstrap_servers", "job_name", "job_id") == [
        ("flag:1", "--bootstrap-servers"),
        ("e", "SAMZA_DAGSTER_JOB_NAME"),
        ("0", str(file)),
    ]
    connection = found.connection()
    assert (connection.bootstrap_servers, connection.job_name, connection.job_id) == (
        *("flag:1", "e", "0"),
    )


@pytest.mark.parametrize("name", list(JobSettings.model_fields))
def test_each_setting_is_described_and_has_a_flag_and_a_variable(
    environment: dict[str, str], name: str, tmp_path: Path
) -> None:
    """One name for one thing."""
    field = JobSettings.model_fields[name]
    assert field.description
    assert field.description.endswith(".")
    assert field.title
    value = str(properties(tmp_path)) if name == "config" else "x"
    told = configuration({}, {**environment, variable(name): value})
    assert told.said[name].where == variable(name)
    assert configuration({name: value}, environment).said[name].where == flag(name)


def test_a_jobs_properties_count_where_they_are_named(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Behind what is said beside them, over what is said in a weaker place."""
    path = str(properties(tmp_path))
    environment["SAMZA_DAGSTER_JOB_NAME"] = "e"
    by_flag = configuration({"config": path, "job_id": "9"}, environment)
    assert shown(by_flag, "job_name", "job_id") == [("of-config", path), ("9", "--job-id")]
    assert by_flag.connection().job_name == "of-config"
    written(environment, f'config = "{path}"\n')
    in_file = configuration({}, environment)
    assert shown(in_file, "job_name", "job_id", "bootstrap_servers") == [
        ("e", "SAMZA_DAGSTER_JOB_NAME"),
        ("3", path),
        ("config:1", path),
    ]


def test_the_login_is_that_of_the_file_that_is_named(
    environment: dict[str, str], tmp_path: Path
) -> None:
    login = tmp_path / "client.properties"
    login.write_text("security.protocol=SASL_SSL\n", encoding="utf-8")
    written(environment, f'client_config = "{login}"\nconfig = "{properties(tmp_path)}"\n')
    found = configuration({}, environment)
    assert found.connection().client_config == {"security.protocol": "SASL_SSL"}
    assert found.client_settings() == {"security.protocol": "SASL_SSL"}
    security = {"systems__k__consumer__security__protocol": "SSL"}
    of_a_job = configuration({"config": properties(tmp_path, **security)}, {"HOME": "/nowhere"})
    assert of_a_job.client_settings() == {"security.protocol": "SSL"}


def test_what_is_missing_is_named_with_every_way_to_say_it(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        configuration({"bootstrap_servers": "h:1"}, environment).connection()
    for way in ("--job-name", "--config", "SAMZA_DAGSTER_JOB_NAME", "config.toml"):
        assert way in raised.value.seen


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('bootstrap_server = "h:1"\n', "bootstrap_servers"),
        ("job_name = [1]\n", "job_name"),
        ("job_id = true\n", "job_id"),
        ("job_name\n", "config.toml"),
    ],
)
def test_a_file_that_cant_be_used_is_refused_by_name(
    environment: dict[str, str], text: str, told: str
) -> None:
    """A name that is nearly right isn't passed over."""
    written(environment, text)
    with pytest.raises(InvalidInput, match=told):
        configuration({}, environment)


def test_a_file_that_is_named_must_be_there(environment: dict[str, str]) -> None:
    """One that isn't named needn't."""
    assert configuration({}, environment).said == {}
    with pytest.raises(InvalidInput, match="no such file"):
        configuration({}, {**environment, "SAMZA_DAGSTER_CONFIG_FILE": "/nowhere.toml"})


def test_a_table_of_the_file_has_the_flags_of_a_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Over the settings that it shares with clients."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("SAMZA_DAGSTER_CONFIG_FILE", str(path))
    path.write_text('zookeeper = "z:1"\njob_name = "j"\n[coordinator]\nlisten = "0.0.0.0:7000"\n')
    assert table_of("coordinator", ["listen", "zookeeper"]) == {
        "listen": "0.0.0.0:7000",
        "zookeeper": "z:1",
    }
    path.write_text("[coordinator]\nlisen = 1\n")
    with pytest.raises(InvalidInput, match="listen"):
        table_of("coordinator", ["listen"])


def test_directories_are_those_of_xdg(environment: dict[str, str], tmp_path: Path) -> None:
    """A relative one counts as none."""
    assert sandboxes_directory(environment) == tmp_path / ".local/share/samza_dagster/sandboxes"
    assert artifacts_directory(environment) == tmp_path / ".cache/samza_dagster/artifacts"
    assert config_file(environment) == tmp_path / ".config/samza_dagster/config.toml"
    said = {
        **environment,
        **{f"XDG_{kind}_HOME": f"/{kind}" for kind in ("DATA", "CACHE", "CONFIG")},
    }
    assert str(sandboxes_directory(said)) == "/DATA/samza_dagster/sandboxes"
    assert str(artifacts_directory(said)) == "/CACHE/samza_dagster/artifacts"
    assert str(config_file(said)) == "/CONFIG/samza_dagster/config.toml"
    assert "/relative/" not in str(
        sandboxes_directory({**environment, "XDG_DATA_HOME": "relative"})
    )
