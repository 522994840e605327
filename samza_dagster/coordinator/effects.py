"""Carries out the heart's effects on a cluster, and turns its projections into records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from samza_dagster.cluster.interface import ClusterResourceManager
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.placement import commands


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
    """Hands each effect to the cluster; every call returns at once and may be repeated."""

    def __init__(
        self,
        cluster: ClusterResourceManager,
        launcher: Callable[[], Launcher],
        counters: Counter[str],
    ) -> None:
        self._cluster = cluster
        self._launcher = launcher
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
                    expires_in_s=effect.expires_in_ms / 1000,
                )
            case commands.ReleaseResource():
                self._cluster.release_resource(effect.request_id)
            case commands.StartContainer():
                launch = self._launcher().launch(effect.processor_id, effect.execution_id)
                self._cluster.start_container(effect.request_id, effect.host, launch)
            case commands.StopContainer():
                self._cluster.stop_container(effect.execution_id, effect.host)
            case commands.ForgetContainer():
                self._cluster.forget_container(effect.execution_id, effect.host)
            case commands.CountMetric():
                self._counters[effect.name] += 1
