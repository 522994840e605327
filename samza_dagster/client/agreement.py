"""How far the processors of a standalone group agree: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Agreement:
    """Of a group at one reading.

    `leader` is the processor that leads, None where nobody is registered. `version` is the newest
    JobModel, `agreed` the newest that all had joined; `awaited` are those that the newest one waits for,
    `twice` the ids that two processors have, for which no version is made.
    `registrations` is the number that ZooKeeper gave each processor's node: another one each time that it
    registers. `silent_ms` is how long active tasks that stayed at a processor were without a container at its
    newest change; 0 where theirs ran on.
    """

    leader: str | None
    version: int
    agreed: int
    awaited: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    registrations: Mapping[str, str] = field(default_factory=dict[str, str])
    silent_ms: Mapping[str, int] = field(default_factory=dict[str, int])
