"""Commands that ask what Samza's wire has no form for, of our own coordinator alone."""

from __future__ import annotations

import click

from samza_dagster.cli.asking import Asking, asking_options, expiry_option, leave, to_option
from samza_dagster.cli.completion import processors
from samza_dagster.cli.output import busy, print_json, print_table
from samza_dagster.model.naming import ANY_HOST
from samza_dagster.model.own_requests import RequestKind


@click.command("fail-over")
@click.argument("processor", shell_complete=processors)
@asking_options
def fail_over(asking: Asking, processor: str) -> None:
    """Stop the standby soonest ready and start the active PROCESSOR on its host.

    The standby then starts on any other legal host. To move the standby first, so that
    the active is never without one: `place PROCESSOR --to STANDBY`.

    \b
    Examples:
      samza-dagster fail-over 0
      samza-dagster fail-over 0 --dry-run
    """
    asking.carry_out(
        lambda client: client.plan_own(RequestKind.FAIL_OVER, processor),
        lambda client, uuid: client.fail_over(processor, uuid=uuid),
    )


@click.group("control-standby")
def control_standby() -> None:
    """Spin up one more standby of an active, or stop one for good.

    \b
    Examples:
      samza-dagster control-standby start 0 --to host-3
      samza-dagster control-standby stop 0-1
    """


@control_standby.command("start", short_help="Spin up one more standby of an active.")
@click.argument("processor", shell_complete=processors)
@to_option("A host, or ANY_HOST.", default=ANY_HOST, show_default=True)
@expiry_option
@asking_options
def start(asking: Asking, processor: str, destination: str, request_expiry: float | None) -> None:
    """Spin up one more standby of the active PROCESSOR.

    Done when it has checked in; `samza-dagster lag` tells when it has caught up. If no
    host can be reserved, or it doesn't start, the job is as it was.

    \b
    Examples:
      samza-dagster control-standby start 0
      samza-dagster control-standby start 0 --to host-3 --dry-run
    """
    asking.carry_out(
        lambda client: client.plan_own(RequestKind.START_STANDBY, processor, destination),
        lambda client, uuid: client.start_standby(
            processor, destination, request_expiry_s=request_expiry, uuid=uuid
        ),
    )


@control_standby.command("stop", short_help="Stop a standby and remove it from the job.")
@click.argument("processor", shell_complete=processors)
@asking_options
def stop(asking: Asking, processor: str) -> None:
    """Stop the standby PROCESSOR and remove it from the job.

    An active's id stands for its standby when it has just one. Its store stays on the host.

    \b
    Examples:
      samza-dagster control-standby stop 0-1
      samza-dagster control-standby stop 0-1 --no-wait --json
    """
    asking.carry_out(
        lambda client: client.plan_own(RequestKind.STOP_STANDBY, processor),
        lambda client, uuid: client.stop_standby(processor, uuid=uuid),
    )


def _about(kind: RequestKind, text: str) -> click.Command:
    """A command about a request that was made; a commit is over with the move that it lets go on."""

    @click.command(kind.value, help=text)
    @click.argument("request")
    @asking_options
    def command(asking: Asking, request: str) -> None:
        if asking.dry_run:
            with asking.target.client() as client, busy("Reading the job …"):
                action = client.check_about(kind, request)
            if asking.as_json:
                print_json({"kind": kind.value, "request": action.to_json()})
                return
            row = (action.kind, action.processor_id, action.destination, action.stage)
            title = f"Would {kind.value} request {request}"
            print_table(title, ("kind", "processor", "destination", "stage"), [row])
            return
        _, responses = asking.ask(
            lambda client, uuid: client.ask_about(kind, request, uuid),
            then=request if kind is RequestKind.COMMIT else "",
        )
        leave(responses)

    return command


cancel = _about(
    RequestKind.CANCEL,
    """End the request of UUID REQUEST while its container is still untouched.

    It then ends FAILED with the reason; what it had reserved is given back. Refused once
    a container is being stopped for it.

    \b
    Example:
      samza-dagster cancel 88b0d30c-d518-4307-9e8e-c8529eb30f04
    """,
)
release = _about(
    RequestKind.RELEASE,
    """Give back what `place … --hold` with UUID REQUEST holds; the container stays untouched.

    \b
    Example:
      samza-dagster release 88b0d30c-d518-4307-9e8e-c8529eb30f04
    """,
)
commit = _about(
    RequestKind.COMMIT,
    """Let the move of `place … --hold` with UUID REQUEST go on, and wait for its outcome.

    \b
    Example:
      samza-dagster commit 88b0d30c-d518-4307-9e8e-c8529eb30f04 --timeout 120
    """,
)
