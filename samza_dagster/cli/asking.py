"""Options, waiting, output and exit codes of every command that sends a request."""

from __future__ import annotations

import time
import uuid as uuid_module
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from samza_dagster.cli.completion import destinations
from samza_dagster.cli.options import TARGET_OPTIONS, Target, gathered, json_option, not_empty
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.model import PlacementResponse, StatusCode

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient, Plan, Request

_EXIT = {StatusCode.SUCCEEDED: 0, StatusCode.FAILED: 1, StatusCode.BAD_REQUEST: 2}

beyond_budget_option = click.option(
    "--beyond-budget",
    is_flag=True,
    help="With Samza's own AM: ask also where it may end the job for so many stops in a row.",
)
expiry_option = click.option(
    "--request-expiry",
    type=float,
    metavar="SECONDS",
    help="How long the coordinator may try to reserve the destination.",
)


def to_option(help_text: str, **how: Any) -> Callable[..., Any]:
    """Where to: `--to HOST`; `how` says whether it is required, or its default."""
    return click.option(
        *("--to", "destination"), metavar="HOST", shell_complete=destinations, help=help_text, **how
    )


permitted_options = gathered(
    "permitted",
    dict[str, bool],
    click.option(
        "--allow-unknown-host",
        is_flag=True,
        help="With Samza's own AM: accept a host that no container has reported yet.",
    ),
    click.option(
        "--or-any-legal",
        is_flag=True,
        help="If a rule forbids a standby's destination, it goes to any legal host.",
    ),
    beyond_budget_option,
)
"""Add the options that permit a request which would be refused; the command gets them as `permitted`."""


def leave(responses: Sequence[PlacementResponse]) -> NoReturn:
    """Ends the command: 0 done or not waited for, 1 FAILED, 2 BAD_REQUEST; 0 for a status before the last."""
    click.get_current_context().exit(_exit_code(responses))


def _exit_code(responses: Sequence[PlacementResponse]) -> int:
    return _EXIT.get(responses[-1].status_code, 0) if responses else 0


@dataclass(frozen=True)
class Asking:
    """The client and UUID of a command, how long it waits (seconds), and how it shows the end."""

    target: Target
    uuid: str
    wait: bool
    timeout: float
    dry_run: bool
    as_json: bool

    def carry_out(
        self,
        plan: Callable[[PlacementClient], Plan],
        ask: Callable[[PlacementClient, str], Request],
    ) -> None:
        """Asks, or shows the plan in a dry run, and ends the command."""
        if self.dry_run:
            self.show_plan(plan)
        _, responses = self.ask(ask)
        leave(responses)

    def show_plan(self, plan: Callable[[PlacementClient], Plan]) -> NoReturn:
        """Ends the command, with 2 for what would be refused."""
        with self.target.client() as client, busy("Reading the job …"):
            planned = plan(client)
        print_plan(planned, self.as_json)
        click.get_current_context().exit(2 if planned.refusal else 0)

    def ask(
        self,
        ask: Callable[[PlacementClient, str], Request],
        *,
        until: Callable[[PlacementResponse], bool] | None = None,
        then: str = "",
    ) -> tuple[Request, list[PlacementResponse]]:
        """Asks, waits for the end (or what `until` accepts), shows both and returns them.

        `then` is the UUID of a request that is waited for next, after a good end.
        """
        written = False
        with self.target.client() as client:
            try:
                with busy("Checking and asking …"):
                    request = ask(client, self.uuid)
                written = True
                responses = _tell_asked(client, request.uuid)
                if self.wait:
                    responses = self._watch(client, request.uuid, until)
                if self.wait and then and _exit_code(responses) == 0:
                    responses = self._watch(client, then, None)
            except KeyboardInterrupt:
                known = "goes on" if written else "may have been written"
                notice(f"What was asked {known}: samza-dagster status {self.uuid}")
                raise
        self._show(request, responses, then or request.uuid, client.wrote(request.uuid))
        return request, responses

    def _watch(
        self,
        client: PlacementClient,
        uuid: str,
        until: Callable[[PlacementResponse], bool] | None,
    ) -> list[PlacementResponse]:
        """Every status up to the final one (or the first that `until` accepts), told as it comes."""
        responses: list[PlacementResponse] = []
        began = time.monotonic()

        def on_response(response: PlacementResponse) -> None:
            responses.append(response)
            elapsed = time.monotonic() - began
            code, message = response.status_code.value, response.response_message
            notice(f"  {elapsed:6.1f} s  {code:<12} {message}")

        def is_enough(response: PlacementResponse) -> bool:
            return response.status_code.is_terminal or (until is not None and until(response))

        with busy(f"Waiting up to {self.timeout:g} s for the coordinator …"):
            client.wait(
                uuid,
                timeout_s=self.timeout,
                on_response=on_response,
                until=is_enough,
                on_notice=lambda text: notice(f"Warning: {text}"),
            )
        return responses

    def _show(
        self,
        request: Request,
        responses: Sequence[PlacementResponse],
        uuid: str,
        written: bool,
    ) -> None:
        """The request and its last status; `written` is false for one that was asked before."""
        last = responses[-1] if responses else None
        if self.as_json:
            print_json(
                {
                    "request": request.to_json(),
                    "written": written,
                    "responses": [response.to_wire() for response in responses],
                    "response": last.to_wire() if last else None,
                }
            )
            return
        print_table(
            f"Request {uuid}",
            ("processor", "destination", "deployment", "asked", "status", "message"),
            [
                (
                    request.processor_id,
                    request.destination_host,
                    request.deployment_id,
                    at(request.timestamp),
                    last.status_code.value if last else StatusCode.CREATED.value,
                    last.response_message if last else "",
                )
            ],
            spare=("asked", "deployment"),
        )


def _tell_asked(client: PlacementClient, uuid: str) -> list[PlacementResponse]:
    """Print that the request is written or, for an earlier request, its outcome so far.

    Returns the status of an earlier request, if it has any yet: the first outcome is final.
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


def _facts(plan: Plan) -> list[tuple[str, str | None]]:
    """Return facts that the title, the steps and the table of hosts don't contain."""
    facts = [("now on", plan.source_host), ("deployment", plan.deployment_id)]
    facts.append(("coordinator", plan.coordinator))
    if plan.refusal is not None:
        judged = next((v for v in plan.hosts if v.host == plan.destination and not v.legal), None)
        facts.append(("refused", plan.refusal if judged is None else judged.rule))
    elif plan.host != plan.destination:
        facts.append(("would go to", plan.host or "a host that the coordinator chooses"))
    if plan.waits_for:
        facts.append(("first come", ", ".join(plan.waits_for)))
    return [*facts, *((f"step {number}", step) for number, step in enumerate(plan.steps, 1))]


def print_plan(plan: Plan, as_json: bool) -> None:
    """The plan as JSON, or as tables with its notices on stderr."""
    if as_json:
        print_json(plan.to_json())
        return
    refused = ": would be refused" if plan.refusal is not None else ""
    print_table(
        f"{plan.mode.value} {plan.processor_id} → {plan.destination}{refused}",
        ("fact", "value"),
        _facts(plan),
    )
    print_table(
        "Hosts",
        ("host", "may take it", "ready", "rule", "seen", "smallest fix"),
        [
            (v.host, "yes" if v.legal else "no", "yes" if v.ready else "no", v.rule, v.seen, v.fix)
            for v in plan.hosts
        ],
        spare=("ready", "rule"),
    )
    for text in plan.notices:
        notice(f"Notice: {text}")


def _asking(
    uuid: str | None,
    wait: bool,
    timeout: float,
    dry_run: bool,
    as_json: bool,
    **target: str | None,
) -> Asking:
    asked_as = uuid or str(uuid_module.uuid4())
    return Asking(Target.of(**target), asked_as, wait, timeout, dry_run, as_json)


asking_options = gathered(
    "asking",
    _asking,
    click.option(
        "--uuid",
        metavar="UUID",
        callback=not_empty,
        help="The request's UUID; to repeat it asks nothing new.",
    ),
    click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the outcome."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=300.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait; the action may go on after it.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the plan and write nothing."),
    json_option,
    *TARGET_OPTIONS,
)
"""Adds the options of every command that asks for something; it gets them as `asking`."""
