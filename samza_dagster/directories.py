"""The directories of a user's files: data, caches and configuration.

They follow the XDG base directory specification, with directories named `samza_dagster`.
`SAMZA_DAGSTER_HOME` is one directory for data and caches instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

HOME_VARIABLE = "SAMZA_DAGSTER_HOME"
CONFIG_FILE_VARIABLE = "SAMZA_DAGSTER_CONFIG_FILE"
_NAME = "samza_dagster"


def data_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the absolute directory of data to keep. It may not exist yet."""
    given = os.environ if environment is None else environment
    return _one_directory(given) or _base(given, "XDG_DATA_HOME", ".local/share") / _NAME


def sandboxes_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory of sandboxes, with a directory for each, by name."""
    return data_directory(environment) / "sandboxes"


def artifacts_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory of jars and class archives, shared by all sandboxes and Spark."""
    # They can be fetched and made again, so they are in the cache.
    given = os.environ if environment is None else environment
    cache = _one_directory(given) or _base(given, "XDG_CACHE_HOME", ".cache") / _NAME
    return cache / "artifacts"


def config_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the file of `SAMZA_DAGSTER_CONFIG_FILE`, else the user's `config.toml`.

    The file may not exist.
    """
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
    """Return a base directory of the specification, which ignores relative paths."""
    given = Path(environment.get(variable, ""))
    return given if given.is_absolute() else (_user(environment) / default).absolute()
