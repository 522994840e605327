"""The texts of placement responses, Samza's own where the meaning is the same (1.8.0)."""

from __future__ import annotations

from collections.abc import Sequence

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
# Most processors that a refusal names.
_MOST_LISTED = 40


def failed(why: str) -> str:
    """Return Samza's text for FAILED; `why` is the observation."""
    return f"failed the ContainerPlacement action because {why}"


def accepted(why: str) -> str:
    """Return the text for a queued request; `why` is the obstacle that it waits for."""
    return f"Request is accepted; {why}"


def bad_request(reason: str) -> str:
    """Return the text for a request that can't be taken and changed nothing."""
    return f"BAD_REQUEST reason: {reason}"


def refusal(rule: str, seen: str, change: str) -> str:
    """Return the violated rule, the observation, and the smallest change that makes it legal."""
    return f"{rule}: {seen}; {change}"


def started(host: str) -> str:
    """Return the text for a container that has checked in on `host`."""
    return f"Successfully completed the container placement action started container on host {host}"


def expired(why: str) -> str:
    """Return the text for a resource that wasn't held in time; `why` is from the cluster."""
    return failed(f"request for resources to ClusterManager expired: {why}")


def stop_failed(host: str | None) -> str:
    """Return the text for a container that survived its stop."""
    return f"failed to stop container on current host {host}"


def start_failed(destination: str, source: str) -> str:
    """Return the text for a container that is down and goes back to `source`."""
    return (
        f"failed to start container on destination host {destination}, "
        f"attempting to start on source host {source}"
    )


def constraints_now(host: str) -> str:
    """Return the text for a held host that became illegal before the start."""
    return (
        f"allocated resource on host {host} does not meet standby constraints now, "
        "falling back to source host"
    )


NO_PLACE = "there was no taking"
STANDBY_STOP_IN_PROGRESS = "Standby container stop in progress"
CANCELLED = "cancelled before anything was stopped; the container runs on untouched"
RELEASED = "released: what was reserved is given back, the container runs on untouched"


def held(host: str, for_ms: int) -> str:
    """Return the text for a held destination that waits for its commit."""
    return f"Reserved on host {host}, waits for commit, let go in {for_ms / 1000:g} s"


def unknown_processor(processor_id: str, known: Sequence[str]) -> str:
    """Return Samza's text for an unknown processor, with the known ones."""
    seen = f"no processor {processor_id} in this job"
    return f"{UNKNOWN_PROCESSOR}; {refusal('processor-known', seen, name_one_of(known))}"


def name_one_of(known: Sequence[str]) -> str:
    """Return the advice to name one of the known processors, as many as are readable."""
    listed = ", ".join(known[:_MOST_LISTED]) + (
        f" or {len(known) - _MOST_LISTED} more" if known[_MOST_LISTED:] else ""
    )
    return f"name one of {listed}" if known else "deploy the job first"


def host_lost(host: str | None) -> str:
    """Return the text for a host that fell silent before it acted."""
    return failed(f"host {host} fell silent")


def standby_started(standby_id: str, host: str) -> str:
    """Return the text for a requested standby that has checked in."""
    return f"Successfully started standby container {standby_id} on host {host}"


def standby_stopped(standby_id: str) -> str:
    """Return the text for a standby that was seen dead and is no longer wanted."""
    return f"Successfully stopped and removed standby container {standby_id}"


def committed(uuid: str) -> str:
    """Return the text for a reserved action that continues."""
    return f"Request {uuid} goes on"


def ended_for(uuid: str, *, released: bool) -> str:
    """Return the text for the end of the request that a cancel or release was about."""
    return f"Request {uuid} is {'released' if released else 'cancelled'}"


def how_far_behind(records: int | None) -> str:
    """Return a standby's lag by its last sample, as text; None: there is none."""
    if records is None:
        return "how far behind is unknown"
    return f"{records} records behind when it was last measured"
