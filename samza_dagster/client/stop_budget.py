"""How often Samza's AM may yet stop a container for a placement before it ends the job. Pure.

It counts each such stop as a failure of the container (`ContainerProcessManager`
`onResourceCompletedWithUnknownStatus`): one more while less than the retry window has passed
since the failure before, else one. More than the retry count end the job. Crashes count as
well, and nothing in the coordinator stream tells of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from samza_dagster.client.responses import details_of
from samza_dagster.errors import Refused
from samza_dagster.model import PlacementResponse, StatusCode

# As Samza's `ClusterManagerConfig` reads them: key, older key, default.
_RETRY_COUNT = ("cluster-manager.container.retry.count", "yarn.container.retry.count", 8)
_RETRY_WINDOW = (
    "cluster-manager.container.retry.window.ms",
    "yarn.container.retry.window.ms",
    300_000,
)
_LAST_DELAY = ("cluster-manager.container.preferred-host.last.retry.delay.ms", "", 360_000)
_FAIL_JOB = "cluster-manager.container.fail.job.after.retries"
_DELAY_SKEW_MS = 1_000
_JAVA_INT = 2**31
SLACK_MS = 60_000
"""An answer comes after its stop, and that after its request."""
_LATE_FAILURE_MS = 240_000
"""A host that starts nothing is reported about three minutes after the stop."""


@dataclass(frozen=True)
class StopBudget:
    """The stops that Samza's AM counts against a container, as they were read.

    `counted` are stops in a row, including requested ones that are still to come. More than `most` end
    the job, or (not `fails_job`) leave the container down. The next stop begins a new row from
    `free_at_ms` on, by the reader's clock, `wait_ms` after it was read; None and 0 while nothing
    counts. The row continues while less than `window_ms` are between two stops.
    """

    processor_id: str
    counted: int = 0
    most: int = 8
    window_ms: int = 300_000
    fails_job: bool = True
    free_at_ms: int | None = None
    wait_ms: int = 0

    @property
    def is_ever_free(self) -> bool:
        """Return whether waiting helps: with a retry count of 0 or 1 the first stop is one too many."""
        return self.most > 1

    def is_low(self, stops: int = 1) -> bool:
        """Return whether so many more stops spend over half of it."""
        return 2 * (self.counted + stops) > self.most

    def notice(self, stops: int = 1) -> str:
        """Return a notice before so many more stops; empty while there is plenty."""
        return f"{self._seen(stops)}; {self._rule}" if self.is_low(stops) else ""

    def refusal(self, asked: str, stops: int = 1) -> Refused | None:
        """Return why so many more are too many: the last one is left for a crash, which is reported nowhere."""
        if self.counted + stops < self.most:
            return None
        fix = "or say so: --beyond-budget, in the config of a job for one container beyond_budget"
        if self.counted and self.is_ever_free:
            fix = f"ask after {self._until}, {fix}"
        elif not self.is_ever_free:
            fix = f"{_RETRY_COUNT[0]} of 2 or more and a new deployment, {fix}"
        return Refused(f"{asked}: {self._rule}", seen=self._seen(stops), fix=fix)

    @property
    def _until(self) -> str:
        at = datetime.fromtimestamp((self.free_at_ms or 0) / 1000, UTC)
        return f"{at:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def _rule(self) -> str:
        end = (
            "ends the job"
            if self.fails_job
            else "leaves the container down until the job is deployed anew"
        )
        if not self.most:
            return f"Samza's AM counts a stop as a failure, and with a retry count of 0 the first {end}"
        return (
            f"Samza's AM counts a stop as a failure, and stop {self.most + 1} of a row {end}"
            f" (each less than {self.window_ms / 1000:g} s after the one before);"
            f" stop {self.most} is left for a crash"
        )

    def _seen(self, stops: int) -> str:
        first, last = self.counted + 1, self.counted + stops
        these = f"stop {first}" if stops == 1 else f"stops {first} to {last}"
        counts = (
            f"; {self.counted} count until {self._until}" if self.counted else "; none counts yet"
        )
        return f"this would be {these} of {self.processor_id} in a row{counts}"


def _has_stopped(response: PlacementResponse) -> bool:
    """Return whether Samza's AM has stopped the container for this request, or is doing it."""
    return response.processor_id in details_of(response).stopped


def stop_budgets(
    config: Mapping[str, str],
    processors: Iterable[str],
    responses: Sequence[PlacementResponse],
    queued: Iterable[str],
    now_ms: int,
    asked_ms: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, StopBudget]:
    """Return processor → its budget; empty if no number of failures ends the job.

    `responses` are the newest ones to the requests of the running deployment, in the order of the
    stream: an AM counts from its start. `queued` has the processor of each request without one.
    `now_ms` is the reader's clock; if the newest answer has a later date, the AM's date replaces it.
    The AM's dates tell how far two stops are apart, as it counts itself. The last stop is dated by the
    later of its answer and its request (`asked_ms`, by UUID): an answer comes after its request, so an
    earlier date means that the AM's clock is behind.
    """
    most, window_ms = _number(config, _RETRY_COUNT), _number(config, _RETRY_WINDOW)
    if most < 0:
        return {}
    delay_ms = _number(config, _LAST_DELAY) + _DELAY_SKEW_MS
    fails_job = config.get(_FAIL_JOB, "true").strip().lower() == "true"
    there_ms = max(now_ms, responses[-1].timestamp) if responses else now_ms
    stops: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    coming = list(queued)
    for response in responses:
        at_ms = response.timestamp
        if _has_stopped(response):
            late = _LATE_FAILURE_MS if response.status_code is StatusCode.FAILED else 0
            not_before_ms = max(at_ms, asked_ms.get(response.uuid, at_ms))
            stops[response.processor_id].append((at_ms - late, at_ms, not_before_ms))
        elif not response.status_code.is_terminal:
            coming.append(response.processor_id)
    for processor_id in coming:
        stops[processor_id].append((there_ms, there_ms, there_ms))
    budgets: dict[str, StopBudget] = {}
    for processor_id in processors:
        counted, ends_ms, free_ms = 0, 0, 0
        for earliest_ms, at_ms, not_before_ms in stops[processor_id]:
            goes_on = earliest_ms < ends_ms or not_before_ms < free_ms
            counted = counted + 1 if goes_on else 1
            # Before the last retry Samza pauses, and its window begins after that.
            lasts_ms = window_ms + SLACK_MS + (delay_ms if counted >= most else 0)
            ends_ms, free_ms = at_ms + lasts_ms, not_before_ms + lasts_ms
        wait_ms = max(0, free_ms - there_ms)
        budgets[processor_id] = StopBudget(
            processor_id,
            counted if wait_ms else 0,
            most,
            window_ms,
            fails_job,
            now_ms + wait_ms if wait_ms else None,
            wait_ms,
        )
    return budgets


def _number(config: Mapping[str, str], setting: tuple[str, str, int]) -> int:
    """Return the newer key's value, else the older one's; the default if no AM could run with it."""
    newer, older, default = setting
    try:
        value = int(config.get(newer, config.get(older, default)))
    except ValueError:
        return default
    return value if abs(value) < _JAVA_INT else default
