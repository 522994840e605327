"""What to do: the outputs of the reducer. Every command may be carried out twice.

Projections are written in the same transaction as the state; effects leave only
after that transaction has committed, and are idempotent by request or execution id.
"""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.placement.certificates import AuditRecord


@dataclass(frozen=True, slots=True)
class RequestResource:
    """Effect: hold memory and cores on `host` (None: the freest not excluded).

    `execution_id` is the incarnation that will start on it, so that its process may be
    launched meanwhile; `ahead`: the processor runs, so there is time to wait for that.
    `urgent`: the refusal of `host` ends the request, before its time.
    """

    request_id: str
    processor_id: str
    host: str | None
    excluded_hosts: tuple[str, ...]
    memory_mb: int
    cores: int
    expires_in_ms: int
    execution_id: str = ""
    ahead: bool = False
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseResource:
    """Effect: give it back, or end the request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Effect: start this incarnation on the resource that `request_id` holds."""

    processor_id: str
    execution_id: str
    host: str
    request_id: str


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Effect: stop this incarnation and confirm its death."""

    execution_id: str
    host: str


@dataclass(frozen=True, slots=True)
class ForgetContainer:
    """Effect: the agent may drop its record of a dead incarnation."""

    execution_id: str
    host: str


@dataclass(frozen=True, slots=True)
class FencePrincipal:
    """Effect: have the brokers refuse this incarnation's principal; answered when they do."""

    processor_id: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class WriteResponse:
    """Projection: a response on the coordinator stream; for a request of our `own`, on our topic.

    What follows `own` are the details of `ResponseDetails`; "" where there is none.
    """

    uuid: str
    deployment_id: str
    processor_id: str
    destination_host: str
    status: str
    message: str
    timestamp_ms: int
    request_expiry_ms: int | None = None
    own: bool = False
    stage: str = ""
    started: str = ""
    host: str = ""
    stopped: tuple[str, ...] = ()
    refers_to: str = ""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Projection: the request was taken; its key is tombstoned, where it was read."""

    uuid: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class WriteLocality:
    """Projection: processor → host on the coordinator stream."""

    processor_id: str
    host: str


@dataclass(frozen=True, slots=True)
class DeleteLocality:
    """Projection: the processor has no host any more."""

    processor_id: str


@dataclass(frozen=True, slots=True)
class RecordCertificate:
    """Projection: an audit record, appended to the job's audit topic."""

    record: AuditRecord


@dataclass(frozen=True, slots=True)
class CountMetric:
    """Effect: one more of `name` (Samza's metric names)."""

    name: str


Projection = WriteResponse | DeleteRequest | WriteLocality | DeleteLocality | RecordCertificate
Effect = (
    RequestResource
    | ReleaseResource
    | StartContainer
    | StopContainer
    | ForgetContainer
    | FencePrincipal
    | CountMetric
)
Command = Projection | Effect
