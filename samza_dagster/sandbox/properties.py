"""The properties files of this package, with placeholders in braces."""

from __future__ import annotations

from pathlib import Path

from samza_dagster.metadata.connection import read_properties


def filled_in(file: str, /, **values: object) -> dict[str, str]:
    """Return the properties of `file` in this directory, with `values` filled in."""
    properties = read_properties(Path(__file__).with_name(file), "start a sandbox")
    return {key.format(**values): text.format(**values) for key, text in properties.items()}
