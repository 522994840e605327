"""`samza-dagster control-standby start|stop`: standbys on request (SEP-22's `controlStandBy`)."""

from __future__ import annotations

import uuid as uuid_module

import click

from samza_dagster.cli.asking import (
    ask_and_watch,
    dry_run_option,
    expiry_option,
    timeout_option,
    uuid_option,
    wait_option,
)
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy
from samza_dagster.cli.plan_output import print_plan
from samza_dagster.model.naming import ANY_HOST
from samza_dagster.model.own_requests import RequestKind


@click.group("control-standby")
def control_standby() -> None:
    """Spin up one more standby of an active, or stop one for good.

    \b
    Examples:
      samza-dagster control-standby start 0 --to host-3
      samza-dagster control-standby stop 0-1
    """


@control_standby.command("start", short_help="Spin up one more standby of an active.")
@click.argument("processor")
@click.option(
    "--to",
    "destination",
    default=ANY_HOST,
    show_default=True,
    metavar="HOST",
    help="A host, or ANY_HOST.",
)
@expiry_option
@uuid_option
@wait_option
@timeout_option
@dry_run_option
@json_option
@target_options
@click.pass_context
def start(
    ctx: click.Context,
    *,
    target: Target,
    processor: str,
    destination: str,
    request_expiry: float | None,
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Spin up one more standby of the active PROCESSOR.

    Done when it has checked in; `samza-dagster lag` tells when it has caught up. If no
    host can be reserved, or it doesn't start, the job is as it was.

    \b
    Examples:
      samza-dagster control-standby start 0
      samza-dagster control-standby start 0 --to host-3 --dry-run
    """
    asked = uuid or str(uuid_module.uuid4())
    with target.client() as client:
        if dry_run:
            with busy("Reading the job …"):
                plan = client.plan_own(RequestKind.START_STANDBY, processor, destination)
            print_plan(plan, as_json)
            ctx.exit(2 if plan.refusal else 0)
        code = ask_and_watch(
            client,
            lambda: client.start_standby(
                processor, destination, request_expiry_s=request_expiry, uuid=asked
            ),
            uuid=asked,
            wait=wait,
            timeout=timeout,
            as_json=as_json,
        )
    ctx.exit(code)


@control_standby.command("stop", short_help="Stop a standby and remove it from the job.")
@click.argument("processor")
@uuid_option
@wait_option
@timeout_option
@dry_run_option
@json_option
@target_options
@click.pass_context
def stop(
    ctx: click.Context,
    *,
    target: Target,
    processor: str,
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Stop the standby PROCESSOR and remove it from the job.

    An active's id stands for its standby when it has just one. Its store stays on the host.

    \b
    Examples:
      samza-dagster control-standby stop 0-1
      samza-dagster control-standby stop 0-1 --no-wait --json
    """
    asked = uuid or str(uuid_module.uuid4())
    with target.client() as client:
        if dry_run:
            with busy("Reading the job …"):
                plan = client.plan_own(RequestKind.STOP_STANDBY, processor)
            print_plan(plan, as_json)
            ctx.exit(2 if plan.refusal else 0)
        code = ask_and_watch(
            client,
            lambda: client.stop_standby(processor, uuid=asked),
            uuid=asked,
            wait=wait,
            timeout=timeout,
            as_json=as_json,
        )
    ctx.exit(code)
