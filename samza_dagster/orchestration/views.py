"""What a placement client tells of a job, as the orchestration reads it: read-only protocols.

The client's own frozen types fit, and tests use plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from samza_dagster.errors import Refused
    from samza_dagster.legal_hosts import SeenGhost


class ProcessorView(Protocol):
    """One processor as the coordinator knows it now."""

    @property
    def processor_id(self) -> str:
        """Samza's processor id; with `-` in it, a standby."""
        ...

    @property
    def mode(self) -> str:
        """`Active` or `Standby`."""
        ...

    @property
    def state(self) -> str:
        """`running` when it has checked in; `last-seen` from a coordinator that tells no more."""
        ...

    @property
    def host(self) -> str | None:
        """Where it runs or was last seen."""
        ...

    @property
    def execution_id(self) -> str | None:
        """Id of its present incarnation."""
        ...

    @property
    def tasks(self) -> Sequence[str]:
        """Names of its tasks."""
        ...

    @property
    def last_seen_host(self) -> str | None:
        """The host that it reported last, by the coordinator stream."""
        ...

    @property
    def extra(self) -> bool:
        """A standby that was spun up on request, beyond the job's own."""
        ...


class HostView(Protocol):
    """One host of the job's cluster."""

    @property
    def host(self) -> str:
        """Its name in locality and requests."""
        ...

    @property
    def state(self) -> str:
        """`alive` or `lost` by its agent, `last-seen` from localities alone."""
        ...

    @property
    def free_memory_mb(self) -> int | None:
        """Memory not given to a container, in MiB; None when the coordinator doesn't say."""
        ...

    @property
    def fault_domain(self) -> str:
        """What fails together with it; empty when that isn't known."""
        ...


class ActionView(Protocol):
    """An action in flight, as our coordinator records it."""

    @property
    def uuid(self) -> str:
        """Its request's."""
        ...

    @property
    def processor_id(self) -> str:
        """Whom it is for."""
        ...

    @property
    def stage(self) -> str:
        """`reserving-standby`, `stopping-standby`, `reserving`, `held`, `stopping`, `starting`, …."""
        ...

    @property
    def destination(self) -> str:
        """A host name or one of Samza's words, as it was asked."""
        ...

    @property
    def reserved_host(self) -> str | None:
        """The host that is held for it."""
        ...

    @property
    def trouble(self) -> str:
        """What is known to hold it up; empty: nothing."""
        ...


class StopBudget(Protocol):
    """What Samza's AM counts against a container before it ends the job."""

    @property
    def counted(self) -> int:
        """Stops in a row, those to come included."""
        ...

    @property
    def most(self) -> int:
        """More than these end the job."""
        ...

    @property
    def is_ever_free(self) -> bool:
        """Whether waiting helps."""
        ...

    @property
    def free_at_ms(self) -> int | None:
        """When the next stop begins a new row; None: now."""
        ...

    @property
    def wait_ms(self) -> int:
        """How long that was to go when it was read."""
        ...

    def is_low(self, stops: int = 1) -> bool:
        """Whether so many more stops spend over half of it."""
        ...

    def notice(self, stops: int = 1) -> str:
        """What to know before them; empty while there is plenty."""
        ...

    def refusal(self, asked: str, stops: int = 1) -> Refused | None:
        """Why they are too many."""
        ...


class FailoverView(Protocol):
    """An active on its way to its standby's host, by the coordinator's own decision or on request."""

    @property
    def active_id(self) -> str:
        """Which active."""
        ...

    @property
    def standby_id(self) -> str:
        """Which standby gives way."""
        ...


class JobView(Protocol):
    """A job as it stands: one consistent read."""

    @property
    def job_name(self) -> str:
        """`job.name`."""
        ...

    @property
    def job_id(self) -> str:
        """`job.id`."""
        ...

    @property
    def deployment_id(self) -> str | None:
        """`app.run.id` of the running deployment."""
        ...

    @property
    def coordinator(self) -> str:
        """Whose word it is: `samza_dagster` or `samza` (its AM tells only where a start was)."""
        ...

    @property
    def takes_any_host(self) -> bool:
        """Samza's AM takes every destination for any host: `job.host-affinity.enabled` is off."""
        ...

    @property
    def container_memory_mb(self) -> int | None:
        """What a container takes, in MiB; None when the coordinator doesn't say."""
        ...

    @property
    def processors(self) -> Mapping[str, ProcessorView]:
        """Processor id → processor."""
        ...

    @property
    def hosts(self) -> Mapping[str, HostView]:
        """Host name → host; empty against a coordinator that doesn't publish hosts."""
        ...

    @property
    def actions(self) -> Sequence[ActionView]:
        """Actions in flight; `stage` is of our coordinator's alone."""
        ...

    @property
    def ghosts(self) -> Sequence[SeenGhost]:
        """Incarnations on hosts that fell silent, not seen dead."""
        ...

    @property
    def max_standbys(self) -> int | None:
        """Standbys that one active may have; None when the coordinator doesn't say."""
        ...

    @property
    def tells_lag(self) -> bool:
        """Standbys report how far they are: the job has a metrics reporter."""
        ...

    @property
    def stop_budgets(self) -> Mapping[str, StopBudget]:
        """Of each processor where Samza's AM coordinates, and ends a job for failures."""
        ...

    @property
    def report_every_s(self) -> int | None:
        """How often its containers report, the least frequent reporter counts; None: they don't."""
        ...

    @property
    def queued(self) -> Sequence[ActionView]:
        """Requests that wait; their `stage` is `queued`."""
        ...

    @property
    def failovers(self) -> Sequence[FailoverView]:
        """Failovers in flight."""
        ...

    def why_over(self, deployment_id: str) -> str:
        """Why a request to this deployment that has no end has none to come; else empty."""
        ...


class HostVerdict(Protocol):
    """One host as a destination: the rule that decides, what was seen, the smallest fix."""

    @property
    def host(self) -> str:
        """Its name."""
        ...

    @property
    def legal(self) -> bool:
        """No rule forbids it."""
        ...

    @property
    def rule(self) -> str:
        """The rule that decides."""
        ...

    @property
    def seen(self) -> str:
        """What the rule was held against."""
        ...

    @property
    def fix(self) -> str:
        """The smallest change that makes it legal."""
        ...


class ReplicaLag(Protocol):
    """How far one replica of one store partition is behind its changelog."""

    @property
    def processor_id(self) -> str:
        """Whose replica."""
        ...

    @property
    def end_offset(self) -> int | None:
        """Offset after the last record of its changelog partition; None: it can't be read."""
        ...

    @property
    def reason(self) -> str | None:
        """What couldn't be read of what tells the lag; None: all of it was."""
        ...

    @property
    def lag(self) -> int | None:
        """Records still to be read; None when it isn't known."""
        ...

    @property
    def observed_at_ms(self) -> int | None:
        """When the replica told it, ms since the epoch by its host's clock; None when nobody told."""
        ...

    @property
    def execution_id(self) -> str:
        """The incarnation that told it; empty when its report doesn't say."""
        ...
