"""What `auto_failover` remembers from one look to the next: small, versioned, bounded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from samza_dagster.lag import Heard
from samza_dagster.orchestration.versioned import Versioned
from samza_dagster.orchestration.watch.hysteresis import Evidence

MOST_SUSPECTS = 100
ROOM_FOR_NEW = 30
"""Of these, places that those which aren't confirmed yet have before those which are."""
MOST_ACTED = 1_000
MOST_REPORTED = 500
MOST_MEMBERS = 50
HOST_SICK = "host-sick"
HOST_LOST = "host-lost"
COORDINATOR_GONE = "coordinator-gone"
JOB_DEAD = "job-dead"
COORDINATOR_REPLACED = "coordinator-replaced"
SILENT = "silent"
FALLING_BEHIND = "falling-behind"
STANDBY_STALLED = "standby-stalled"
STANDBY_DOWN = "standby-down"
FLAPPING = "flapping"
OF_NO_CONTAINER = (COORDINATOR_GONE, COORDINATOR_REPLACED, JOB_DEAD)
OF_A_HOST = (HOST_SICK, HOST_LOST)
_WIDE = (*OF_NO_CONTAINER, *OF_A_HOST)
_ONLY_REPORTED = (STANDBY_DOWN, FLAPPING)


@dataclass(frozen=True, slots=True)
class Suspect(Evidence):
    """Something that looked bad. `members`: (processor, incarnation) that it is about.

    `kind` is the signal, `subject` a host, a processor or the coordinator. `told`: it was reported, so its end will be. `after_ms` is when the end of the
    same trouble was reported that was there before; 0: of none is known.

    What became of it, whoever did it: `was` are host, reporting incarnation and deployment as it
    began (empty: not known), `became` what has taken their place and `became_ms` when that was seen
    first, `asked`: a request for it was in flight before that, `same`: the same process is there as
    then. `well_ms` is the first of the good looks.
    """

    kind: str
    subject: str
    members: tuple[tuple[str, str], ...]
    why: str = ""
    reported: bool = False
    after_ms: int = 0
    was: tuple[str, str, str] = ("", "", "")
    became: str = ""
    became_ms: int = 0
    asked: bool = False
    same: bool = False
    well_ms: int = 0

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return _suspect_key(self.kind, self.subject, self.members)


def _suspect_key(kind: str, subject: str, members: tuple[tuple[str, str], ...]) -> str:
    """What a trouble is remembered by: of a processor, a new incarnation is a new suspect."""
    of = () if kind in OF_A_HOST else (incarnation for _, incarnation in members)
    return "|".join((kind, subject, *of))


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that looks bad now."""

    kind: str
    subject: str
    members: tuple[tuple[str, str], ...]
    why: str

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return _suspect_key(self.kind, self.subject, self.members)


def weight(kind: str) -> int:
    """Of a signal: 0 concerns many containers, 1 can be acted on, 2 can only be told."""
    return 0 if kind in _WIDE else 2 if kind in _ONLY_REPORTED else 1


def urgency(suspect: Suspect) -> tuple[int, bool, int, str]:
    """Sorts by weight, then what counts first, then what lasts longest."""
    return weight(suspect.kind), not suspect.confirmed, suspect.since_ms, suspect.key


@dataclass(frozen=True, slots=True)
class Trend:
    """How one container has been going, kept only while something is odd about it.

    `incarnation` is the checksum of its execution id, or of its host where none is known.

    Times are when a value was first seen as it is: `silent_ms` no report, `moved_ms` the
    committed offset, `stood_ms` the applied one, `down_ms` not running; None: not so.
    `moves` counts commits since it is followed, `growths` those in turn at which the backlog
    was larger than at the one before, `grows_ms` is when the last was at which it wasn't.
    """

    incarnation: int
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

    def by_clock(self, now_ms: int) -> Trend:
        """The same by a clock that was set back: nothing began later than now."""
        return replace(
            self,
            silent_ms=None if self.silent_ms is None else min(self.silent_ms, now_ms),
            down_ms=None if self.down_ms is None else min(self.down_ms, now_ms),
            moved_ms=min(self.moved_ms, now_ms),
            stood_ms=min(self.stood_ms, now_ms),
            grows_ms=min(self.grows_ms, now_ms),
        )


@dataclass(frozen=True, slots=True)
class Acted:
    """A request that was asked: it blocks its group until it is acknowledged.

    `ack` is the group's last acknowledgement at the time, empty: there was none. Any other one
    is about this request, whatever the clock of whoever wrote it says. `cap_ms` is when it was by a
    clock that the sensor has had since, as far as that can be told; 0: by the same one.
    """

    uuid: str
    group: str
    processor: str
    at_ms: int
    ack: str = ""
    cap_ms: int = 0

    @property
    def counts_ms(self) -> int:
        """When it was, for the cap of the hour."""
        return self.cap_ms or self.at_ms

    def is_acknowledged(self, acks: Mapping[str, str]) -> bool:
        """By the last acknowledgement of each group."""
        return acks.get(self.group, self.ack) != self.ack


@dataclass(frozen=True, slots=True)
class LeaderMark:
    """The leader's last sign of life, and when it was first seen, by the clock of who looks."""

    epoch: int
    beat_ms: int
    mark: int
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Memory(Versioned):
    """All of it. `told`: id of what was reported → when; `acks`: group → its last acknowledgement.

    `trends` has one for each odd container, however many there are. `lost`: lost host → since
    when, 0: for long. `looks` counts the looks it comes from: of two memories the one with more is the newer,
    whatever the clock did. `left_out` counts what looked bad at the last look and found no room.
    `read_to` is how far Dagster's events were read; -1: not known. `heard`: container and
    incarnation → its newest report as it was seen last, `committed` the job's commits. `clock` is what
    the times are by.
    Under Samza's AM `deployment` is the running one, and `deployment_ms` when it was
    first seen in place of another; 0: it was the first.
    """

    VERSION: ClassVar[int] = 3

    job: str
    looked_ms: int = 0
    suspects: Mapping[str, Suspect] = field(default_factory=dict[str, Suspect])
    trends: Mapping[str, Trend] = field(default_factory=dict[str, Trend])
    acted: tuple[Acted, ...] = ()
    reported: Mapping[str, int] = field(default_factory=dict[str, int])
    leader: LeaderMark | None = None
    acks: Mapping[str, str] = field(default_factory=dict[str, str])
    looks: int = 0
    lost: Mapping[str, int] = field(default_factory=dict[str, int])
    left_out: int = 0
    read_to: int = -1
    heard: Mapping[str, Heard] = field(default_factory=dict[str, Heard])
    committed: Heard | None = None
    clock: str = ""
    deployment: str = ""
    deployment_ms: int = 0

    def bounded(self) -> Memory:
        """The same within its bounds: the newest are kept, of suspects those with most to tell."""
        reported = sorted(self.reported.items(), key=lambda item: item[1])[-MOST_REPORTED:]
        acted = sorted(self.acted, key=lambda a: (a.at_ms, a.uuid))[-MOST_ACTED:]
        return replace(
            self,
            suspects=_with_most_to_tell(self.suspects),
            acted=tuple(acted),
            reported=dict(reported),
            acks=dict(list(self.acks.items())[-MOST_ACTED:]),
        )

    def by_another_clock(self, now_ms: int) -> Memory:
        """The same where the clock is another one from now on: what lasts begins to last anew.

        What was asked before the last look is as long ago as it was then.
        """
        later_ms = now_ms - self.looked_ms
        acted = tuple(replace(a, cap_ms=a.counts_ms + later_ms) for a in self.acted)
        fresh = replace(self, trends={}, heard={}, committed=None, leader=None)
        return replace(fresh, acted=acted, deployment_ms=0)


def _with_most_to_tell(suspects: Mapping[str, Suspect]) -> dict[str, Suspect]:
    """As many as there is room for: what was told leaves its place to what wasn't.

    Some places are for those that aren't confirmed: however many stand, a new one comes that far.
    """

    def order(suspect: Suspect) -> tuple[bool, bool, int, int, str]:
        kind = weight(suspect.kind)
        return kind > 0, suspect.reported, kind, suspect.since_ms, suspect.key

    if len(suspects) <= MOST_SUSPECTS:
        return dict(sorted(suspects.items(), key=lambda s: urgency(s[1])))
    confirmed = sorted((s for s in suspects.values() if s.confirmed), key=order)
    new = sorted((s for s in suspects.values() if not s.confirmed), key=order)
    room = MOST_SUSPECTS - min(len(new), ROOM_FOR_NEW)
    kept = [*confirmed[:room], *new][:MOST_SUSPECTS]
    return {s.key: s for s in sorted(kept, key=urgency)}
