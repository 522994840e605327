"""`samza-dagster place`: one placement request, and its outcome."""

from __future__ import annotations

import uuid as uuid_module
from typing import TYPE_CHECKING

import click

from samza_dagster.cli.asking import (
    beyond_budget_option,
    dry_run_option,
    exit_code,
    expiry_option,
    show,
    tell_asked,
    timeout_option,
    uuid_option,
    wait_option,
    watch,
)
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy, notice
from samza_dagster.cli.plan_output import print_plan
from samza_dagster.client.plan import instead
from samza_dagster.client.responses import is_held
from samza_dagster.model import PlacementRequest, StatusCode

if TYPE_CHECKING:
    from samza_dagster.client import Asked


@click.command(short_help="Move or restart a container.")
@click.argument("processor")
@click.option(
    "--to",
    "destination",
    required=True,
    metavar="HOST",
    help="A host, ANY_HOST, STANDBY (an active onto its standby's host, which makes room), "
    "LAST_SEEN (restart where it is) or FORCE_RESTART_LAST_SEEN.",
)
@expiry_option
@click.option("--deployment-id", metavar="ID", help="Refuse unless this deployment runs.")
@uuid_option
@click.option(
    "--allow-unknown-host",
    is_flag=True,
    help="With Samza's own AM: accept a host that no container has reported yet.",
)
@click.option(
    "--or-any-legal",
    is_flag=True,
    help="A standby whose destination a rule forbids goes to any legal host.",
)
@click.option(
    "--hold",
    is_flag=True,
    help="Reserve, and wait for `commit` or `release` before the container is touched.",
)
@wait_option
@beyond_budget_option
@timeout_option
@dry_run_option
@json_option
@target_options
@click.pass_context
def place(
    ctx: click.Context,
    *,
    target: Target,
    processor: str,
    destination: str,
    request_expiry: float | None,
    deployment_id: str | None,
    uuid: str | None,
    allow_unknown_host: bool,
    or_any_legal: bool,
    hold: bool,
    beyond_budget: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
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
    asked = uuid or str(uuid_module.uuid4())
    if hold and or_any_legal:
        raise click.UsageError("--hold and --or-any-legal don't go together: hold what is legal.")
    written = False
    with target.client() as client:
        if dry_run:
            with busy("Reading the job …"):
                plan = client.plan(
                    processor,
                    destination,
                    deployment_id,
                    allow_unknown_host=allow_unknown_host,
                    or_any_legal=or_any_legal,
                    beyond_budget=beyond_budget,
                    hold=hold,
                )
            print_plan(plan, as_json)
            ctx.exit(2 if plan.refusal else 0)
        try:
            with busy("Checking and asking …"):
                request: PlacementRequest | Asked
                if hold:
                    request = client.reserve(
                        processor,
                        destination,
                        deployment_id=deployment_id,
                        request_expiry_s=request_expiry,
                        uuid=asked,
                    )
                else:
                    request = client.place(
                        processor,
                        destination,
                        deployment_id=deployment_id,
                        request_expiry_s=request_expiry,
                        uuid=asked,
                        allow_unknown_host=allow_unknown_host,
                        or_any_legal=or_any_legal,
                        beyond_budget=beyond_budget,
                        on_notice=lambda text: notice(f"Notice: {text}"),
                    )
            written = True
            responses = tell_asked(client, request.uuid)
            if wait:
                until = is_held if hold else None
                responses = watch(client, request.uuid, timeout, until=until)
        except KeyboardInterrupt:
            known = "goes on" if written else "may have been written"
            notice(f"What was asked {known}: samza-dagster status {asked}")
            raise
    document = request.to_wire() if isinstance(request, PlacementRequest) else request.to_json()
    cells = (
        request.processor_id,
        request.destination_host,
        request.deployment_id,
        request.timestamp,
    )
    new = client.wrote(request.uuid)
    show(document, responses, as_json, uuid=request.uuid, written=new, cells=cells)
    if request.destination_host != destination:
        notice(f"Notice: {instead(destination, request.destination_host)}")
    if responses and is_held(responses[-1]):
        notice(f"Held. Go on: samza-dagster commit {request.uuid}, or release {request.uuid}")
    if (
        responses
        and responses[-1].status_code is StatusCode.FAILED
        and "start" in (responses[-1].response_message or "")
    ):
        where = (
            f"last-failure/{processor}.log beside the host's agent.log; under YARN its container's"
        )
        notice(f"Why: {processor}'s log, {where}")
    ctx.exit(exit_code(responses))
