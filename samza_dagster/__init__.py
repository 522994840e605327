"""Orchestrated placement for stateful stream processors, driven from Dagster."""

from samza_dagster.version import __version__

__all__ = ["__version__"]
