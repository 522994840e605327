"""What `auto_failover` remembers from one look to the next: small, versioned, bounded. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

VERSION = 1
MOST_SUSPECTS = 100
MOST_TRENDS = 300
MOST_ACTED = 1_000
MOST_TOLD = 500
MOST_MEMBERS = 50
SAME_LOOK_MS = 500
"""Two looks closer together than this count once."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that looked bad. `members`: (processor, incarnation) that it is about.

    `bad_ms` are the newest bad looks, `good` counts the good ones since. `confirmed`: bad
    often enough that it counts. `kind` is the signal, `subject` a host, a processor or the
    coordinator.
    """

    kind: str
    subject: str
    members: tuple[tuple[str, str], ...]
    since_ms: int
    bad_ms: tuple[int, ...]
    good: int = 0
    confirmed: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Trend:
    """How one container has been going, kept only while something is odd about it.

    Times are when a value was first seen as it is: `silent_ms` no report, `moved_ms` the
    committed offset, `stood_ms` the applied one, `down_ms` not running; None: not so.
    `moves` counts commits since it is followed, `growths` those in turn at which the backlog
    was larger than at the one before, `grows_ms` is when the last was at which it wasn't.
    """

    incarnation: str
    silent_ms: int | None = None
    down_ms: int | None = None
    committed: int | None = None
    moved_ms: int = 0
    backlog: int = 0
    growths: int = 0
    moves: int = 0
    applied: int | None = None
    stood_ms: int = 0
    end: int = 0
    grows_ms: int = 0


@dataclass(frozen=True, slots=True)
class Acted:
    """A request that was asked: it blocks its group until it is acknowledged."""

    uuid: str
    group: str
    processor: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class LeaderMark:
    """The leader's last sign of life as it was seen, and since when it hasn't changed.

    `alive_ms` is the latest time at which it is known to have lived: by the look before the
    change, or by its own clock.
    """

    epoch: int
    beat_ms: int
    mark: int
    seen_ms: int
    alive_ms: int


@dataclass(frozen=True, slots=True)
class Memory:
    """All of it. `told`: id of what was reported → when; `acks`: group → its last acknowledgement.

    `looks` counts the looks it comes from: of two memories the one with more is the newer,
    whatever the clock did.
    """

    job: str
    looked_ms: int = 0
    suspects: Mapping[str, Suspect] = field(default_factory=dict[str, Suspect])
    trends: Mapping[str, Trend] = field(default_factory=dict[str, Trend])
    acted: tuple[Acted, ...] = ()
    told: Mapping[str, int] = field(default_factory=dict[str, int])
    leader: LeaderMark | None = None
    acks: Mapping[str, int] = field(default_factory=dict[str, int])
    looks: int = 0

    def to_text(self) -> str:
        """As the cursor keeps it."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def read(cls, text: str | None, job: str) -> Memory | None:
        """The memory of this job; None for a fresh cursor, another job's or one not understood."""
        if not text:
            return None
        try:
            data: Any = json.loads(text)
            if data["version"] != VERSION or data["job"] != job:
                return None
            leader = data["leader"]
            return cls(
                job=job,
                looked_ms=int(data["looked_ms"]),
                suspects={key: _suspect(s) for key, s in data["suspects"].items()},
                trends={key: Trend(**t) for key, t in data["trends"].items()},
                acted=tuple(Acted(**a) for a in data["acted"]),
                told={str(key): int(at) for key, at in data["told"].items()},
                leader=None if leader is None else LeaderMark(**leader),
                acks={str(group): int(at) for group, at in data["acks"].items()},
                looks=int(data.get("looks", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def bounded(self) -> Memory:
        """The same within its bounds: the newest are kept."""
        told = sorted(self.told.items(), key=lambda item: item[1])[-MOST_TOLD:]
        acted = sorted(self.acted, key=lambda a: (a.at_ms, a.uuid))[-MOST_ACTED:]
        return Memory(
            self.job,
            self.looked_ms,
            dict(sorted(self.suspects.items())[:MOST_SUSPECTS]),
            dict(sorted(self.trends.items())[:MOST_TRENDS]),
            tuple(acted),
            dict(told),
            self.leader,
            dict(sorted(self.acks.items(), key=lambda item: item[1])[-MOST_ACTED:]),
            self.looks,
        )


def _suspect(data: Mapping[str, Any]) -> Suspect:
    fields = dict(data)
    members = cast("list[list[str]]", fields["members"])
    fields["members"] = tuple((m[0], m[1]) for m in members)
    fields["bad_ms"] = tuple(fields["bad_ms"])
    return Suspect(**fields)
