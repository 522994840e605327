"""`samza-dagster place`: one placement request, and its outcome."""

from __future__ import annotations

import time
import uuid as uuid_module
from typing import TYPE_CHECKING

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.cli.plan_output import print_plan
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

_EXIT = {StatusCode.SUCCEEDED: 0, StatusCode.FAILED: 1, StatusCode.BAD_REQUEST: 2}


@click.command(short_help="Move or restart a container.")
@click.argument("processor")
@click.option(
    "--to",
    "destination",
    required=True,
    metavar="HOST",
    help="A host, ANY_HOST, LAST_SEEN (restart where it is) or FORCE_RESTART_LAST_SEEN.",
)
@click.option(
    "--request-expiry",
    type=float,
    metavar="SECONDS",
    help="How long the coordinator may try to reserve the destination.",
)
@click.option("--deployment-id", metavar="ID", help="Refuse unless this deployment runs.")
@click.option("--uuid", metavar="UUID", help="The request's UUID; to repeat it asks nothing new.")
@click.option(
    "--allow-unknown-host",
    is_flag=True,
    help="With Samza's own AM: accept a host that no container has reported yet.",
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the outcome.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait; the action may go on after it.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and write nothing.")
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
    """
    asked = uuid or str(uuid_module.uuid4())
    written = False
    with target.client() as client:
        if dry_run:
            with busy("Reading the job …"):
                plan = client.plan(
                    processor, destination, deployment_id, allow_unknown_host=allow_unknown_host
                )
            print_plan(plan, as_json)
            ctx.exit(2 if plan.refusal else 0)
        try:
            with busy("Checking and asking …"):
                request = client.place(
                    processor,
                    destination,
                    deployment_id=deployment_id,
                    request_expiry_s=request_expiry,
                    uuid=asked,
                    allow_unknown_host=allow_unknown_host,
                )
            written = True
            notice(f"Request {request.uuid} is in the stream.")
            responses = _watch(client, request, timeout) if wait else []
        except KeyboardInterrupt:
            known = "goes on" if written else "may have been written"
            notice(f"What was asked {known}: samza-dagster status {asked}")
            raise
    _show(request, responses, as_json)
    if (
        responses
        and responses[-1].status_code is StatusCode.FAILED
        and "start" in (responses[-1].response_message or "")
    ):
        notice(f"Why: {processor}'s log, last-failure/{processor}.log beside the host's agent.log")
    ctx.exit(_EXIT.get(responses[-1].status_code, 0) if responses else 0)


def _watch(
    client: PlacementClient, request: PlacementRequest, timeout: float
) -> list[PlacementResponse]:
    responses: list[PlacementResponse] = []
    began = time.monotonic()

    def on_response(response: PlacementResponse) -> None:
        responses.append(response)
        elapsed = time.monotonic() - began
        notice(f"  {elapsed:6.1f} s  {response.status_code.value:<12} {response.response_message}")

    with busy(f"Waiting up to {timeout:g} s for the coordinator …"):
        client.wait(request.uuid, timeout_s=timeout, on_response=on_response)
    return responses


def _show(request: PlacementRequest, responses: list[PlacementResponse], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "request": request.to_wire(),
                "responses": [response.to_wire() for response in responses],
                "response": responses[-1].to_wire() if responses else None,
            }
        )
        return
    last = responses[-1] if responses else None
    print_table(
        f"Request {request.uuid}",
        ("processor", "destination", "deployment", "asked", "status", "message"),
        [
            (
                request.processor_id,
                request.destination_host,
                request.deployment_id,
                at(request.timestamp),
                (last or request).status_code.value,
                last.response_message if last else "",
            )
        ],
        spare=("asked", "deployment"),
    )
