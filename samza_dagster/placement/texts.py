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
# How many of the job's processors a refusal names.
_MOST_LISTED = 40


def failed(why: str) -> str:
    """FAILED, in Samza's words; `why` says what was seen."""
    return f"failed the ContainerPlacement action because {why}"


def accepted(why: str) -> str:
    """The request is queued; `why` says for what it waits."""
    return f"Request is accepted; {why}"


def bad_request(reason: str) -> str:
    """The request can't be taken and changed nothing."""
    return f"BAD_REQUEST reason: {reason}"


def refusal(rule: str, seen: str, change: str) -> str:
    """Which rule forbids it, what was seen, and the smallest change that makes it legal."""
    return f"{rule}: {seen}; {change}"


def started(host: str) -> str:
    """The container has checked in on `host`."""
    return f"Successfully completed the container placement action started container on host {host}"


def expired(why: str) -> str:
    """No resource in time; `why` names what the cluster saw."""
    return failed(f"request for resources to ClusterManager expired: {why}")


def stop_failed(host: str | None) -> str:
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


NO_PLACE = "there was no taking"
STANDBY_STOP_IN_PROGRESS = "Standby container stop in progress"
CANCELLED = "cancelled before anything was stopped; the container runs on untouched"
RELEASED = "released: what was reserved is given back, the container runs on untouched"


def held(host: str, for_ms: int) -> str:
    """The destination is reserved and waits for its commit."""
    return f"Reserved on host {host}, waits for commit, let go in {for_ms / 1000:g} s"


def unknown_processor(processor_id: str, known: Sequence[str]) -> str:
    """There is no such processor; Samza's words, and those that there are."""
    seen = f"no processor {processor_id} in this job"
    return f"{UNKNOWN_PROCESSOR}; {refusal('processor-known', seen, name_one_of(known))}"


def name_one_of(known: Sequence[str]) -> str:
    """What there is instead of a processor that there isn't, as far as one reads."""
    listed = ", ".join(known[:_MOST_LISTED]) + (
        f" or {len(known) - _MOST_LISTED} more" if known[_MOST_LISTED:] else ""
    )
    return f"name one of {listed}" if known else "deploy the job first"


def host_lost(host: str | None) -> str:
    """The host fell silent while it was to act."""
    return failed(f"host {host} fell silent")


def standby_started(standby_id: str, host: str) -> str:
    """The standby that was asked for has checked in."""
    return f"Successfully started standby container {standby_id} on host {host}"


def standby_stopped(standby_id: str) -> str:
    """Its process was seen dead, and it isn't wanted any more."""
    return f"Successfully stopped and removed standby container {standby_id}"


def committed(uuid: str) -> str:
    """The reserved action goes on."""
    return f"Request {uuid} goes on"


def ended_for(uuid: str, *, released: bool) -> str:
    """The request that a cancel or release was about has ended."""
    return f"Request {uuid} is {'released' if released else 'cancelled'}"


def how_far_behind(records: int | None) -> str:
    """Of a standby, by its last sample; None: there is none."""
    if records is None:
        return "how far behind is unknown"
    return f"{records} records behind when it was last measured"
