"""`samza-dagster place` and `explain`: one placement request and its outcome, or what it would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from samza_dagster.cli.asking import (
    Asking,
    asking_options,
    expiry_option,
    leave,
    permitted_options,
    print_plan,
    to_option,
)
from samza_dagster.cli.completion import processors
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy, notice
from samza_dagster.client.checks import Permitted
from samza_dagster.client.plan import instead
from samza_dagster.client.responses import details_of, is_held
from samza_dagster.model import StatusCode
from samza_dagster.model.naming import ANY_HOST

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient, Request


@click.command()
@click.argument("processor", shell_complete=processors)
@to_option(
    "A host, ANY_HOST, STANDBY (an active onto its standby's host, which makes room), "
    "LAST_SEEN (restart where it is) or FORCE_RESTART_LAST_SEEN.",
    required=True,
)
@expiry_option
@click.option("--deployment-id", metavar="ID", help="Refuse unless this deployment runs.")
@click.option(
    "--hold",
    is_flag=True,
    help="Reserve, and wait for `commit` or `release` before the container is touched.",
)
@permitted_options
@asking_options
def place(
    *,
    asking: Asking,
    permitted: Permitted,
    processor: str,
    destination: str,
    request_expiry: float | None,
    deployment_id: str | None,
    hold: bool,
) -> None:
    """Move or restart the container of PROCESSOR.

    What a rule forbids is refused before anything is written.

    \b
    Examples:
      samza-dagster place 0 --to host-3
      samza-dagster place 0-0 --to ANY_HOST --no-wait --json
      samza-dagster place 1 --to LAST_SEEN --timeout 60
      samza-dagster place 0 --to host-2 --dry-run
      samza-dagster place 0 --to STANDBY
      samza-dagster place 0 --to host-3 --hold
    """
    if hold and permitted.get("or_any_legal"):
        raise click.UsageError("--hold and --or-any-legal don't go together: hold what is legal.")
    if asking.dry_run:
        asking.show_plan(
            lambda client: client.plan(
                processor, destination, deployment_id, hold=hold, **permitted
            )
        )

    def ask(client: PlacementClient, uuid: str) -> Request:
        if hold:
            return client.reserve(
                processor,
                destination,
                deployment_id=deployment_id,
                request_expiry_s=request_expiry,
                uuid=uuid,
            )
        return client.place(
            processor,
            destination,
            deployment_id=deployment_id,
            request_expiry_s=request_expiry,
            uuid=uuid,
            on_notice=lambda text: notice(f"Notice: {text}"),
            **permitted,
        )

    request, responses = asking.ask(ask, until=is_held if hold else None)
    if request.destination_host != destination:
        notice(f"Notice: {instead(destination, request.destination_host)}")
    if responses and is_held(responses[-1]):
        notice(f"Held. Go on: samza-dagster commit {request.uuid}, or release {request.uuid}")
    if (
        responses
        and responses[-1].status_code is StatusCode.FAILED
        and processor in details_of(responses[-1]).stopped
    ):
        where = (
            f"last-failure/{processor}.log beside the host's agent.log; under YARN its container's"
        )
        notice(f"Why: {processor}'s log, {where}")
    leave(responses)


@click.command()
@click.argument("processor", shell_complete=processors)
@to_option("As for `place`.", default=ANY_HOST, show_default=True)
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
        plan = client.explain(processor, destination)
    print_plan(plan, as_json)
