"""Taking over from a leader of an earlier release, which led by an id that isn't one job's alone.

That release's id for `orders`/`eu-1` is the one that `orders-eu`/`1` rightly leads by. It is
fenced here when, and only when, this job's leader holds it: whoever holds it commits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from samza_dagster.coordinator.candidacy import Leader, is_gone
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.state_topic import (
    LEADER,
    TAKE_OVER,
    TRANSACTIONAL_ID,
    Snapshot,
    StateReader,
    StateRecord,
)
from samza_dagster.model import naming

log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


def former_id(connection: Connection, *, stopped: threading.Event) -> str | None:
    """The id of an earlier release by which this job's state topic is led; None: by no such.

    Another job may have the same id. Then the first commit decides whose it is: that job's, and
    this one's former leader has been fenced long ago, or this one's. If neither commits for as
    long as a leader may be silent, both are taken for gone and the id for this job's. Raises
    `MalformedRecord` for a state that can't be read, `Unreachable`.
    """
    name, ident = connection.job_name, connection.job_id
    former = naming.former_transactional_id(name, ident)
    if former == naming.transactional_id(name, ident):
        return None
    with ExitStack() as stack:
        own = _opened(stack, connection, connection.state_topic)
        snapshot = own.snapshot()
        if not _led_by(snapshot, None):
            return None
        heard: list[str] = []
        patience_s = 0.0
        for topic in naming.sharers_of_former_id(name, ident):
            other = _opened(stack, connection, topic)
            there = _snapshot_if_there(other)
            leader = _leader(there) if there is not None else Leader()
            if there is None or is_gone(leader) or not _led_by(there, former):
                continue
            patience_s = max(patience_s, leader.patience_s)
            other.watch(_noted(heard, topic), from_position=there.end)
        if patience_s:
            patience_s = max(patience_s, _leader(snapshot).patience_s)
            own.watch(_noted(heard, connection.state_topic), from_position=snapshot.end)
        until = time.monotonic() + patience_s
        while not heard and time.monotonic() < until and not stopped.wait(_LOOK_EVERY_S):
            pass
    if heard and heard[0] != connection.state_topic:
        log.info("transactional id %s is held by the leader of topic %s", former, heard[0])
        return None
    log.info("what leads by the former transactional id %s is fenced, too", former)
    return former


def _opened(stack: ExitStack, connection: Connection, topic: str) -> StateReader:
    reader = StateReader(
        connection.bootstrap_servers, topic, client_config=connection.client_config
    )
    stack.callback(reader.close)
    return reader


def _snapshot_if_there(reader: StateReader) -> Snapshot | None:
    try:
        return reader.snapshot()
    except InvalidInput:  # no such topic, or none that this one can or may read
        return None


def _leader(snapshot: Snapshot) -> Leader:
    record = snapshot.records.get(LEADER)
    return Leader.of(None if record is None else record.value)


def _led_by(snapshot: Snapshot, transactional_id: str | None) -> bool:
    """The last take-over was by this id or, without saying which, by an earlier release."""
    mark = snapshot.records.get(TAKE_OVER)
    if mark is None or mark.value is None:
        return LEADER in snapshot.records
    if mark.value.get("ended") is True:  # withdrawn, which no earlier release did
        return False
    return mark.value.get(TRANSACTIONAL_ID) in (None, transactional_id)


def _noted(heard: list[str], topic: str) -> Callable[[StateRecord], None]:
    """Notes each commit of a leader; the mark of a take-over is of one who doesn't lead yet."""

    def note(record: StateRecord) -> None:
        if record.key != TAKE_OVER:
            heard.append(topic)

    return note
