"""One thing that may happen in a virtual world: what kind it is, and to whom."""

from __future__ import annotations

from typing import NamedTuple

Id = str | int


class Move(NamedTuple):
    """A label that stays the same when other moves around it are left out.

    Processes are named by host and processor, messages by host and place in the queue.
    """

    kind: str
    ids: tuple[Id, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, (self.kind, *self.ids)))
