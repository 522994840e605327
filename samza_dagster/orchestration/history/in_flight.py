"""What the sensor `placement_responses` remembers of requests that have no end yet. Pure."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.history.asked import OpenRequest, asked_in, asked_of, seen_at
from samza_dagster.orchestration.history.packing import Status, joined, packed, split, unpacked

if TYPE_CHECKING:
    from samza_dagster.client import JobView

MOST_REQUESTS = 3_000
MOST_STATUSES = 12
MOST_MESSAGE = 300
"""Characters of a status's message that are kept."""
MOST_BYTES = 120_000
"""Of all statuses, packed: three of each of `MOST_REQUESTS` take some 100 kB."""
MOST_FORGOTTEN = 5_000
MOST_NAMED = 5_000
LONGEST_MS = 86_400_000
CLOCKS_APART_MS = 60_000
ANSWER_MS = 5_000
"""A reservation that has run out is answered and read within this time."""
ANSWER_OF_NEXT_MS = 30_000
"""A coordinator that has begun a deployment has answered what was asked of the one before."""
_EXPIRIES = {"reserving-standby": 1, "reserving": 1, "held": 2, "accepted": 1, "in_progress": 1}
"""Stages that a request's own time-out bounds, and how many of them: a hold comes after a
reservation. Samza's AM doesn't tell a stage, but its last status and since when."""
_MARK_BYTES = 6
_FEWER = (MOST_STATUSES, 4, 2)


@dataclass(frozen=True)
class InFlight:
    """`statuses`: request → what was read of it, oldest first.

    `named` has the `mark` of each request that was named as being without an end, `forgotten`
    that of each whose statuses found no room. `asked` are requests that were in flight or waited
    when they were seen last, and since when by the observer's `clock`. `blind`: from when to when a request may have
    begun of which even that was given up; what is first read of it then may be no beginning.
    """

    statuses: Mapping[str, tuple[Status, ...]] = field(
        default_factory=dict[str, tuple[Status, ...]]
    )
    named: frozenset[str] = frozenset()
    forgotten: tuple[str, ...] = ()
    blind: tuple[int, int] = (0, 0)
    asked: Mapping[str, OpenRequest] = field(default_factory=dict[str, OpenRequest])
    clock: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the cursor."""
        return {
            "packed": self.as_packed(),
            "named": joined(sorted(self.named)),
            "forgotten": joined(self.forgotten),
            "blind": list(self.blind),
            "clock": self.clock,
        }

    @classmethod
    def of(cls, value: object) -> InFlight:
        """From the cursor; empty where it has none, or none that can be read."""
        try:
            data = cast("dict[str, Any]", value)
            if "statuses" in data:  # an older release kept requests as they are
                statuses = {
                    uuid: tuple((str(s), str(m), int(at)) for s, m, at in told)
                    for uuid, told in data["statuses"].items()
                }
                return cls(statuses).with_named(data["named"])
            begin_ms, end_ms = data["blind"]
            statuses, asked = unpacked(data["packed"])
            return cls(
                statuses,
                frozenset(split(data["named"], _MARK_BYTES)),
                tuple(split(data["forgotten"], _MARK_BYTES)),
                (int(begin_ms), int(end_ms)),
                asked,
                str(data["clock"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError, zlib.error):
            return cls()

    def seen(self, responses: Iterable[PlacementResponse]) -> InFlight:
        """With these statuses, each once, however many; a cursor takes what is `bounded`."""
        statuses, asked = dict(self.statuses), dict(self.asked)
        for response in responses:
            if not response.status_code.is_terminal:
                asked[response.uuid] = seen_at(asked_of(response), asked.get(response.uuid), 0)
            status: Status = (
                response.status_code.value,
                response.response_message[:MOST_MESSAGE],
                response.timestamp,
            )
            before = statuses.pop(response.uuid, ())
            told = before if status in before else (*before, status)
            statuses[response.uuid] = _cut(told, MOST_STATUSES)
        return replace(self, statuses=statuses, asked=asked)

    def is_whole(self, uuid: str) -> bool:
        """Whether the first status that is known of a request is the first that was read of it."""
        if mark(uuid) in self.forgotten or uuid not in self.statuses:
            return False
        begin_ms, end_ms = self.blind
        return not begin_ms <= self.statuses[uuid][0][2] < end_ms

    def ended(self, uuids: Iterable[str]) -> InFlight:
        """Without these requests."""
        gone = set(uuids)
        marks = {mark(uuid) for uuid in gone} if self.forgotten else set[str]()
        return replace(
            self,
            statuses={u: s for u, s in self.statuses.items() if u not in gone},
            asked={u: a for u, a in self.asked.items() if u not in gone},
            forgotten=tuple(m for m in self.forgotten if m not in marks),
        )

    def bounded(self) -> InFlight:
        """What a cursor has room for: fewer statuses between a request's first and its last ones.

        Where that isn't enough the requests without news for longest are forgotten.
        """
        kept = self.newest(MOST_REQUESTS)
        for most in _FEWER:
            statuses = {uuid: _cut(told, most) for uuid, told in kept.statuses.items()}
            kept = replace(kept, statuses=statuses)
            if len(kept.as_packed()) <= MOST_BYTES:
                return kept
        while len(kept.as_packed()) > MOST_BYTES:
            kept = kept.newest(len({*kept.statuses, *kept.asked}) * 3 // 4)
        return kept

    def as_packed(self) -> str:
        """Statuses and what was asked, as the cursor keeps them."""
        return packed(self.statuses, self.asked)

    def newest(self, most: int) -> InFlight:
        """With as many requests, those of which there was news last; the others are forgotten.

        Those that have no status yet come last.
        """
        if len(self.statuses) <= most:
            left = most - len(self.statuses)
            waiting = sorted(
                (a for a in self.asked.values() if a.uuid not in self.statuses),
                key=lambda a: a.since_ms,
            )
            gone = {a.uuid for a in waiting[: max(0, len(waiting) - left)]}
            return replace(self, asked={u: a for u, a in self.asked.items() if u not in gone})
        items = list(self.statuses.items())
        kept = dict(items[len(items) - most :])
        gone = [mark(uuid) for uuid, _ in items[: len(items) - most]]
        forgotten = tuple(dict.fromkeys((*self.forgotten, *gone)))
        blind = self.blind
        if len(forgotten) > MOST_FORGOTTEN:
            forgotten = forgotten[-MOST_FORGOTTEN:]
            now_ms = max(told[-1][2] for told in self.statuses.values())
            # Still blind from an earlier time: that goes on.
            begin_ms = blind[0] if now_ms < blind[1] else now_ms - CLOCKS_APART_MS
            blind = (begin_ms, now_ms + LONGEST_MS)
        asked = {uuid: a for uuid, a in self.asked.items() if uuid in kept}
        return replace(self, statuses=kept, asked=asked, forgotten=forgotten, blind=blind)

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
        there |= {mark(uuid) for uuid in self.asked}
        return replace(self, named=self.named & there)

    def by_clock(self, clock: str) -> InFlight:
        """The same by this clock: where it is another one, what lasts begins to last anew."""
        if clock == self.clock:
            return self
        asked = {uuid: replace(one, seen_ms=0, over_ms=0) for uuid, one in self.asked.items()}
        return replace(self, asked=asked, clock=clock)

    def followed_in(self, view: JobView, now_ms: int) -> InFlight:
        """With what the job is at now; requests that have no end to come are marked so."""
        now = {one.uuid: seen_at(one, self.asked.get(one.uuid), now_ms) for one in asked_in(view)}
        before = {
            uuid: replace(one, over_ms=(one.over_ms or now_ms) if is_over else 0)
            for uuid, one in self.asked.items()
            if uuid not in now
            for is_over in [view.why_over(one.deployment_id)]
        }
        return replace(self, asked={**before, **now})

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
) -> Sequence[OpenRequest]:
    """Requests that should have ended by now and weren't named yet; see `patience_ms`.

    What counts is since when the observer has seen them without news.
    """
    there = (known.asked.get(action.uuid) for action in (*view.actions, *view.queued))
    return [
        one
        for one in there
        if one is not None
        and now_ms - one.seen_ms > patience_ms(one, after_ms)
        and not known.is_named(one.uuid)
    ]


def without_answer(known: InFlight, *, now_ms: int, after_ms: int) -> Sequence[OpenRequest]:
    """Requests whose deployment ended before they were answered.

    Their time-out counts anew from then: our coordinator answers them when the next one begins.
    """
    return [
        one
        for one in known.asked.values()
        if one.over_ms and now_ms - one.over_ms > max(patience_ms(one, after_ms), ANSWER_OF_NEXT_MS)
    ]


def patience_ms(action: OpenRequest, after_ms: int) -> int:
    """How long a request may take to end.

    Its own time-out, where it tells one and that is what it waits for; `after_ms` where it
    doesn't. In the queue and once its container is stopped: the longer of the two.
    """
    if action.expiry_ms is None:
        return after_ms
    times = _EXPIRIES.get(action.stage)
    if times is None:
        return max(after_ms, action.expiry_ms)
    return times * action.expiry_ms + ANSWER_MS


def _cut(told: tuple[Status, ...], most: int) -> tuple[Status, ...]:
    """The first status, by which its time is known, and the last ones."""
    return told if len(told) <= most else (told[0], *told[len(told) - most + 1 :])
