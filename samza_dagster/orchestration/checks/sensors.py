"""`invariants` and `lag_slo`: each tick judges what an outsider can see, as asset checks."""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.orchestration.checks import outside as outside_checks
from samza_dagster.orchestration.checks.events import CheckLog, InstanceChecks, due, seeded
from samza_dagster.orchestration.checks.findings import Board, Finding, Patience, looked
from samza_dagster.orchestration.checks.lag_objectives import OBJECTIVE, breaches, followed
from samza_dagster.orchestration.checks.settings import Invariants, LagSlo
from samza_dagster.orchestration.names import asset_path
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watching_ports import ReplicaLag, WatchedClient, open_watch

SLO_ASSETS = {OBJECTIVE: "changelog_lag"}


@dataclass
class CheckTick:
    """One tick of either sensor; `findings` looks and judges, and gives what to remember beside."""

    checks: Mapping[str, str]
    patience: Mapping[str, Patience]
    repeat_ms: int
    findings: Callable[[Board], tuple[Mapping[str, Sequence[Finding]], Mapping[str, object]]]

    def run(
        self, cursor: str | None, job: str, log: CheckLog, now_ms: int
    ) -> tuple[Board, list[dg.AssetCheckEvaluation]]:
        """The board to keep and the evaluations to tell."""
        board = seeded(Board.read(cursor, job), job, self.checks, log)
        found, extra = self.findings(board)
        board, results = looked(board, found, self.patience, now_ms)
        board = replace(board, extra=extra)
        return due(board, results, self.checks, log, now_ms, self.repeat_ms)


def invariants_tick(
    client: WatchedClient, settings: Invariants, lag_limit: int, prefix: str = ""
) -> CheckTick:
    """What `invariants` does in a tick."""

    def findings(_board: Board) -> tuple[Mapping[str, Sequence[Finding]], Mapping[str, object]]:
        view = client.view()
        reported = {
            p: locality.host
            for p, locality in client.locality().processor_localities.items()
            if locality.host
        }
        return {
            outside_checks.SAME_HOST: outside_checks.same_host(view),
            outside_checks.REPLICAS: outside_checks.replicas_present(view, settings.standbys),
            outside_checks.ONE_OWNER: outside_checks.one_owner(view),
            outside_checks.LAG: outside_checks.within_limit(read_lags(client), lag_limit),
            outside_checks.LOCALITY: outside_checks.locality_agrees(view, reported),
        }, {}

    checks = under(prefix, outside_checks.ASSETS)
    return CheckTick(checks, settings.patience(), settings.repeat_s * 1000, findings)


def lag_slo_tick(
    client: WatchedClient, settings: LagSlo, now_ms: int, prefix: str = ""
) -> CheckTick:
    """What `lag_slo` does in a tick."""

    def findings(board: Board) -> tuple[Mapping[str, Sequence[Finding]], Mapping[str, object]]:
        lags = read_lags(client)
        samples = followed(board.extra, lags, now_ms)
        return {OBJECTIVE: breaches(settings.parsed(), lags, samples)}, samples

    checks = under(prefix, SLO_ASSETS)
    return CheckTick(checks, {OBJECTIVE: settings.patience()}, settings.repeat_s * 1000, findings)


def under(prefix: str, checks: Mapping[str, str]) -> Mapping[str, str]:
    """Checks with the paths of their assets below a prefix."""
    return {check: asset_path(prefix, asset) for check, asset in checks.items()}


def read_lags(client: WatchedClient) -> Sequence[ReplicaLag]:
    """The lags; none where the job has no store, or they can't be read by this client."""
    try:
        return client.lag()
    except MissingPrerequisite:
        return ()


def invariants_sensor(settings: Invariants) -> dg.SensorDefinition:
    """`invariants` with the settings of the component's YAML."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name="invariants",
        minimum_interval_seconds=settings.interval_s,
        default_status=_status(settings.running),
        description="Judges from outside what must hold of a job, as asset checks.",
    )
    def invariants(
        context: dg.SensorEvaluationContext,
        samza: SamzaClientResource,
        samza_policies: PlacementPolicies,
    ) -> dg.SensorResult | dg.SkipReason:
        limit = samza_policies.lag_limit
        return _tick(
            context,
            samza,
            lambda client, _now: invariants_tick(client, settings, limit, samza.prefix),
        )

    return invariants


def lag_slo_sensor(settings: LagSlo) -> dg.SensorDefinition:
    """`lag_slo` with the objectives of the component's YAML."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name="lag_slo",
        minimum_interval_seconds=settings.interval_s,
        default_status=_status(settings.running),
        description="Holds the lag of standbys against objectives, as an asset check.",
    )
    def lag_slo(
        context: dg.SensorEvaluationContext, samza: SamzaClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        return _tick(
            context, samza, lambda client, now: lag_slo_tick(client, settings, now, samza.prefix)
        )

    return lag_slo


def _status(running: bool) -> dg.DefaultSensorStatus:
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def _tick(
    context: dg.SensorEvaluationContext,
    samza: SamzaClientResource,
    make: Callable[[WatchedClient, int], CheckTick],
) -> dg.SensorResult | dg.SkipReason:
    now_ms = time.time_ns() // 1_000_000
    try:
        client = open_watch(samza)
    except Unreachable as error:
        return dg.SkipReason(f"Kafka doesn't answer: {error}")
    try:
        board, events = make(client, now_ms).run(
            context.cursor, samza.job, InstanceChecks(context.instance), now_ms
        )
    except Unreachable as error:
        return dg.SkipReason(f"Kafka doesn't answer: {error}")
    finally:
        client.close()
    standing = sum(s.on for found in board.checks.values() for s in found.values())
    return dg.SensorResult(
        asset_events=events,
        skip_reason=None if events else f"nothing new; {standing} findings stand",
        cursor=board.to_text(),
    )
