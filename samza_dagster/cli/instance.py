"""`samza-dagster instance`: the `dagster.yaml` of a Dagster instance for placement jobs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import notice, print_json
from samza_dagster.errors import InvalidInput


@click.command()
@click.argument("home", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--storage",
    type=click.Choice(["sqlite", "postgres"]),
    default="postgres",
    show_default=True,
    help="Where runs, events and schedules are kept.",
)
@click.option("--force", is_flag=True, help="Replace one that says something else.")
@json_option
def instance(*, home: Path, storage: str, force: bool, as_json: bool) -> None:
    """Write dagster.yaml into HOME (a DAGSTER_HOME, made if it isn't there).

    Dagster's own queue, with one placement at a time per container group. On PostgreSQL
    the environment variable DAGSTER_POSTGRES_URL holds the database's address.

    \b
    Examples:
      samza-dagster instance /var/lib/samza-dagster
    """
    from samza_dagster.orchestration.instance import FILE, Storage, instance_text, write_instance

    chosen = cast("Storage", storage)
    path = home / FILE
    try:
        text = instance_text(chosen).encode()
        if not force and path.exists() and path.read_bytes() != text:
            raise InvalidInput(
                f"write {path}",
                seen="it is there and says something else",
                fix="keep it, or replace it with --force",
            )
        write_instance(home, storage=chosen)
    except OSError as error:
        raise InvalidInput(
            f"write {path}",
            seen=f"{error.filename or path}: {error.strerror or error}",
            fix="a directory that may be written, or that can be made",
        ) from error
    if as_json:
        print_json({"home": str(home), "path": str(path), "storage": chosen})
    else:
        notice(f"wrote {path}")
