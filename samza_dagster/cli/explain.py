"""`samza-dagster explain`: which hosts may take a container, and why the others may not."""

from __future__ import annotations

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy
from samza_dagster.cli.plan_output import print_plan
from samza_dagster.model.naming import ANY_HOST


@click.command()
@click.argument("processor")
@click.option(
    "--to",
    "destination",
    default=ANY_HOST,
    show_default=True,
    metavar="HOST",
    help="As for `place`.",
)
@json_option
@target_options
def explain(target: Target, processor: str, destination: str, as_json: bool) -> None:
    """Explain what `place PROCESSOR --to HOST` would do; nothing is written.

    Per host: the rule that decides, what was seen, the smallest change that makes it
    legal; without --to for a place on any of them. Exits 0 for a destination that a
    rule forbids too: the question is answered.

    \b
    Examples:
      samza-dagster explain 0
      samza-dagster explain 0 --to host-2
      samza-dagster explain 0-0 --to ANY_HOST --json
    """
    with target.client() as client, busy("Reading the job …"):
        plan = client.plan(processor, destination)
    print_plan(plan, as_json)
