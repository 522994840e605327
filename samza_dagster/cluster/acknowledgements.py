"""What an agent says of the commands that it was sent."""

from __future__ import annotations

import logging
from collections.abc import Callable

from samza_dagster.cluster.agent_messages import Sync
from samza_dagster.cluster.host_book import HostBook, Notice
from samza_dagster.cluster.resource_requests import ResourceRequests

LOG = logging.getLogger(__name__)


def acknowledge(
    book: HostBook, sync: Sync, requests: ResourceRequests, notify: Callable[[Notice], None]
) -> None:
    """Takes the commands off the book; refused ones that matter become callbacks."""
    host, present = book.host, {c.execution_id for c in sync.containers}
    for done in sync.acknowledged:
        command = book.commands.pop(done.id, None)
        if command is None:
            continue
        kind = command["kind"]
        if kind == "reserve":
            requests.answered(host, command["request_id"], ok=done.ok, why=done.why)
        elif done.ok:
            continue
        elif kind == "start" and command["launch"]["execution_id"] not in present:
            execution_id = command["launch"]["execution_id"]
            requests.container_ended(execution_id)
            notify(_start_failed(execution_id, host, done.why))
        elif kind == "stop":
            execution_id = command["execution_id"]
            is_there = execution_id in present
            notify(_stop_refused(execution_id, host, done.why, is_there=is_there))
        elif kind not in ("release", "forget"):
            LOG.warning("%s refused %s: %s", host, kind, done.why)


def _start_failed(execution_id: str, host: str, why: str) -> Notice:
    return lambda to: to.on_start_failed(execution_id, host, why)


def _stop_refused(execution_id: str, host: str, why: str, *, is_there: bool) -> Notice:
    if is_there:
        return lambda to: to.on_stop_failed(execution_id, host, why)
    # The agent's records are complete: what they don't have doesn't run there. Whether they are
    # those that it was started on is for the state to say, by the last registration.
    return lambda to: to.on_container_stopped(execution_id, host, None)
