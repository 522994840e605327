"""Snapshots one after the other, in one session of Spark: the tables follow the fleet by seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.snapshots.fleet import FleetSnapshot

TIDIED_EVERY_S = 86_400.0


def stream(
    take: Callable[[], FleetSnapshot],
    tidy: Callable[[], object],
    every_s: float,
    on_error: Callable[[SamzaDagsterError], object],
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[FleetSnapshot]:
    """Yield a snapshot each `every_s` seconds, or as soon as the one before is done.

    An error of the first one is raised: nobody has seen yet that it works. Those of later ones, and of
    tidying, go to `on_error`: a broker that is away comes back, and so does room on a disk. After the first
    snapshot, and once a day, the tables are tidied.
    """
    tidied = -math.inf
    first = True
    while True:
        began = monotonic()
        try:
            snapshot = take()
        except SamzaDagsterError as error:
            if first:
                raise
            on_error(error)
        else:
            first = False
            if began - tidied >= TIDIED_EVERY_S:
                tidied = began
                try:
                    tidy()
                except SamzaDagsterError as error:
                    on_error(error)
            yield snapshot
        sleep(max(0.0, began + every_s - monotonic()))
