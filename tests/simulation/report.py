"""Where a run of `python -m tests.simulation` leaves its result, and whether it shows its progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from samza_dagster.cli.options import gathered, json_option
from samza_dagster.cli.output import print_json


@dataclass(frozen=True)
class SimulationReport:
    """How a run tells its end, and whether it tells its progress."""

    report_file: Path | None
    as_json: bool
    quiet: bool

    def end(self, document: dict[str, Any], show: Callable[[], None]) -> None:
        """The document into the file, and on stdout as JSON or as `show` writes it."""
        if self.report_file is not None:
            self.report_file.write_text(json.dumps(document) + "\n", encoding="utf-8")
        if self.as_json:
            print_json(document)
        else:
            show()


report_options = gathered(
    "report",
    SimulationReport,
    click.option(
        "--report",
        "report_file",
        type=click.Path(path_type=Path, dir_okay=False, writable=True),
        metavar="FILE",
        help="Write what --json prints there, beside the tables.",
    ),
    json_option,
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
)
