"""The fencing of one coordinator's job, from its config to a take-over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from samza_dagster.coordinator.clock import wall_clock_ms
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence, fencing_in_force
from samza_dagster.coordinator.fencing.examination import require_fence
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.placement.logins import launched_without
from samza_dagster.placement.state import JobState, Limits


@dataclass
class JobFencing:
    """The fencing that a job's config requests.

    `config` is served to containers and written to the coordinator stream.

    With leases alone (`principals` None) that is the job's config as it is, and nothing
    here touches the brokers.
    """

    config: Mapping[str, str]
    principals: Principals | None = None
    _examination: Future[None] | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, config: Mapping[str, str]) -> JobFencing:
        """Read the config; raises `InvalidInput` that names a setting which rules out a fence."""
        principals = Principals.of(config)
        return cls(
            config if principals is None else principals.container_config(config), principals
        )

    def begin_examination(self, cluster: KafkaCluster) -> None:
        """Examine in the background whether the brokers can fence; once is enough."""
        if self.principals is None or self._examination is not None:
            return
        with_one_thread = ThreadPoolExecutor(1, thread_name_prefix="fence examination")
        self._examination = with_one_thread.submit(
            require_fence, self.principals, cluster, self.config
        )
        with_one_thread.shutdown(wait=False)

    def require(self) -> None:
        """Return if the brokers can fence; raise `Refused` with the condition that doesn't hold.

        Called before this coordinator waits for its turn: a candidate must know that it can
        lead. Raises `Unreachable` too. After either the examination begins anew.
        """
        if self._examination is None:
            return
        try:
            self._examination.result()
        except Exception:
            self._examination = None
            raise

    def at_take_over(
        self, cluster: KafkaCluster, stored: JobState, fenced: Callable[[str], None]
    ) -> TermFence | None:
        """Return the fence of a term, once this coordinator alone may write."""
        if self.principals is None:
            return None
        fence = BrokerFence.at(self.principals, cluster, fenced)
        present = fence.present()
        fence.leave_out(launched_without(stored, present))
        return TermFence(fence, stored, present)


@dataclass(frozen=True)
class TermFence:
    """A fence, with the state and the principals that were there at the take-over."""

    fence: BrokerFence
    stored: JobState
    present: frozenset[str]

    def limits(self, limits: Limits) -> Limits:
        """Return the limits with the fencing that this term can rely on."""
        fencing = fencing_in_force(limits.fencing, self.stored, self.present)
        return replace(limits, fencing=fencing)

    def clean_up(self) -> None:
        """Remove what a crash left, after the first commit of the term."""
        self.fence.clean_up(self.present, self.stored, wall_clock_ms())
