"""Carries out the heart's effects on a cluster, and turns its projections into records."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from samza_dagster.cluster.interface import ClusterResourceManager
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.placement import commands

LONGEST_EXPIRY_S = 7 * 86_400.0
"""A stranger's request may name any number; no reservation is waited for longer than this."""
log = logging.getLogger(__name__)


def response_of(command: commands.WriteResponse) -> PlacementResponse:
    """The placement response that a projection stands for."""
    return PlacementResponse(
        uuid=command.uuid,
        deployment_id=command.deployment_id,
        processor_id=command.processor_id,
        destination_host=command.destination_host,
        status_code=StatusCode(command.status),
        response_message=command.message,
        timestamp=command.timestamp_ms,
        request_expiry=command.request_expiry_ms,
    )


class EffectRunner:
    """Hands each effect to the cluster; every call returns at once and may be repeated.

    `on_start_failed` (execution id, host, why) is told of a start that can't even be asked
    for: of a processor that no deployment of this coordinator has.
    """

    def __init__(
        self,
        cluster: ClusterResourceManager,
        launcher: Callable[[], Launcher],
        counters: Counter[str],
        *,
        on_start_failed: Callable[[str, str, str], None],
    ) -> None:
        self._cluster = cluster
        self._launcher = launcher
        self._on_start_failed = on_start_failed
        self._counters = counters

    def run(self, effect: commands.Effect) -> None:
        """Carries out one effect whose step is durable."""
        match effect:
            case commands.RequestResource():
                self._cluster.request_resource(
                    effect.request_id,
                    host=effect.host,
                    excluded_hosts=effect.excluded_hosts,
                    memory_mb=effect.memory_mb,
                    cores=effect.cores,
                    expires_in_s=min(effect.expires_in_ms / 1000, LONGEST_EXPIRY_S),
                )
            case commands.ReleaseResource():
                self._cluster.release_resource(effect.request_id)
            case commands.StartContainer():
                self._start(effect)
            case commands.StopContainer():
                self._cluster.stop_container(effect.execution_id, effect.host)
            case commands.ForgetContainer():
                self._cluster.forget_container(effect.execution_id, effect.host)
            case commands.FencePrincipal():
                log.warning(
                    "%s isn't fenced at the brokers: that isn't available, its lease is waited for",
                    effect.execution_id,
                )
            case commands.CountMetric():
                self._counters[effect.name] += 1

    def _start(self, effect: commands.StartContainer) -> None:
        launch = self._launcher().launch(effect.processor_id, effect.execution_id)
        if launch is None:
            why = f"the deployment has no processor {effect.processor_id}"
            log.warning("%s isn't started: %s", effect.execution_id, why)
            self._on_start_failed(effect.execution_id, effect.host, why)
            return
        self._cluster.start_container(effect.request_id, effect.host, launch)
