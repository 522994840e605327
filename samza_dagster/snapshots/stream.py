"""Snapshots one after the other, in one session of Spark: the tables follow the fleet by seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from deltalake.exceptions import CommitFailedError

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.snapshots.snapshot import FleetSnapshot

TIDIED_EVERY_S = 86_400.0


def stream(
    take: Callable[[datetime], FleetSnapshot],
    tidy: Callable[[datetime], object],
    every_s: float,
    on_error: Callable[[SamzaDagsterError], object],
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[FleetSnapshot]:
    """A snapshot each `every_s` seconds, or as soon as the one before is done.

    What an error of the first says is raised: nobody has seen yet that it works. Those of later ones go
    to `on_error`: a broker that is away comes back, and the next snapshot reads what this one has
    missed. After the first snapshot, and once a day, the tables are tidied.
    """
    tidied = -math.inf
    first = True
    while True:
        began = monotonic()
        try:
            snapshot = take(now())
        except SamzaDagsterError as error:
            if first:
                raise
            on_error(error)
        else:
            first = False
            if began - tidied >= TIDIED_EVERY_S:
                tidied = began
                with suppress(CommitFailedError):  # another is at it
                    tidy(now())
            yield snapshot
        sleep(max(0.0, began + every_s - monotonic()))
