"""What the orchestration asks of a placement client: the part of `samza_dagster.client` used here.

What it is told of the job is in `views`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.views import HostVerdict, JobView, ReplicaLag


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
    """Whether a processor has worked, by what stands from an offset of the checkpoint topic on."""

    @property
    def processing(self) -> bool:
        """An input offset grew in a commit there."""
        ...

    @property
    def end(self) -> int:
        """Where the topic ended: the offset of the next commit."""
        ...


class Placement(Protocol):
    """An open placement client."""

    def prepare(self) -> None:
        """Gets ready to place; returns at once."""
        ...

    def view(self) -> JobView:
        """The job as it stands."""
        ...

    def plan(
        self,
        processor_id: str,
        destination: str,
        *,
        allow_unknown_host: bool = False,
        beyond_budget: bool = False,
    ) -> Plan:
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
        beyond_budget: bool = False,
        allow_unknown_host: bool = False,
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
        on_notice: Callable[[str], object] = ...,
    ) -> PlacementResponse:
        """The first response that `until` accepts (a terminal one); raises `DeadlineExceeded` without one in `timeout_s`."""
        ...

    def checkpoints_end(self) -> int:
        """Where the checkpoint topic ends now: what is committed later stands there or behind."""
        ...

    def processing(self, processor_id: str, since: int) -> Progress:
        """Whether the processor committed progress from offset `since` of that topic on."""
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
