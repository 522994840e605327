"""Commands: the outputs of the reducer. Each command is idempotent.

Projections are written in the same transaction as the state. Effects leave only after that
transaction has committed, and are idempotent by request or execution id.
"""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.placement.certificates import AuditRecord


@dataclass(frozen=True, slots=True)
class RequestResource:
    """Effect: reserve memory and cores on `host` (None: the freest host that isn't excluded)."""

    request_id: str
    processor_id: str
    host: str | None
    excluded_hosts: tuple[str, ...]
    memory_mb: int
    cores: int
    expires_in_ms: int
    # The incarnation that will start there, so that its process may be launched early.
    execution_id: str = ""
    ahead: bool = False  # the processor runs, so there is time to wait for the launch
    urgent: bool = False  # a refusal by `host` ends the request before its time


@dataclass(frozen=True, slots=True)
class ReleaseResource:
    """Effect: release the resource, or end its request."""

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
    """Projection: a response on the coordinator stream, or on our topic for an `own` request."""

    uuid: str
    deployment_id: str
    processor_id: str
    destination_host: str
    status: str
    message: str
    timestamp_ms: int
    request_expiry_ms: int | None = None
    own: bool = False
    stage: str = ""  # from here on: the details of `ResponseDetails`, "" where there is none
    started: str = ""
    host: str = ""
    stopped: tuple[str, ...] = ()
    refers_to: str = ""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Projection: tombstone the key of a request that was taken, on the topic where it was read."""

    uuid: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class WriteLocality:
    """Projection: processor → host on the coordinator stream."""

    processor_id: str
    host: str


@dataclass(frozen=True, slots=True)
class DeleteLocality:
    """Projection: remove the processor's host from the coordinator stream."""

    processor_id: str


@dataclass(frozen=True, slots=True)
class RecordCertificate:
    """Projection: an audit record, appended to the job's audit topic."""

    record: AuditRecord


@dataclass(frozen=True, slots=True)
class CountMetric:
    """Effect: increment `name`, one of Samza's metric names."""

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
