"""`place-container`: the tool of SEP-22, under its documented name and flags."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from samza_dagster.cli.asking import beyond_budget_option
from samza_dagster.cli.options import BOOTSTRAP_OPTIONS, Target, gathered, not_empty
from samza_dagster.cli.output import notice
from samza_dagster.cli.reporting import Reporting


def joined(arguments: Sequence[str]) -> list[str]:
    """`--app.id = 1`, `--app.id= 1` and `--app.id =1` as `--app.id=1`.

    The design document writes the first; a shell makes three arguments of it.
    """
    out: list[str] = []
    for argument in arguments:
        before = out[-1] if out else ""
        name, equals, value = before.partition("=")
        is_option = name.startswith("--") and len(name) > 2
        if is_option and ((not equals and argument.startswith("=")) or (equals and not value)):
            out[-1] = before + argument
        else:
            out.append(argument)
    return out


def _target(app_name: str, app_id: str, **others: str | None) -> Target:
    return Target.of(job_name=app_name, job_id=app_id, **others)


_target_options = gathered(
    "target",
    _target,
    click.option(
        "--app-name",
        "--app.name",
        "app_name",
        required=True,
        callback=not_empty,
        help="The job's name.",
    ),
    click.option(
        "--app-id", "--app.id", "app_id", required=True, callback=not_empty, help="The job's id."
    ),
    *BOOTSTRAP_OPTIONS,
)


@click.command(
    cls=Reporting,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--deployment-id", required=True, help="The running deployment (app.run.id).")
@click.option("--processor-id", required=True, help="Which container: 0, 1, 0-0, …")
@click.option("--request-expiry", type=float, metavar="SECONDS", help="For the reservation.")
@click.option("--destination-host", required=True, help="A host, ANY_HOST or LAST_SEEN.")
@beyond_budget_option
@_target_options
def place_container(
    *,
    target: Target,
    deployment_id: str,
    processor_id: str,
    request_expiry: float | None,
    destination_host: str,
    beyond_budget: bool,
) -> None:
    """Request to move or restart a container at a destination host.

    Prints the request's UUID and doesn't wait.

    \b
    Example:
      place-container --deployment-id 1581635852024-5117e303 --app-name wordcount --app-id 1 \\
        --processor-id 4 --request-expiry 10 --destination-host abc.prod.com
    """
    with target.client() as client:
        # Samza's metadata doesn't name every host of the cluster: the AM decides.
        plan = client.plan(
            processor_id,
            destination_host,
            deployment_id,
            allow_unknown_host=True,
            beyond_budget=beyond_budget,
        )
        request = client.place(
            processor_id,
            destination_host,
            deployment_id=deployment_id,
            request_expiry_s=request_expiry,
            allow_unknown_host=True,
            beyond_budget=beyond_budget,
        )
    for text in plan.notices:
        notice(f"Notice: {text}")
    click.echo(f"Request received query the status using: {request.uuid}")


def main(arguments: Sequence[str] | None = None) -> Any:
    """The console script `place-container`."""
    given = sys.argv[1:] if arguments is None else arguments
    return place_container.main(joined(given), prog_name="place-container")


if __name__ == "__main__":
    main()
