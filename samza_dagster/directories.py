"""Where this package keeps files of a user: data, caches and configuration.

By the XDG base directory specification, in directories named `samza_dagster`. `SAMZA_DAGSTER_HOME`
is one directory for data and caches instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

HOME_VARIABLE = "SAMZA_DAGSTER_HOME"
CONFIG_FILE_VARIABLE = "SAMZA_DAGSTER_CONFIG_FILE"
_NAME = "samza_dagster"


def data_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Absolute; what is to be kept. It may not exist yet."""
    given = os.environ if environment is None else environment
    return _one_directory(given) or _base(given, "XDG_DATA_HOME", ".local/share") / _NAME


def sandboxes_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory that has a directory for each sandbox."""
    return data_directory(environment) / "sandboxes"


def artifacts_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Jars and class archives, which can be fetched and made again; shared by all sandboxes and Spark."""
    given = os.environ if environment is None else environment
    cache = _one_directory(given) or _base(given, "XDG_CACHE_HOME", ".cache") / _NAME
    return cache / "artifacts"


def config_file(environment: Mapping[str, str] | None = None) -> Path:
    """The file that `SAMZA_DAGSTER_CONFIG_FILE` names, else `config.toml` of this user. May not exist."""
    given = os.environ if environment is None else environment
    if named := given.get(CONFIG_FILE_VARIABLE):
        return Path(named).expanduser().absolute()
    return _base(given, "XDG_CONFIG_HOME", ".config") / _NAME / "config.toml"


def _one_directory(environment: Mapping[str, str]) -> Path | None:
    given = environment.get(HOME_VARIABLE)
    return Path(given).expanduser().absolute() if given else None


def _user(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _base(environment: Mapping[str, str], variable: str, default: str) -> Path:
    """A relative path counts as none, as the specification says."""
    given = Path(environment.get(variable, ""))
    return given if given.is_absolute() else (_user(environment) / default).absolute()
