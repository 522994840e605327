"""What the sensor `placement_responses` remembers of requests that have no end yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.watching_ports import ActionView, JobView

Status = tuple[str, str, int]
"""Status, message, ms since the epoch."""
MOST_REQUESTS = 300
MOST_STATUSES = 12
MOST_NAMED = 500


@dataclass(frozen=True)
class InFlight:
    """`statuses`: request → what was read of it, oldest first. `named`: request → when it was named."""

    statuses: Mapping[str, tuple[Status, ...]] = field(
        default_factory=dict[str, tuple[Status, ...]]
    )
    named: Mapping[str, int] = field(default_factory=dict[str, int])

    def to_json(self) -> dict[str, Any]:
        """For the cursor."""
        return {
            "statuses": {uuid: [list(s) for s in told] for uuid, told in self.statuses.items()},
            "named": dict(self.named),
        }

    @classmethod
    def of(cls, value: object) -> InFlight:
        """From the cursor; empty where it has none, or none that can be read."""
        try:
            data = cast("dict[str, Any]", value)
            return cls(
                {
                    uuid: tuple((str(s), str(m), int(at)) for s, m, at in told)
                    for uuid, told in data["statuses"].items()
                },
                {str(uuid): int(at) for uuid, at in data["named"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()

    def seen(self, responses: Iterable[PlacementResponse]) -> InFlight:
        """With these statuses, each once; of the requests the newest are kept."""
        statuses = dict(self.statuses)
        for response in responses:
            status: Status = (
                response.status_code.value,
                response.response_message,
                response.timestamp,
            )
            before = statuses.pop(response.uuid, ())
            told = before if status in before else (*before, status)
            statuses[response.uuid] = (*told[:1], *told[1:][-(MOST_STATUSES - 1) :])
        kept = list(statuses.items())[-MOST_REQUESTS:]
        return InFlight(dict(kept), self.named)

    def ended(self, uuids: Iterable[str]) -> InFlight:
        """Without these requests."""
        gone = set(uuids)
        return InFlight({u: s for u, s in self.statuses.items() if u not in gone}, self.named)

    def with_named(self, uuids: Iterable[str], now_ms: int) -> InFlight:
        """With these requests named."""
        named = {**self.named, **dict.fromkeys(uuids, now_ms)}
        return InFlight(self.statuses, dict(list(named.items())[-MOST_NAMED:]))


def without_end(
    view: JobView, known: InFlight, *, now_ms: int, after_ms: int
) -> Sequence[ActionView]:
    """Requests that wait or are acted on for longer than `after_ms` and weren't named yet."""
    return [
        action
        for action in (*view.actions, *view.queued)
        if now_ms - action.since_ms > after_ms and action.uuid not in known.named
    ]
