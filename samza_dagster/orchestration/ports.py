"""What the orchestration asks of a placement client: the part of `samza_dagster.client` used here.

The views are read-only protocols, so the client's own frozen types fit, and tests use plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.own_requests import RequestKind

if TYPE_CHECKING:
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
    def queued(self) -> Sequence[ActionView]:
        """Requests that wait; their `stage` is `queued`."""
        ...

    @property
    def failovers(self) -> Sequence[FailoverView]:
        """Failovers in flight."""
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


class Plan(Protocol):
    """What a request would do; nothing was written."""

    @property
    def steps(self) -> Sequence[str]:
        """What would happen, in order."""
        ...

    @property
    def hosts(self) -> Sequence[HostVerdict]:
        """Every host as a destination."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What to know before asking."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why it would be refused; None when it would be written."""
        ...


class Asked(Protocol):
    """A request of our own as it was written."""

    @property
    def processor_id(self) -> str:
        """Whom it is for."""
        ...

    @property
    def destination_host(self) -> str:
        """What was asked for."""
        ...

    @property
    def deployment_id(self) -> str:
        """The deployment that it is meant for."""
        ...

    @property
    def timestamp(self) -> int:
        """When, in ms since the epoch."""
        ...


class Progress(Protocol):
    """Whether a processor has worked since a moment."""

    @property
    def processing(self) -> bool:
        """An input offset grew in a commit since then."""
        ...


class ReplicaLag(Protocol):
    """How far one replica of one store partition is behind its changelog."""

    @property
    def processor_id(self) -> str:
        """Whose replica."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset after the last record of its changelog partition."""
        ...

    @property
    def lag(self) -> int | None:
        """Records still to be read; None when it isn't known."""
        ...

    @property
    def observed_at_ms(self) -> int | None:
        """When the replica told it, ms since the epoch; None when nobody told."""
        ...


class Placement(Protocol):
    """An open placement client."""

    def prepare(self) -> None:
        """Gets ready to place; returns at once."""
        ...

    def view(self) -> JobView:
        """The job as it stands."""
        ...

    def plan(self, processor_id: str, destination: str) -> Plan:
        """What a request would do and why. Writes nothing."""
        ...

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> PlacementRequest:
        """Writes a request; the same uuid again writes nothing new. The request as it stands."""
        ...

    def reserve(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Asked:
        """Asks for a move that holds its destination and stops nothing before its commit."""
        ...

    def commit(self, reservation: str, *, uuid: str | None = None) -> Asked:
        """Lets a held reservation go on."""
        ...

    def release(self, reservation: str, *, uuid: str | None = None) -> Asked:
        """Gives a reservation back that isn't committed."""
        ...

    def fail_over(self, processor_id: str, *, uuid: str | None = None) -> Asked:
        """Asks that an active takes the place of its standby soonest ready."""
        ...

    def start_standby(
        self,
        processor_id: str,
        destination: str = ...,
        *,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Asked:
        """Asks for one more standby of an active."""
        ...

    def stop_standby(self, processor_id: str, *, uuid: str | None = None) -> Asked:
        """Asks that a standby is stopped and removed from the job."""
        ...

    def cancel(self, request: str, *, uuid: str | None = None) -> Asked:
        """Ends a request that waits or reserves; refused once its container is being stopped."""
        ...

    def lag(self) -> Sequence[ReplicaLag]:
        """Lag of every replica of every store partition."""
        ...

    def plan_own(self, kind: RequestKind, processor_id: str, destination: str = ...) -> Plan:
        """What `fail_over` or `start_standby` would ask. Writes nothing."""
        ...

    def request(self, uuid: str) -> PlacementRequest | None:
        """The request on Samza's wire while no coordinator has taken it."""
        ...

    def own_request(self, uuid: str) -> Asked | None:
        """The request of our own while no coordinator has taken it."""
        ...

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response to a request, or None."""
        ...

    def remembered(self) -> Collection[str]:
        """UUIDs that the coordinator has taken lately, their answers on record or cleaned up."""
        ...

    def standby_origins(self) -> Mapping[str, str]:
        """Standby → UUID of the request that has spun it up, by the audit topic; one long reading."""
        ...

    def history(
        self, processor_id: str | None = None, *, limit: int | None = None
    ) -> Sequence[PlacementResponse]:
        """The newest response to each request that is still on record, oldest first."""
        ...

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: Callable[[PlacementResponse], None] | None = None,
        until: Callable[[PlacementResponse], bool] = ...,
    ) -> PlacementResponse:
        """The first response that `until` accepts (a terminal one); raises `DeadlineExceeded` without one in `timeout_s`."""
        ...

    def processing(self, processor_id: str, since_ms: int) -> Progress:
        """Whether the processor has processed since `since_ms`."""
        ...

    def responses_since(
        self, position: int | None
    ) -> tuple[Sequence[tuple[int, PlacementResponse]], int]:
        """Responses written from `position` on, in order, and where to go on (None: only the end)."""
        ...

    def own_responses_since(
        self, position: int | None
    ) -> tuple[Sequence[tuple[int, PlacementResponse]], int]:
        """The same for requests of our own, in our state topic."""
        ...

    def close(self) -> None:
        """Releases connections."""
        ...
