"""Writes the reference pages from the code: `python -m docs.site.reference`.

Commands come from click's own metadata, the component from its pydantic models, Dagster's jobs from
their definitions, metrics from the registry, datasets from their columns. A unit test holds each
page against what this gives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from docs.site.cockpit import component, dagster
from docs.site.columns import DOCS, datasets, decisions, metrics, settings
from docs.site.commands import cli
from docs.site.documents import documents

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": cli,
    "reference/json.md": documents,
    "reference/component.md": component,
    "reference/dagster.md": dagster,
    "reference/settings.md": settings,
    "reference/metrics.md": metrics,
    "reference/datasets.md": datasets,
    "decisions/index.md": decisions,
}


def main() -> None:
    """Writes each page that differs, and names it."""
    for name, made in PAGES.items():
        file, text = DOCS / name, made()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name} is new\n")


if __name__ == "__main__":
    main()
