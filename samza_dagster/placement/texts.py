"""The texts of placement responses, Samza's own where the meaning is the same (1.8.0)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def _failed(why: str) -> str:
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
    return _failed(f"request for resources to ClusterManager expired: {why}")


def expired_while_down(why: str, processor_id: str) -> str:
    """The same, cut short because the container ended by itself, or its host fell silent."""
    return f"{expired(why)}; container {processor_id} is down, it is started again"


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


def deployment_ended(deployment_id: str) -> str:
    """A new deployment began while the request waited or ran."""
    return _failed(f"deployment {deployment_id} began")


_NO_PLACE = "there was no taking"
STANDBY_STOP_IN_PROGRESS = "Standby container stop in progress"
CANCELLED = "cancelled before anything was stopped; the container runs on untouched"
RELEASED = "released: what was reserved is given back, the container runs on untouched"


def dropped(word: str) -> str:
    """It was queued: nothing had begun."""
    return f"{word} before it began; nothing was touched"


def given_up_while_down(word: str, processor_id: str) -> str:
    """Nothing was stopped, but the container had ended by itself."""
    return f"{word}; container {processor_id} had ended by itself, it is started again"


def given_up_after_standby(word: str, standby_id: str) -> str:
    """Of a swap the standby's part was done."""
    return f"{word} after standby {standby_id} gave way; the active runs on untouched"


def held(host: str, for_ms: int) -> str:
    """The destination is reserved and waits for its commit."""
    return f"Reserved on host {host}, waits for commit, let go in {for_ms / 1000:g} s"


def hold_expired(host: str) -> str:
    """Nobody committed in time."""
    return _failed(
        f"the reservation on host {host} was not committed in time; the container runs on untouched"
    )


def not_confirmed(host: str) -> str:
    """It was committed, and its host began anew and didn't come back with the reservation."""
    return _failed(
        f"host {host} did not confirm its reservation in time; the container runs on untouched"
    )


def died_before(processor_id: str) -> str:
    """The container ended by itself before its action stopped it."""
    return _failed(
        f"container {processor_id} ended by itself before it was stopped; it is started again"
    )


def standby_died(standby_id: str) -> str:
    """The standby whose place was sought is gone."""
    return _failed(f"standby container {standby_id} ended by itself; the active runs on untouched")


def standby_needed(active_id: str) -> str:
    """A failover takes the standby that this action would have moved."""
    return _failed(f"the standby is needed: active container {active_id} fails over to its host")


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


def no_standby(active_id: str, broken: Sequence[str]) -> str:
    """No running standby's place is the active's to take; `broken` says of each why not."""
    why = "".join(f"; {one}" for one in broken)
    return f"no standby container of {active_id} runs on a host where {active_id} may be{why}"


def no_place(standby_id: str, why: str) -> str:
    """A fail-over's standby keeps its place, or another has it; any host is asked for."""
    return f"{_NO_PLACE} the place of {standby_id}: {why}"


def started_elsewhere(last: str, active_id: str, host: str) -> str:
    """A fail-over's active runs, but in no standby's place; `last` is what was told before."""
    why = last if last.startswith(_NO_PLACE) else f"{_NO_PLACE} a standby's place"
    return _failed(
        f"{why}; container {active_id} was started on host {host} instead, and runs there"
    )


def another_incarnation(active_id: str, asked: str, seen: str) -> str:
    """The active is no longer the one that the fail-over was asked of."""
    return (
        f"same-incarnation: the fail-over is of {asked}, and {active_id} is {seen} by now; "
        f"ask again if {active_id} is still to move"
    )


def failed_over_already(active_id: str, host: str) -> str:
    """What was asked for has happened without the request, while it waited."""
    return (
        f"one-failover: {active_id} has failed over to {host} by itself while the request waited; "
        f"ask again if {active_id} is to move on, once its standby follows it"
    )


def came_back(host: str) -> str:
    """The host that was thought lost is there again, with the container."""
    return _failed(f"host {host} came back with the container running; it runs on there")


def host_lost(host: str | None) -> str:
    """The host fell silent while it was to act."""
    return _failed(f"host {host} fell silent")


def standby_starts(standby_id: str, host: str) -> str:
    """The place of the standby that was asked for is held."""
    return f"Standby container {standby_id} start in progress on host {host}"


def standby_started(standby_id: str, host: str) -> str:
    """The standby that was asked for has checked in."""
    return f"Successfully started standby container {standby_id} on host {host}"


def standby_start_failed(standby_id: str, host: str) -> str:
    """The standby that was asked for isn't there."""
    return f"failed to start standby container {standby_id} on host {host}; it is given up"


def standby_stopped(standby_id: str) -> str:
    """Its process was seen dead, and it isn't wanted any more."""
    return f"Successfully stopped and removed standby container {standby_id}"


def committed(uuid: str) -> str:
    """The reserved action goes on."""
    return f"Request {uuid} goes on"


def ended_for(uuid: str, *, released: bool) -> str:
    """The request that a cancel or release was about has ended."""
    return f"Request {uuid} is {'released' if released else 'cancelled'}"


def not_under_way(uuid: str) -> str:
    """What a commit, release or cancel is about has ended, or never was."""
    seen = f"request {uuid} is neither queued nor in flight"
    return refusal("request-under-way", seen, "name one that is, or ask anew")


def nothing_reserved(uuid: str) -> str:
    """It is queued: nobody knows yet whether there will be anything to commit."""
    return refusal(
        "reserved-before-commit", f"request {uuid} is queued", "commit it once it is reserved"
    )


def no_commit(uuid: str, stage: str, *, hold: bool) -> str:
    """It was asked without a hold, or its reservation isn't held any more."""
    change = "wait for its end" if hold else "ask with hold for one that waits"
    return refusal("held-for-commit", f"request {uuid} is {stage}, it waits for no commit", change)


def too_late(uuid: str, stage: str, seen: str, change: str) -> str:
    """Something was begun with a container: `seen` says what, `change` how it is undone."""
    return refusal("not-yet-touched", f"request {uuid} is {stage}: too late, {seen}", change)


def how_far_behind(records: int | None) -> str:
    """Of a standby, by its last sample; None: there is none."""
    if records is None:
        return "how far behind is unknown"
    return f"{records} records behind when it was last measured"


def cold_start(standbys: Iterable[str]) -> str:
    """Why an active with standbys starts where none has its state, and what is known of each."""
    return f"any host: no standby's place was to be had ({'; '.join(standbys)})"
