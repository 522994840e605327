"""The reducer's effects, carried out on a cluster, and its projections as records."""

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
    """Return the placement response of a projection."""
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

    The creation of a login is the exception: brokers that hang delay it for seconds. After a
    failed or slow one the next starts wait for `start_again`, which also ends with the first
    failed or slow one, so that its caller can work in between.

    `on_start_failed` (execution id, host, why) is called for a start of a processor that no
    deployment of this coordinator has. Without a `fence` leases alone take the tasks from a
    container that wasn't seen dead.
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
        """Return whether starts wait for brokers to create their logins."""
        return bool(self._unadmitted)

    def start_again(self, is_starting: Callable[[str], bool]) -> None:
        """Try the starts without a login again, if they are still wanted.

        `is_starting` (of an execution id) reads the state: a start that was given up meanwhile
        must not follow its successor's. A failed start is last at the next call.
        """
        self._slow = False
        for execution_id, effect in list(self._unadmitted.items()):
            if self._slow:
                return
            del self._unadmitted[execution_id]
            if is_starting(execution_id):
                self._start(effect)

    def run(self, effect: commands.Effect) -> None:
        """Carry out one effect of a committed step."""
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
                # It may be running since an earlier start of it, so report no failure. Try it
                # again until the deadline of its check-in ends it.
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
