"""With which settings a coordinator is started, and which of them hold in its term.

As `coordinator/leadership.py` has it: of a deployment that goes on, a coordinator may bring
other settings of its own (`samza.dagster.*`, which no container reads); those that
containers see too (`cluster-manager.*`, host affinity, the logins of a broker fence) make
another config, which is another deployment. A spare with such a config is refused.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from samza_dagster.placement.logins import launched_without
from samza_dagster.placement.state import Fencing, JobState, Limits

FAULT_DOMAINS = "fault_domains"
"""Whether what agents tell of their fault domain counts: no limit of the reducer, which is told none then."""

OWN: dict[str, tuple[int | str | bool, ...]] = {
    "start_timeout_ms": (20_000, 60_000),
    "host_timeout_ms": (10_000, 30_000),
    "lease_ms": (15_000, 30_000, 60_000),
    "lease_bound_ms": (3_000, 4_000, 10_000),
    "max_concurrent_starts": (1, 2, 4),
    "max_concurrent_actions": (1, 2, 8),
    "max_actions_per_host": (1, 2),
    "max_standbys": (0, 1, 2),
    "remembered_uuids": (20_000, 20_000, 4),
}
"""What a restart may change, and what histories change it to; times in ms."""

DEPLOYED: dict[str, tuple[int | str | bool, ...]] = {
    "container_memory_mb": (384, 256, 512),
    "container_cores": (1, 1, 2),
    "request_timeout_ms": (5_000, 2_000, 12_000),
    "retry_count": (0, 1, 8),
    "retry_window_ms": (300_000, 20_000),
    "host_affinity": (True, False),
    "fencing": ("lease", "broker"),
    FAULT_DOMAINS: (True, True, False),
}
"""What only a deployment changes besides."""


def changed(limits: Limits, changes: str) -> Limits:
    """The limits with `changes`: `max_standbys=1 host_affinity=False`, a word for each setting.

    Raises `ValueError` for a setting that there isn't.
    """
    known = {field.name for field in fields(Limits)}
    values: dict[str, Any] = {}
    for word in changes.split():
        name, _, text = word.partition("=")
        if name == FAULT_DOMAINS:
            continue
        if name not in known:
            raise ValueError(f"no setting {name!r}")
        values[name] = _like(getattr(limits, name), text)
    return replace(limits, **values)


def heeds_fault_domains(before: bool, changes: str) -> bool:
    """With `changes` by one who takes over from a coordinator that did, or didn't."""
    given = dict(word.split("=") for word in changes.split())
    return before if FAULT_DOMAINS not in given else given[FAULT_DOMAINS] == "True"


def _like(value: object, text: str) -> object:
    """The text as a value of the same kind."""
    match value:
        case bool():
            return text == "True"
        case Fencing():
            return Fencing(text)
        case _:
            return int(text)


def is_own(changes: str) -> bool:
    """Whether a coordinator with these changes may go on with the deployment that there is."""
    return all(word.partition("=")[0] in OWN for word in changes.split())


def in_force(
    own: Limits, stored: JobState, *, lease_before_ms: int, logins: frozenset[str]
) -> Limits:
    """What a term goes by that is started with `own` settings on this state.

    An earlier leader's lease may still run, so the longer one counts (`LeaseTerms`). A fence
    means nothing to a container without a login of its own: leases count while there is
    one (`fencing_in_force`).
    """
    fencing = Fencing.LEASE if launched_without(stored, logins) else own.fencing
    return replace(own, lease_ms=max(own.lease_ms, lease_before_ms), fencing=fencing)
