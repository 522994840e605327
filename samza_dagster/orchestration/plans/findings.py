"""What a reconciliation tells and doesn't ask for: who does, and what a person may do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samza_dagster.orchestration.moves import LAST_SEEN_STATE, RUNNING

if TYPE_CHECKING:
    from samza_dagster.client import JobView, ProcessorView

_WAIT = "the coordinator starts it by itself; reconcile again, or samza-dagster status says why not"


@dataclass(frozen=True)
class Finding:
    """What isn't as wanted and isn't ours to ask for: seen, and what to do."""

    about: str
    seen: str
    to_do: str


def unwell(view: JobView) -> dict[str, list[Finding]]:
    """Of each group the members that don't run, if any.

    The coordinator starts them by itself, and nothing is asked of their groups meanwhile.
    """
    found: dict[str, list[Finding]] = {}
    for pid, processor in sorted(view.processors.items()):
        if processor.state not in (RUNNING, LAST_SEEN_STATE):
            seen = f"it is {processor.state} on {processor.host or 'no host'}"
            found.setdefault(view.group_of(pid), []).append(Finding(pid, seen, _WAIT))
    return found


def localities(view: JobView) -> list[Finding]:
    """Containers that run elsewhere than the coordinator stream says: its coordinator's to write."""
    return [
        Finding(
            p.processor_id,
            f"it runs on {p.host}, the coordinator stream says {p.last_seen_host}",
            "restart_container writes it anew; after a failover it agrees within seconds",
        )
        for _, p in sorted(view.processors.items())
        if _disagrees(p)
    ]


def _disagrees(processor: ProcessorView) -> bool:
    known, host = processor.last_seen_host, processor.host
    return processor.state == RUNNING and known is not None and host is not None and known != host


def no_host(processor_id: str, why: str) -> Finding:
    """A step that has nowhere to go, by the rules or for want of room."""
    return Finding(
        processor_id,
        f"{why}; no legal host has room for it",
        "one more host that is alive and has no container of its group, nor of its fault domain",
    )
