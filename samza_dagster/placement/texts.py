"""The texts of placement responses, Samza's own where the meaning is the same (1.8.0)."""

from __future__ import annotations

IN_PROGRESS = "IN_PROGRESS"
ACCEPTED = "ACCEPTED"
BAD_REQUEST = "BAD_REQUEST"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"

RESOURCES_REQUESTED = "Preferred Resources requested"
STOP_IN_PROGRESS = "Active container stop in progress"
CONSTRAINTS = "destination host does not meet standby constraints"
NO_START = "a container that is stopped now could not start again"
UNKNOWN_PROCESSOR = "invalid processor id neither in running, pending or failed processors"
_EXPIRED = (
    "failed the ContainerPlacement action because request for resources to ClusterManager expired"
)


def accepted(why: str) -> str:
    """The request is queued; `why` says for what it waits."""
    return f"Request is accepted; {why}"


def bad_request(reason: str) -> str:
    """The request can't be taken and changed nothing."""
    return f"BAD_REQUEST reason: {reason}"


def started(host: str) -> str:
    """The container has checked in on `host`."""
    return f"Successfully completed the container placement action started container on host {host}"


def expired(why: str) -> str:
    """No resource in time; `why` names what the cluster saw."""
    return f"{_EXPIRED}: {why}"


def stop_failed(host: str) -> str:
    """The container lives on where it was."""
    return f"failed to stop container on current host {host}"


def start_failed(destination: str, source: str) -> str:
    """The container is down and goes back to `source`."""
    return (
        f"failed to start container on destination host {destination}, "
        f"attempting to start on source host {source}"
    )


def constraints_now(host: str) -> str:
    """The reserved host became illegal before the container could start there."""
    return (
        f"allocated resource on host {host} does not meet standby constraints now, "
        "falling back to source host"
    )


def deployment_ended(deployment_id: str) -> str:
    """A new deployment began while the request waited or ran."""
    return f"failed the ContainerPlacement action because deployment {deployment_id} began"
