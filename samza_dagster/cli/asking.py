"""What every command that asks a coordinator for something shares: waiting, showing, exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.model import PlacementResponse, StatusCode

if TYPE_CHECKING:
    from samza_dagster.client import Asked, PlacementClient

_EXIT = {StatusCode.SUCCEEDED: 0, StatusCode.FAILED: 1, StatusCode.BAD_REQUEST: 2}

uuid_option = click.option(
    "--uuid", metavar="UUID", help="The request's UUID; to repeat it asks nothing new."
)
wait_option = click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait for the outcome."
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait; the action may go on after it.",
)
beyond_budget_option = click.option(
    "--beyond-budget",
    is_flag=True,
    help="With Samza's own AM: ask also where it may end the job for so many stops in a row.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Print the plan and write nothing.")
expiry_option = click.option(
    "--request-expiry",
    type=float,
    metavar="SECONDS",
    help="How long the coordinator may try to reserve the destination.",
)


def exit_code(responses: Sequence[PlacementResponse]) -> int:
    """0 done or not waited for, 1 FAILED, 2 BAD_REQUEST; 0 for a status before the last."""
    return _EXIT.get(responses[-1].status_code, 0) if responses else 0


def watch(
    client: PlacementClient,
    uuid: str,
    timeout: float,
    *,
    until: Callable[[PlacementResponse], bool] | None = None,
) -> list[PlacementResponse]:
    """Every status up to the final one (or the first that `until` accepts), told as it comes."""
    responses: list[PlacementResponse] = []
    began = time.monotonic()

    def on_response(response: PlacementResponse) -> None:
        responses.append(response)
        elapsed = time.monotonic() - began
        notice(f"  {elapsed:6.1f} s  {response.status_code.value:<12} {response.response_message}")

    def is_enough(response: PlacementResponse) -> bool:
        return response.status_code.is_terminal or (until is not None and until(response))

    with busy(f"Waiting up to {timeout:g} s for the coordinator …"):
        client.wait(
            uuid,
            timeout_s=timeout,
            on_response=on_response,
            until=is_enough,
            on_notice=lambda text: notice(f"Warning: {text}"),
        )
    return responses


def tell_asked(client: PlacementClient, uuid: str) -> list[PlacementResponse]:
    """Says that the request is written or, of one that was asked before, what became of it.

    Returns the status of one that was asked before, if it has any yet: the first outcome stands.
    """
    if client.wrote(uuid):
        notice(f"Request {uuid} is written.")
        return []
    response = client.response(uuid)
    if response is None:
        stands = "has no status"
    else:
        ended = "has ended as" if response.status_code.is_terminal else "is"
        stands = f"{ended} {response.status_code.value}"
    notice(
        f"Request {uuid} was asked before and {stands}: nothing is written, its first outcome "
        "stands."
    )
    return [] if response is None else [response]


def show(
    request: dict[str, Any],
    responses: Sequence[PlacementResponse],
    as_json: bool,
    *,
    uuid: str,
    written: bool,
    cells: tuple[str, str, str, int],
) -> None:
    """The request and its last status; `cells`: processor, destination, deployment, asked at.

    `written` is false for one that was asked before.
    """
    if as_json:
        print_json(
            {
                "request": request,
                "written": written,
                "responses": [response.to_wire() for response in responses],
                "response": responses[-1].to_wire() if responses else None,
            }
        )
        return
    last = responses[-1] if responses else None
    processor, destination, deployment, asked_ms = cells
    print_table(
        f"Request {uuid}",
        ("processor", "destination", "deployment", "asked", "status", "message"),
        [
            (
                processor,
                destination,
                deployment,
                at(asked_ms),
                last.status_code.value if last else StatusCode.CREATED.value,
                last.response_message if last else "",
            )
        ],
        spare=("asked", "deployment"),
    )


def ask_and_watch(
    client: PlacementClient,
    ask: Callable[[], Asked],
    *,
    uuid: str,
    wait: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Asks for something of our own, waits for its end, shows both; returns the exit code."""
    written = False
    try:
        with busy("Checking and asking …"):
            asked = ask()
        written = True
        responses = tell_asked(client, asked.uuid)
        responses = watch(client, asked.uuid, timeout) if wait else responses
    except KeyboardInterrupt:
        known = "goes on" if written else "may have been written"
        notice(f"What was asked {known}: samza-dagster status {uuid}")
        raise
    cells = (asked.processor_id, asked.destination_host, asked.deployment_id, asked.timestamp)
    show(
        asked.to_json(),
        responses,
        as_json,
        uuid=asked.uuid,
        written=client.wrote(asked.uuid),
        cells=cells,
    )
    return exit_code(responses)
