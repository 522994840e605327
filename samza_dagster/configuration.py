"""The job, its cluster and the logins, configured alike for commands, component and coordinator.

A value may be in the configuration file, in the environment and in a flag (for the component: its
YAML); each overrides the one before. The values of a `job.properties` rank as the place that
names the file, after the other values there.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from samza_dagster.directories import CONFIG_FILE_VARIABLE, config_file
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection, client_config_of, zookeeper_config_of

_PREFIX = "SAMZA_DAGSTER_"
_OF_A_JOB = ("bootstrap_servers", "job_name", "job_id")
"""The settings that a `job.properties` provides."""
SECTIONS = ("coordinator", "processor")
"""Tables of the file with the flags of `coordinator run` and of `processor run`."""


class JobSettings(BaseModel):
    """The settings of one place. A field's title stands for its value in a command's help."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = Field(
        default="", title="HOST:PORT,…", description="Kafka's brokers, several with commas."
    )
    config: str = Field(
        default="",
        title="job.properties",
        description="A Samza job's properties: name, id, brokers and security.",
    )
    job_name: str = Field(default="", title="NAME", description="job.name of the Samza job.")
    job_id: str = Field(
        default="", title="ID", description="job.id of the Samza job; 1 if nothing says another."
    )
    client_config: str = Field(
        default="",
        title="FILE",
        description="A properties file of librdkafka's settings: the login at the brokers, TLS.",
    )
    yarn_resource_manager: str = Field(
        default="",
        title="URL,…",
        description="YARN's web address (http://host:8088; several with commas), where Samza's own AM"
        " runs the job: its nodes and its word on the job are asked for.",
    )
    zookeeper: str = Field(
        default="",
        title="HOST:PORT,…",
        description="Where ZooKeeper is (host:2181; several with commas, a chroot behind them) that"
        " coordinates a standalone job; in a job's properties job.coordinator.zk.connect.",
    )
    zookeeper_config: str = Field(
        default="",
        title="FILE",
        description="A properties file of how to log in at ZooKeeper: TLS, SASL, ACLs.",
    )


def described(name: str) -> str:
    """Return a setting's description, for a command's help and for Dagster's UI."""
    return JobSettings.model_fields[name].description or ""


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return _PREFIX + name.upper()


def flag(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace("_", "-")


class SaidSetting(NamedTuple):
    """A value, its file, variable or flag, and the rank of that place."""

    value: str
    where: str
    rank: int


@dataclass(frozen=True)
class Configuration:
    """The effective values, by setting, without unset ones."""

    said: Mapping[str, SaidSetting]

    def value(self, name: str) -> str:
        """Return a setting's value; empty for an unset one."""
        return self.said[name].value if name in self.said else ""

    def client_settings(self) -> dict[str, str]:
        """Return librdkafka's settings: those of `client_config` override the job's properties."""
        surroundings = _surroundings(self.said)
        if config := self.value("config"):
            return dict(Connection.from_properties(config, surroundings).client_config)
        return client_config_of(surroundings)

    def zookeeper_settings(self) -> dict[str, str]:
        """Return the settings of the file that `zookeeper_config` names; empty without one."""
        return zookeeper_config_of(_surroundings(self.said))

    def connection(self) -> Connection:
        """Return the connection to the job; raise `InvalidInput` that names the faulty setting."""
        for name in ("bootstrap_servers", "job_name"):
            if not self.value(name):
                raise InvalidInput(
                    "which job on which cluster",
                    seen=f"neither {flag(name)} nor {flag('config')} nor {variable(name)}, and no"
                    f" {name} in {config_file()}",
                    fix=f"give {flag(name)}, or --config job.properties, or set {variable(name)}; of a"
                    ' sandbox that is up: eval "$(samza-dagster sandbox status --env)"',
                )
        surroundings = _surroundings(self.said)
        if config := self.value("config"):
            read = Connection.from_properties(config, surroundings)
            return replace(read, **{name: self.value(name) for name in _OF_A_JOB})
        return Connection.from_environment(surroundings)


def configuration(
    flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Configuration:
    """Return the effective values of file, environment and flags; None and empty are unset.

    Raises `InvalidInput` for an unreadable file, or an unknown setting in it.
    """
    given = os.environ if environment is None else environment
    file = config_file(given)
    layers = (
        {name: (text, str(file)) for name, text in settings_of(_read_file(given), file).items()},
        {name: (given.get(variable(name)), variable(name)) for name in JobSettings.model_fields},
        {name: (text, flag(name)) for name, text in (flags or {}).items()},
    )
    said = {
        name: SaidSetting(str(value), where, rank)
        for rank, layer in enumerate(layers)
        for name, (value, where) in layer.items()
        if value not in (None, "")
    }
    if "config" in said:
        said |= _of_properties(said)
    return Configuration({name: said[name] for name in JobSettings.model_fields if name in said})


def _of_properties(said: Mapping[str, SaidSetting]) -> dict[str, SaidSetting]:
    """Return the settings of the job's properties that no place of the same rank overrides."""
    path, _, rank = said["config"]
    read = Connection.from_properties(path, _surroundings(said))
    found = {name: SaidSetting(getattr(read, name), path, rank) for name in _OF_A_JOB}
    if read.zookeeper and "zookeeper" not in said:
        found["zookeeper"] = SaidSetting(read.zookeeper, path, rank)
    return {n: new for n, new in found.items() if n not in said or said[n].rank < rank}


def _surroundings(said: Mapping[str, SaidSetting]) -> dict[str, str]:
    """Return the values as environment variables."""
    return {variable(name): value for name, (value, _, _) in said.items()}


def _read_file(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the configuration file's content; empty without one.

    Raises `InvalidInput` for a named file that doesn't exist, or an invalid TOML.
    """
    given = os.environ if environment is None else environment
    path = config_file(given)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if not given.get(CONFIG_FILE_VARIABLE):
            return {}
        raise InvalidInput(
            f"read {path}", seen="no such file", fix=f"unset {CONFIG_FILE_VARIABLE}"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(
            f"read the configuration {path}",
            seen=str(error),
            fix='lines such as job_name = "orders"',
        ) from error


def table_of(section: str, flags: Collection[str]) -> dict[str, Any]:
    """Return a command's flags from the file: its table, above the settings with such flags.

    Raises `InvalidInput` for a name in the table that is no flag.
    """
    content, path = _read_file(), config_file()
    table: dict[str, Any] = content.get(section, {})
    _require_known(table, flags, f"[{section}] of {path}")
    settings = settings_of(content, path)
    return {**{name: settings[name] for name in flags if name in settings}, **table}


def settings_of(content: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return the settings of a job in a file's content, without those of `SECTIONS`.

    Raises `InvalidInput` for an unknown name, and for a value that is neither text nor number.
    """
    settings = {name: value for name, value in content.items() if name not in SECTIONS}
    _require_known(settings, JobSettings.model_fields, str(path))
    for name, value in settings.items():
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise InvalidInput(f"{name} in {path}", seen=repr(value), fix=f'{name} = "…"')
    return {name: str(value) for name, value in settings.items()}


def _require_known(said: Collection[str], names: Collection[str], where: str) -> None:
    for name in said:
        if name not in names:
            near = get_close_matches(name, names, 1) or sorted(names)
            raise InvalidInput(f"{name} in {where}", seen="no such setting", fix=", ".join(near))
