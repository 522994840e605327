"""`samza-dagster status`: of a request, of a processor, or of the job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.cli.watching import watch, watch_options
from samza_dagster.client.checks import find_processor
from samza_dagster.client.requests import Request
from samza_dagster.client.signs_of_life import SignsOfLife, known_life, looked_for
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.model import PlacementResponse

if TYPE_CHECKING:
    from samza_dagster.client import ActionView, JobView, LeaderView, PlacementClient, ProcessorView
    from samza_dagster.client.views import Agreement

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SHOWN = 20


@click.command()
@click.argument("what", required=False, metavar="[UUID|PROCESSOR]")
@click.option(
    "--look",
    is_flag=True,
    help="With Samza's own AM: wait for a sign of life of the job, one report interval at most.",
)
@watch_options
@json_option
@target_options
def status(
    *, target: Target, what: str | None, look: bool, every: float | None, as_json: bool
) -> None:
    """Show the job, or one processor with the actions issued on it, or one request.

    Whether a job under Samza's own Application Master runs YARN's ResourceManager says, or a
    report that comes while it looks; without either it isn't known, and that is said.

    Exits 4 when the coordinator's state, or YARN's ResourceManager where its address is given,
    can't be read; what the coordinator stream says is shown. With --watch a request is followed to
    its end, anything else until Ctrl-C; with --json that is one document a look.

    \b
    Examples:
      samza-dagster status
      samza-dagster status 0-0
      samza-dagster status --watch --interval 5
      samza-dagster status 88b0d30c-d518-4307-9e8e-c8529eb30f04 --json
    """
    with target.client() as client:
        if every is None:
            _show(client, what, look, as_json)
        else:
            watch(lambda: _show(client, what, look, as_json), every)


def _show(client: PlacementClient, what: str | None, look: bool, as_json: bool) -> bool:
    """Print once; return whether the output may still change."""
    if what is None:
        with busy("Reading the job …"):
            view = client.known_view()
        life = known_life(view)
        if look:
            with busy("Waiting for a report of any container …"):
                life = looked_for(client, view)
        _show_job(view, as_json, life)
        end_if_unread(view)
        _end_if_yarn_is_unread(view)
    elif _UUID.fullmatch(what):
        return _show_request(client, what, as_json)
    else:
        end_if_unread(_show_processor(client, what, as_json))
    return True


def end_if_unread(view: JobView) -> None:
    """Exits 4 when our coordinator's word is missing from what was shown, and says why."""
    if view.unread is not None:
        notice(
            f"Warning: the coordinator's state can't be read: {view.unread}. Shown is what the "
            "coordinator stream says: what runs now, hosts and actions aren't known."
        )
        raise click.exceptions.Exit(Unreachable.exit_code)


def _end_if_yarn_is_unread(view: JobView) -> None:
    if view.yarn_unread is not None:
        notice(
            f"Warning: YARN's ResourceManager can't be asked: {view.yarn_unread}. Its nodes, and "
            "whether the job runs, aren't known."
        )
        raise click.exceptions.Exit(Unreachable.exit_code)


def _show_job(view: JobView, as_json: bool, life: SignsOfLife | None) -> None:
    if as_json:
        print_json({**view.to_json(), "life": None if life is None else life.to_json()})
        return
    print_table(
        f"Job {view.job_name} {view.job_id}, deployment {view.deployment_id or '-'}, "
        f"coordinator {view.coordinator}",
        ("processor", "mode", "state", "host", "execution id", "tasks"),
        _processor_rows(view.processors[p] for p in sorted(view.processors)),
        spare=("execution id",),
    )
    print_table(
        "Hosts",
        ("host", "state", "memory MiB", "free MiB", "cores", "free cores"),
        [
            (
                h.host,
                f"{h.state}, {h.yarn_state}" if h.yarn_state not in ("", RUNNING) else h.state,
                *(h.memory_mb, h.free_memory_mb, h.cores, h.free_cores),
            )
            for _, h in sorted(view.hosts.items())
        ],
    )
    if view.deployed is not None:
        click.echo(
            "Deployed: every active and every standby runs."
            if view.deployed
            else "Not deployed: not every active and every standby runs."
        )
    if view.degraded:
        print_table(
            "Degraded: these have no place", ("processor", "why"), list(view.degraded.items())
        )
    if view.agreement is not None:
        _print_group(view, view.agreement)
    _print_actions((*view.actions, *view.queued))
    tell_over(view.over)
    _print_troubles(view)
    _print_leader(view.leader)
    if view.application is not None:
        where = f", Application Master on {host}" if (host := view.application.master_host) else ""
        click.echo(f"YARN: {view.application}{where}, {view.application.tracking_url}")
    if view.dead is not None:
        notice(
            f"Warning: nothing of the job runs any more: {view.dead}. Deploy it again: nobody "
            "would read a request."
        )
    elif life is not None and life.runs is None:
        notice(f"Notice: whether the job runs isn't known: {life.seen}")
    elif life is not None and view.application is None:
        click.echo(f"The job runs: {life.seen}")
    for text in view.unreadable:
        notice(f"Notice: skipped a record that can't be read: {text}")
    for key, why in view.poison.items():
        notice(
            f"Warning: Samza's AM serves no request while this record stands: {key}: {why}. "
            "samza-dagster gc removes it (--dry-run shows it)"
        )
    for text in view.fatal:
        notice(f"Warning: Samza's reader ends at this record, no container can start: {text}")


def _print_group(view: JobView, agreement: Agreement) -> None:
    """Print the processors of a standalone group, what they agree on, and what is wrong."""
    print_table(
        f"Processors of the group: version {agreement.version}, agreed on {agreement.agreed}",
        ("id", "location", "leads", "silent ms", "tasks"),
        [
            (
                pid,
                it.host,
                "yes" if pid == agreement.leader else "",
                agreement.silent_ms.get(pid),
                ", ".join(it.tasks),
            )
            for pid, it in sorted(view.members.items())
        ],
        spare=("tasks", "silent ms"),
    )
    for text in view.troubles:
        notice(f"Warning: {text}")


def _processor_rows(processors: Iterable[ProcessorView]) -> list[tuple[str | None, ...]]:
    return [
        (
            p.processor_id,
            p.mode.value,
            _state(p),
            p.host,
            p.execution_id,
            ", ".join(p.tasks),
        )
        for p in processors
    ]


def _state(p: ProcessorView) -> str:
    flapping = ", flapping" if p.flapping else ""
    pinned = ", pinned" if p.pinned else ""
    paused = "" if p.paused_for_ms is None else f", paused for {p.paused_for_ms / 1000:.1f} s"
    return f"{p.state}{pinned}{flapping}{paused}"


def _print_actions(actions: tuple[ActionView, ...]) -> None:
    if actions:
        print_table(
            "Actions, first to act on first",
            ("request", "kind", "processor", "destination", "stage", "asked"),
            [
                (a.uuid, a.kind, a.processor_id, a.destination, a.stage, at(a.since_ms))
                for a in actions
            ],
            spare=("asked", "kind"),
        )
    for action in actions:
        if action.trouble:
            notice(f"Warning: request {action.uuid}: {action.trouble}")


def tell_over(over: Iterable[ActionView]) -> None:
    """Names the requests that have no end and none to come."""
    for action in over:
        notice(
            f"Notice: request {action.uuid} ({action.processor_id} to {action.destination}, "
            f"{action.stage}) is {action.trouble}; nobody answers it"
        )


def _print_leader(leader: LeaderView | None) -> None:
    if leader is None:
        return
    state = "ended in order" if leader.ended else "leads"
    print_table(
        "Coordinator",
        ("epoch", "host", "url", "state", "since", "last sign of life"),
        [
            (
                leader.epoch,
                leader.host,
                leader.url,
                state,
                at(leader.since_ms),
                at(leader.beat_ms),
            )
        ],
        spare=("since", "url"),
    )
    counted = {name: count for name, count in sorted(leader.counters.items()) if count}
    if counted:
        print_table("Counted since it began", ("counter", "count"), list(counted.items()))


def _print_troubles(view: JobView) -> None:
    """Failovers that go on, and processes on hosts that fell silent."""
    if view.failovers:
        print_table(
            "Failovers in progress",
            ("active", "standby that gives way", "to", "since", "why"),
            [(f.active_id, f.standby_id, f.host, at(f.since_ms), f.why) for f in view.failovers],
            spare=("since",),
        )
    if view.orphans:
        print_table(
            "On hosts that fell silent: alive or dead, nobody knows",
            ("processor", "host", "silent since", "may own its tasks until", "execution id"),
            [
                (
                    g.processor_id,
                    g.host,
                    at(g.lost_at_ms),
                    f"ended: {g.ended}" if g.ended else at(g.lease_ends_ms) or "its host tells",
                    g.execution_id,
                )
                for g in view.orphans
            ],
            spare=("execution id", "silent since"),
        )


def _print_responses(title: str, responses: Iterable[PlacementResponse]) -> None:
    print_table(
        title,
        ("request", "processor", "destination", "status", "at", "message"),
        [
            (
                r.uuid,
                r.processor_id,
                r.destination_host,
                r.status_code.value,
                at(r.timestamp),
                r.response_message,
            )
            for r in responses
        ],
        spare=("at",),
    )


def _show_request(client: PlacementClient, uuid: str, as_json: bool) -> bool:
    """Print a request; return whether it has no end yet."""
    with busy("Reading the request …"):
        placed = client.request(uuid)
        request = Request.of(uuid, placed, "place") if placed else client.own_request(uuid)
        response = client.response(uuid)
    if request is None and response is None:
        raise InvalidInput(
            f"request {uuid}",
            seen="neither a request nor a response, in the coordinator stream or our own topic",
            fix="see samza-dagster status for the requests that are known",
        )
    ended = response is not None and response.status_code.is_terminal
    of = response or (None if request is None or request.own else request)
    over = "" if ended or of is None else client.known_view().why_over(of.deployment_id)
    if over:
        notice(f"Notice: {over}; nobody answers this request")
    if as_json:
        print_json(
            {
                "request": request.to_json() if request else None,
                "response": response.to_wire() if response else None,
                "over": over or None,
            }
        )
    elif response is not None:
        _print_responses(f"Request {uuid}", [response])
    elif request is not None:
        print_table(
            f"Request {uuid}: no coordinator has taken it yet",
            ("kind", "processor", "destination", "deployment", "asked"),
            [
                (
                    request.kind,
                    request.processor_id,
                    request.destination_host,
                    request.deployment_id,
                    at(request.timestamp),
                )
            ],
        )
    return not ended and not over


def _show_processor(client: PlacementClient, processor_id: str, as_json: bool) -> JobView:
    with busy("Reading the job …"):
        view = client.known_view()
        processor = find_processor(view, processor_id)
        history = client.history(
            processor_id, limit=_SHOWN, of_stream_alone=view.unread is not None
        )
    about = {
        name: tuple(one for one in getattr(view, name) if one.processor_id == processor_id)
        for name in ("actions", "queued", "orphans", "over")
    }
    here = tuple(f for f in view.failovers if processor_id in (f.active_id, f.standby_id))
    mine = replace(view, failovers=here, **about)
    if as_json:
        of_view = (*about, "failovers", "unread")
        print_json(
            {
                "processor": processor.to_json(),
                "history": [r.to_wire() for r in history],
                **{name: value for name, value in mine.to_json().items() if name in of_view},
            }
        )
        return view
    print_table(
        f"Processor {processor_id}",
        ("processor", "mode", "state", "host", "execution id", "tasks"),
        _processor_rows([processor]),
        spare=("execution id",),
    )
    if processor.flapping:
        notice(
            f"Warning: {processor_id} fails again and again ({processor.failures} times in all): "
            "it is started at longer intervals"
        )
    _print_actions((*mine.actions, *mine.queued))
    _print_troubles(mine)
    tell_over(mine.over)
    if history:
        _print_responses(f"Last {len(history)} requests on it", history)
    return view
