"""One thing that may happen in a virtual world: what kind it is, to whom, and how it is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from tests.simulation.hosts import VirtualHost
    from tests.simulation.world_state import WorldState

Id = str | int
P = ParamSpec("P")
Handler = Callable[..., bool]
"""Does a move, given the world and the move's ids; False, and nothing happened, when it can't be done now."""


class Move(NamedTuple):
    """A label that stays the same when other moves around it are left out.

    Processes are named by host and processor, messages by host and place in the queue.
    """

    kind: str
    ids: tuple[Id, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, (self.kind, *self.ids)))


def at_host(
    when: Callable[[VirtualHost], bool],
) -> Callable[[Callable[Concatenate[WorldState, VirtualHost, P], bool | None]], Handler]:
    """A move at the host that its first id names, which can be done while `when` holds of it.

    What is decorated returns False where it did nothing after all.
    """

    def decorate(do: Callable[Concatenate[WorldState, VirtualHost, P], bool | None]) -> Handler:
        @wraps(do)
        def handler(world: WorldState, name: str, *ids: P.args, **more: P.kwargs) -> bool:
            host = world.hosts.get(name)
            return host is not None and when(host) and do(world, host, *ids, **more) is not False

        return handler

    return decorate


def by_leader(do: Callable[Concatenate[WorldState, P], bool | None]) -> Handler:
    """A move that takes a leader which decides; what is decorated returns False as above."""

    @wraps(do)
    def handler(world: WorldState, *ids: P.args, **more: P.kwargs) -> bool:
        return world.led() and do(world, *ids, **more) is not False

    return handler
