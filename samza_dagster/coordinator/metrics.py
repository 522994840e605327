"""`GET /metrics`: the coordinator's counters and the job's gauges, in OpenMetrics text.

Gauges are read from the state at each scrape. Counters are this term's and carry their start:
by that an alert knows that the first scrape of a new leader shows new counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics import exposition

from samza_dagster.coordinator.standby_lags import running_standbys
from samza_dagster.placement.condition import degraded
from samza_dagster.placement.failures import is_flapping
from samza_dagster.placement.state import JobState, Lag, Phase, Processor, Role
from samza_dagster.version import __version__

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PREFIX = "samza_dagster_"
COUNTERS: Mapping[str, str] = {
    "failovers-to-standby": "actives that failed over onto the host of a standby",
    "failovers-to-any-host": "failures of actives with standbys of which none qualified",
    "failed-standby-allocations": "hosts that were allocated and broke the same-host rule",
    "failed-containers": "containers that ended by themselves, and standbys that stood still",
    "active-failures": "of them actives",
    "standby-failures": "of them standbys",
    "stalled-standbys": "standbys that lived and applied nothing, and were restarted",
    "preferred-host-requests": "resources requested on a named host",
    "any-host-requests": "resources requested on any host",
    "expired-preferred-host-requests": "requests of a named host that expired",
    "expired-any-host-requests": "requests of any host that expired",
    "failed-container-placements-actions": "placement actions that ended FAILED",
    "malformed-requests": "requests that couldn't be read and were answered BAD_REQUEST",
    "refused-epochs": "words of agents that tell of a higher epoch than this leader's",
    "ignored-requests": "records that couldn't be read and have nobody to answer to",
    "ignored-reports": "metrics snapshots that couldn't be read",
}
"""Counter (by Samza's name where it has one) → what it counts; all are shown from 0 on."""


class JobMetrics:
    """A collector of one job at one time, for `prometheus_client`."""

    def __init__(
        self,
        state: JobState,
        counters: Mapping[str, int],
        *,
        leader_epoch: int,
        now_ms: int,
        counting_since_ms: int = 0,
        observes_lags: bool = True,
    ) -> None:
        self._state = state
        self._counters = counters
        self._counting_since_s = counting_since_ms / 1000
        self._observes_lags = observes_lags
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms

    def collect(self) -> Iterator[Metric]:
        """Yield every counter and gauge; the job's name is the label `job`."""
        yield from self._counted()
        processors = [p for group in self._state.groups.values() for p in group.processors.values()]
        yield self._by_role(
            "running_containers",
            "Samza's gauge running-containers: containers that have checked in",
            [p for p in processors if p.phase is Phase.RUNNING],
        )
        yield self._by_role(
            "needed_containers",
            "Samza's gauge needed-containers: containers that should run and don't",
            [p for p in processors if p.wanted and p.phase is not Phase.RUNNING],
        )
        yield self._by_role(
            "flapping_containers",
            "containers that fail again and again, and are started at longer intervals",
            [p for p in processors if is_flapping(p, self._now_ms, self._state.limits)],
        )
        groups, hosts = self._state.groups.values(), self._state.hosts.values()
        waits = degraded(groups, self._state.limits, self._now_ms)
        for name, text, value in (
            (
                "degraded_containers",
                "containers that should run and have no place now",
                len(waits),
            ),
            (
                "actions_in_flight",
                "placement actions that are carried out",
                sum(g.action is not None for g in groups),
            ),
            (
                "longest_action_silence_seconds",
                "since the action in flight that has told nothing for the longest wrote its last status",
                self._longest_silence_s(),
            ),
            (
                "requests_queued",
                "placement requests that wait for their turn",
                sum(len(g.queue) for g in groups),
            ),
            (
                "failovers_in_progress",
                "actives on their way to the host of a standby",
                sum(g.failover is not None for g in groups),
            ),
            (
                "unaccounted_containers",
                "containers on hosts that fell silent: alive or dead, nobody knows",
                sum(len(g.orphans) for g in groups),
            ),
            ("hosts_alive", "hosts whose agent answers", sum(h.alive for h in hosts)),
            ("hosts_lost", "hosts whose agent fell silent", sum(not h.alive for h in hosts)),
            ("leader_epoch", "number of this term of leadership", self._leader_epoch),
        ):
            yield self._gauge(name, text, {"": value})
        yield self._build()
        yield from self._lags()

    def _longest_silence_s(self) -> float:
        """Return the time since the oldest last response of an action, 0 without one."""
        actions = [g.action for g in self._state.groups.values() if g.action is not None]
        responded = [action.response_ms for action in actions if action.response_ms]
        return max(0, self._now_ms - min(responded)) / 1000 if responded else 0.0

    def _build(self) -> Metric:
        labels = {"job": self._state.job, "run": self._state.deployment_id}
        text = "the coordinator's release, and the deployment (run) that it leads"
        return InfoMetricFamily(f"{_PREFIX}build", text, value={**labels, "version": __version__})

    def _counted(self) -> Iterator[Metric]:
        for name in sorted({*COUNTERS, *self._counters}):
            text = COUNTERS.get(name, "a counter of the coordinator")
            metric = CounterMetricFamily(
                _PREFIX + name.replace("-", "_"), f"{name}: {text}", labels=["job"]
            )
            count = self._counters.get(name, 0)
            metric.add_metric([self._state.job], count, created=self._counting_since_s)
            yield metric

    def _by_role(self, name: str, text: str, processors: list[Processor]) -> Metric:
        counts = Counter(p.role for p in processors)
        return self._gauge(name, text, {role.value: counts[role] for role in Role}, by="role")

    def _gauge(self, name: str, text: str, values: Mapping[str, float], by: str = "") -> Metric:
        """Return a gauge with `values` by their label `by`, or with a single value."""
        metric = GaugeMetricFamily(_PREFIX + name, text, labels=["job", by] if by else ["job"])
        for label, value in values.items():
            metric.add_metric([self._state.job, label] if by else [self._state.job], value)
        return metric

    def _is_known(self, lag: Lag | None) -> bool:
        return (
            lag is not None
            and lag.records is not None
            and self._now_ms - lag.at_ms <= lag.good_for_ms
        )

    def _lags(self) -> Iterator[Metric]:
        lags = sorted(self._state.lags.items())
        seen = {name: lag for name, lag in lags if lag.records is not None}
        yield self._gauge(
            "standby_lag_records",
            "records that a standby hasn't applied yet, as last seen",
            {name: lag.records for name, lag in lags if lag.records is not None},
            by="processor",
        )
        yield self._gauge(
            "standby_lag_age_seconds",
            "how long ago that was seen: it grows while a standby reports nothing",
            {name: max(0, self._now_ms - lag.at_ms) / 1000 for name, lag in seen.items()},
            by="processor",
        )
        yield self._gauge(
            "standby_lag_unknown",
            "1 for a standby that runs and has told this leader nothing that still counts, else 0",
            {
                name: 0 if self._is_known(self._state.lags.get(name)) else 1
                for name in sorted(running_standbys(self._state))
            }
            if self._observes_lags
            else {},
            by="processor",
        )
        yield self._gauge(
            "standby_ready_seconds",
            "how long it would take to apply them at its pace, where that is known",
            {name: lag.ready_in_ms / 1000 for name, lag in lags if lag.ready_in_ms is not None},
            by="processor",
        )


def render(metrics: JobMetrics) -> bytes:
    """Return the page in OpenMetrics text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)  # pyright: ignore[reportArgumentType] - it has what is needed
    generate = cast(
        "Callable[[CollectorRegistry], bytes]",
        exposition.generate_latest,  # pyright: ignore[reportUnknownMemberType]
    )
    return generate(registry)
