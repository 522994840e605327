"""`samza-dagster cancel|commit|release`: about a request that was made before."""

from __future__ import annotations

import uuid as uuid_module
from typing import TYPE_CHECKING

import click

from samza_dagster.cli.asking import ask_and_watch, exit_code, show, tell_asked, watch
from samza_dagster.cli.asking import dry_run_option as _dry_run
from samza_dagster.cli.asking import timeout_option as _timeout
from samza_dagster.cli.asking import uuid_option as _uuid
from samza_dagster.cli.asking import wait_option as _wait
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy, print_json, print_table
from samza_dagster.model.own_requests import RequestKind

if TYPE_CHECKING:
    from samza_dagster.client import ActionView, PlacementClient


def _show_plan(client: PlacementClient, kind: RequestKind, request: str, as_json: bool) -> None:
    with busy("Reading the job …"):
        action = client.check_about(kind, request)
    if as_json:
        print_json({"kind": kind.value, "request": action.to_json() if action else None})
        return
    _print_action(f"Would {kind.value} request {request}", action)


def _end(
    target: Target,
    kind: RequestKind,
    request: str,
    *,
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Cancels or releases a request; returns the exit code."""
    asked = uuid or str(uuid_module.uuid4())
    with target.client() as client:
        if dry_run:
            _show_plan(client, kind, request, as_json)
            return 0
        end = client.cancel if kind is RequestKind.CANCEL else client.release
        return ask_and_watch(
            client,
            lambda: end(request, uuid=asked),
            uuid=asked,
            wait=wait,
            timeout=timeout,
            as_json=as_json,
        )


def _print_action(title: str, action: ActionView | None) -> None:
    rows = []
    if action is not None:
        rows = [(action.kind, action.processor_id, action.destination, action.stage)]
    print_table(title, ("kind", "processor", "destination", "stage"), rows)


@click.command(short_help="End a request that waits or reserves.")
@click.argument("request")
@_uuid
@_wait
@_timeout
@_dry_run
@json_option
@target_options
@click.pass_context
def cancel(
    ctx: click.Context,
    *,
    target: Target,
    request: str,
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """End the request of UUID REQUEST while its container is still untouched.

    It then ends FAILED with the reason; what it had reserved is given back. Refused once
    a container is being stopped for it.

    \b
    Example:
      samza-dagster cancel 88b0d30c-d518-4307-9e8e-c8529eb30f04
    """
    code = _end(
        target,
        RequestKind.CANCEL,
        request,
        uuid=uuid,
        wait=wait,
        timeout=timeout,
        dry_run=dry_run,
        as_json=as_json,
    )
    ctx.exit(code)


@click.command(short_help="Give a held reservation back.")
@click.argument("request")
@_uuid
@_wait
@_timeout
@_dry_run
@json_option
@target_options
@click.pass_context
def release(
    ctx: click.Context,
    *,
    target: Target,
    request: str,
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give back what `place … --hold` with UUID REQUEST holds; the container stays untouched.

    \b
    Example:
      samza-dagster release 88b0d30c-d518-4307-9e8e-c8529eb30f04
    """
    code = _end(
        target,
        RequestKind.RELEASE,
        request,
        uuid=uuid,
        wait=wait,
        timeout=timeout,
        dry_run=dry_run,
        as_json=as_json,
    )
    ctx.exit(code)


@click.command(short_help="Let a held reservation go on: stop, then start there.")
@click.argument("request")
@_uuid
@_wait
@_timeout
@_dry_run
@json_option
@target_options
@click.pass_context
def commit(
    ctx: click.Context,
    *,
    target: Target,
    request: str,
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Let the move of `place … --hold` with UUID REQUEST go on, and wait for its outcome.

    \b
    Example:
      samza-dagster commit 88b0d30c-d518-4307-9e8e-c8529eb30f04 --timeout 120
    """
    asked = uuid or str(uuid_module.uuid4())
    with target.client() as client:
        if dry_run:
            _show_plan(client, RequestKind.COMMIT, request, as_json)
            ctx.exit(0)
        with busy("Checking and asking …"):
            written = client.commit(request, uuid=asked)
        responses = tell_asked(client, written.uuid)
        responses = watch(client, written.uuid, timeout) if wait else responses
        if wait and exit_code(responses) == 0:
            responses = watch(client, request, timeout)
    cells = (
        written.processor_id,
        written.destination_host,
        written.deployment_id,
        written.timestamp,
    )
    new = client.wrote(written.uuid)
    show(written.to_json(), responses, as_json, uuid=request, written=new, cells=cells)
    ctx.exit(exit_code(responses))
