"""Where the sandbox keeps its files: `SAMZA_DAGSTER_HOME`, by default `~/.samza_dagster`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

HOME_VARIABLE = "SAMZA_DAGSTER_HOME"


def home(environment: Mapping[str, str] | None = None) -> Path:
    """The absolute directory that holds `artifacts/` and `sandboxes/`; it may not exist yet."""
    given = (os.environ if environment is None else environment).get(HOME_VARIABLE, "")
    return (Path(given) if given else Path.home() / ".samza_dagster").expanduser().absolute()


def artifacts_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Jars and class archives, shared by all sandboxes."""
    return home(environment) / "artifacts"


def sandboxes_directory(environment: Mapping[str, str] | None = None) -> Path:
    """One directory per sandbox, by name."""
    return home(environment) / "sandboxes"
