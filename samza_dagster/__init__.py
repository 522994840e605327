"""Orchestrated placement for stateful stream processors, driven from Dagster.

`SamzaJobComponent` and `PlacementClient` load on first use: an import of this package imports no
Dagster.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from samza_dagster.version import __version__

__all__ = ["__version__"]

_LAZY = {
    "PlacementClient": "samza_dagster.client",
    "SamzaJobComponent": "samza_dagster.orchestration.component",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
