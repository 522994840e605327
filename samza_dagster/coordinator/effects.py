"""Carries out the reducer's effects on a cluster, and turns its projections into records."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from samza_dagster.cluster.interface import ClusterResourceManager, ResourceAsk
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.placement import commands

LONGEST_EXPIRY_S = 7 * 86_400.0
"""A stranger's request may name any number; no reservation is waited for longer than this."""
_SLOW_S = 1.0
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
        details=ResponseDetails(
            stage=command.stage or None,
            started=command.started or None,
            host=command.host or None,
            stopped=command.stopped,
            refers_to=command.refers_to or None,
        ),
    )


class EffectRunner:
    """Hands each effect to the cluster; every call may be repeated, and returns at once.

    All but the making of a login: brokers that hang hold it up for seconds. So after one
    that failed or was slow the next starts wait for `start_again`, which ends with the
    first such one too: whoever calls has its turn in between.

    `on_start_failed` (execution id, host, why) is told of a start that can't even be asked
    for: of a processor that no deployment of this coordinator has. Without a `fence`
    leases alone take the tasks from a container that nobody has seen dead.
    """

    def __init__(
        self,
        cluster: ClusterResourceManager,
        launcher: Callable[[], Launcher],
        counters: Counter[str],
        *,
        on_start_failed: Callable[[str, str, str], None],
        fence: BrokerFence | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fence = fence
        self._cluster = cluster
        self._launcher = launcher
        self._on_start_failed = on_start_failed
        self._counters = counters
        self._monotonic = monotonic
        self._unadmitted: dict[str, commands.StartContainer] = {}
        self._slow = False

    @property
    def has_unadmitted(self) -> bool:
        """Start wait for brokers that would let them in."""
        return bool(self._unadmitted)

    def start_again(self, is_starting: Callable[[str], bool]) -> None:
        """Try the starts again whose logins couldn't be made, if they are still wanted.

        `is_starting` (of an execution id) is the state's word: a start that was given up
        meanwhile must not come after its successor's. One that fails comes last next time.
        """
        self._slow = False
        for execution_id, effect in list(self._unadmitted.items()):
            if self._slow:
                return
            del self._unadmitted[execution_id]
            if is_starting(execution_id):
                self._start(effect)

    def run(self, effect: commands.Effect) -> None:
        """Carry out one effect whose step is durable."""
        match effect:
            case commands.RequestResource():
                self._cluster.request_resource(
                    ResourceAsk(
                        effect.request_id,
                        effect.host,
                        effect.excluded_hosts,
                        effect.memory_mb,
                        effect.cores,
                        min(effect.expires_in_ms / 1000, LONGEST_EXPIRY_S),
                        self._launcher().ahead(effect.processor_id, effect.execution_id),
                        effect.ahead,
                        effect.urgent,
                    )
                )
            case commands.ReleaseResource():
                self._cluster.release_resource(effect.request_id)
            case commands.StartContainer():
                if self._slow or self._unadmitted:
                    self._unadmitted[effect.execution_id] = effect
                else:
                    self._start(effect)
            case commands.StopContainer():
                self._cluster.stop_container(effect.execution_id, effect.host)
            case commands.ForgetContainer():
                self._cluster.forget_container(effect.execution_id, effect.host)
                if self._fence is not None:
                    self._fence.remove(effect.execution_id)
            case commands.FencePrincipal():
                self._shut_out(effect.execution_id)
            case commands.CountMetric():
                self._counters[effect.name] += 1

    def _start(self, effect: commands.StartContainer) -> None:
        launch = self._launcher().launch(effect.processor_id, effect.execution_id)
        if launch is None:
            why = f"the deployment has no processor {effect.processor_id}"
            log.warning("%s isn't started: %s", effect.execution_id, why)
            self._on_start_failed(effect.execution_id, effect.host, why)
            return
        if self._fence is not None:
            began_s = self._monotonic()
            try:
                self._fence.admit(effect.execution_id)
            except SamzaDagsterError as error:
                # It may be running since an earlier start of it: no word of a failure. It is
                # tried again until the deadline of its check-in ends it.
                log.warning("%s isn't started yet: %s", effect.execution_id, error)
                self._unadmitted[effect.execution_id] = effect
                self._slow = True
                return
            self._slow = self._monotonic() - began_s > _SLOW_S
        self._cluster.start_container(effect.request_id, effect.host, launch)

    def _shut_out(self, execution_id: str) -> None:
        if self._fence is not None:
            self._fence.fence(execution_id)
            return
        log.warning(
            "%s was to be fenced at the brokers, the config has leases now: it is waited for "
            "until its host says that it is dead",
            execution_id,
        )
