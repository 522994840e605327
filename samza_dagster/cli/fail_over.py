"""`samza-dagster fail-over`: an active onto the host of its standby, at once."""

from __future__ import annotations

import uuid as uuid_module

import click

from samza_dagster.cli.asking import (
    ask_and_watch,
    dry_run_option,
    timeout_option,
    uuid_option,
    wait_option,
)
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy
from samza_dagster.cli.plan_output import print_plan
from samza_dagster.model.own_requests import RequestKind


@click.command("fail-over", short_help="Start an active on the host of its standby.")
@click.argument("processor")
@uuid_option
@wait_option
@timeout_option
@dry_run_option
@json_option
@target_options
@click.pass_context
def fail_over(
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
    """Stop the standby soonest ready and start the active PROCESSOR on its host.

    The standby then starts on any other legal host. To move the standby first, so that
    the active is never without one: `place PROCESSOR --to STANDBY`.

    \b
    Examples:
      samza-dagster fail-over 0
      samza-dagster fail-over 0 --dry-run
    """
    asked = uuid or str(uuid_module.uuid4())
    with target.client() as client:
        if dry_run:
            with busy("Reading the job …"):
                plan = client.plan_own(RequestKind.FAIL_OVER, processor)
            print_plan(plan, as_json)
            ctx.exit(2 if plan.refusal else 0)
        code = ask_and_watch(
            client,
            lambda: client.fail_over(processor, uuid=asked),
            uuid=asked,
            wait=wait,
            timeout=timeout,
            as_json=as_json,
        )
    ctx.exit(code)
