"""Who does the parts of a snapshot: Spark's Python workers, and this process where there is one part alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from samza_dagster.errors import ActionFailed, SamzaDagsterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = TypeVar("Part")
Made = TypeVar("Made")


class Workers:
    """Spark is started once there is work for two of its workers, and ended with this.

    What one worker would do alone, this process does itself: Spark's start takes seconds, and each of its
    jobs more than the work of such a part.
    """

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._start = session
        self._session: SparkSession | None = None
        self.started_s = 0.0
        """Seconds that Spark's start took; 0 while there was no work for it."""

    def close(self) -> None:
        """End Spark, if it was started."""
        if self._session is not None:
            self._session.stop()

    @property
    def session(self) -> SparkSession:
        """Spark's session, started if it isn't yet."""
        if self._session is None:
            began = time.monotonic()
            self._session = self._start()
            self.started_s = round(time.monotonic() - began, 3)
        return self._session

    def share(self, total: int, least: int) -> int:
        """Return how much of `total` is in each part: as much for each worker, and at least `least`."""
        if total <= least:
            return least
        return max(least, -(-total // self.session.sparkContext.defaultParallelism))

    def each(self, work: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
        """Return what the work makes of each part.

        Raises the first error that work raises, `ActionFailed` for one of Spark itself.
        """
        if len(parts) <= 1:
            return [work(part) for part in parts]
        dealt: Any = self.session.sparkContext.parallelize(parts, len(parts))
        try:
            outcomes = dealt.map(partial(_outcome, work)).collect()
        except Exception as error:
            if not type(error).__module__.startswith(("py4j", "pyspark")):
                raise
            seen = " ".join(str(error).split())[:300]
            raise ActionFailed(
                "a step of a snapshot on Spark", seen=seen, fix="what Spark's log says of it"
            ) from error
        made: list[Made] = []
        for found, error in outcomes:
            if error is not None:
                raise error
            made.append(found)
        return made


def _outcome(work: Callable[[Any], Any], part: Any) -> tuple[Any, SamzaDagsterError | None]:
    """An error of ours travels as a value: as an exception Spark would bury it in its own."""
    try:
        return work(part), None
    except SamzaDagsterError as error:
        return None, error
