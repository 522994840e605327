"""What time it is when a snapshot is taken: the brokers', which date the records that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.lag_topic import brokers_time_ms

TOLERATED = timedelta(minutes=1)


class Moment(NamedTuple):
    """The time of a snapshot. `why_own`: why it is this machine's own; empty: the brokers told it."""

    at: datetime
    why_own: str = ""


def moment(jobs: Sequence[Connection], here: datetime) -> Moment:
    """Return the brokers' time, by a record in the lag topic of the first job that may be written.

    `here` is this machine's time: `Refused` where it is far from the brokers'. A login that may write no
    lag topic has its machine's own time, which reports have to confirm (`refuse_unconfirmed`).
    """
    why = ""
    for job in jobs:
        try:
            at = datetime.fromtimestamp(brokers_time_ms(job) / 1000, UTC)
        except InvalidInput as error:
            why = why or str(error)
            continue
        if abs(at - here) > TOLERATED:
            side = "ahead of" if here > at else "behind"
            raise Refused(
                "the time of a snapshot is the brokers'",
                seen=f"this machine's clock, {here:%Y-%m-%d %H:%M:%S} UTC, is {abs(at - here)} {side} theirs",
                fix="set the clock right",
            )
        return Moment(at)
    return Moment(here, why)


def refuse_unconfirmed(moment: Moment, newest_ms: int | None, window_ms: int) -> None:
    """Raise `Refused` where neither the brokers nor a report of the window confirm the time."""
    here_ms = moment.at.timestamp() * 1000
    if moment.why_own and (newest_ms is None or abs(here_ms - newest_ms) > window_ms):
        raise Refused(
            "the time of a snapshot is the brokers', or reports confirm it",
            seen=f"{moment.why_own}; and no report of the last {window_ms / 60_000:g} min by this machine's clock",
            fix="the right to write to the job's lag topic, by which the brokers tell the time",
        )
