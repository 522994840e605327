"""What the sensor `placement_responses` remembers of requests that have no end yet. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.watching_ports import ActionView, JobView

Status = tuple[str, str, int]
"""Status, message, ms since the epoch."""
MOST_REQUESTS = 300
MOST_STATUSES = 12
MOST_NAMED = 5_000
_MARK_BYTES = 6


@dataclass(frozen=True)
class InFlight:
    """`statuses`: request → what was read of it, oldest first.

    `named` has the `mark` of each request that was named as being without an end.
    """

    statuses: Mapping[str, tuple[Status, ...]] = field(
        default_factory=dict[str, tuple[Status, ...]]
    )
    named: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """For the cursor."""
        return {
            "statuses": {uuid: [list(s) for s in told] for uuid, told in self.statuses.items()},
            "named": _joined(self.named),
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
                _split(data["named"]),
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

    def is_named(self, uuid: str) -> bool:
        """Whether this request was named."""
        return mark(uuid) in self.named

    def with_named(self, uuids: Iterable[str]) -> InFlight:
        """With these requests named."""
        return replace(self, named=self.named | {mark(uuid) for uuid in uuids})

    def named_among(self, view: JobView) -> InFlight:
        """Without the names of requests that the job has no more: they came to an end."""
        if not self.named:
            return self
        there = {mark(action.uuid) for action in (*view.actions, *view.queued)}
        return replace(self, named=self.named & there)

    def room_to_name(self, most: int) -> int:
        """How many may be named now, `most` at most.

        Nobody's name is given up for another's, which would be named again then: one that finds
        no room is named when others have ended.
        """
        return max(0, min(most, MOST_NAMED - len(self.named)))


def mark(uuid: str) -> str:
    """What a request is known by where there may be thousands: two alike are a matter of 2⁻⁴⁸."""
    return hashlib.blake2b(uuid.encode(), digest_size=_MARK_BYTES).hexdigest()


def without_end(
    view: JobView, known: InFlight, *, now_ms: int, after_ms: int
) -> Sequence[ActionView]:
    """Requests that wait or are acted on for longer than `after_ms` and weren't named yet."""
    return [
        action
        for action in (*view.actions, *view.queued)
        if now_ms - action.since_ms > after_ms and not known.is_named(action.uuid)
    ]


def _joined(marks: Iterable[str]) -> str:
    return base64.b64encode(bytes.fromhex("".join(sorted(marks)))).decode()


def _split(text: object) -> frozenset[str]:
    """What `_joined` made; an older release kept the requests themselves."""
    if isinstance(text, dict):
        return frozenset(mark(str(uuid)) for uuid in cast("dict[str, Any]", text))
    told = base64.b64decode(str(text), validate=True).hex()
    size = 2 * _MARK_BYTES
    return frozenset(told[at : at + size] for at in range(0, len(told), size))
