"""A client of a stepped job (`stepped_job`): its waits are what the coordinator goes on by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from samza_dagster.client import PlacementClient
from samza_dagster.client.responses import terminal
from samza_dagster.errors import DeadlineExceeded
from samza_dagster.model import PlacementResponse
from tests.rig.worker import Killed, Worker

if TYPE_CHECKING:
    from tests.rig.stepped_job import SteppedJob

_FOR_EVER_S = 1e6
_FOR_EVER_MS = 10**9


@dataclass
class Wait:
    """A client waits for a request; `untaken` statuses of it were given and not yet taken."""

    world: SteppedJob
    uuid: str
    untaken: int

    def goes_on(self) -> float:
        """After a look the next status of it comes, once the one before is taken.

        Returns the seconds that it takes: for ever where there will be none.
        """
        world = self.world
        if self.untaken:
            return 0.0
        world.breaks_at("wait")
        if self.uuid in world.forgotten or world.go_on(self.uuid) is None:
            return _FOR_EVER_S
        self.untaken += 1
        return world.status_s

    def taken(
        self, response: PlacementResponse, until: Callable[[PlacementResponse], bool]
    ) -> bool:
        """Whether it is the one that was waited for."""
        world, said = self.world, response.response_message
        self.untaken = max(0, self.untaken - 1)
        if said.startswith("Reserved"):
            world.breaks_at("held")
        if terminal(response):
            world.goes_away(said)
        if until(response):
            return True
        world.breaks_at(said)
        return False


class SteppedClient(Worker):
    """Tells the job which request is waited for, and what of it was taken."""

    def __init__(self, client: PlacementClient, world: SteppedJob) -> None:
        super().__init__(client, world.calls)
        self._world = world

    @classmethod
    def of(cls, client: PlacementClient, world: SteppedJob) -> PlacementClient:
        """As the product sees it."""
        return cast("PlacementClient", cls(client, world))

    def close(self) -> None:
        super().close()
        self._world.closed += 1

    def response(self, uuid: str) -> PlacementResponse | None:
        """A look at a request: by who looks often enough the next status comes."""
        world = self._world
        found = self._call("response", uuid)
        is_open = uuid in world.requests and uuid not in {*world.forgotten, *world.dropped}
        if not is_open or (found is not None and terminal(found)):
            return found
        world.looked_at[uuid] += 1
        if world.looked_at[uuid] < world.goes_on_after:
            return found
        world.looked_at[uuid] = 0
        try:
            self._breaks_at("wait" if found is None else found.response_message)
        except DeadlineExceeded:  # more time has passed than anybody waits
            world.late_ms += _FOR_EVER_MS
            return found
        world.pass_by(world.status_s)
        newest = world.go_on(uuid)
        if newest is None:
            return found
        if newest.response_message.startswith("Reserved"):
            self._breaks_at("held")
        if terminal(newest):
            world.goes_away(newest.response_message)
        return newest

    def _breaks_at(self, where: str) -> None:
        try:
            self._world.breaks_at(where)
        except Killed:
            self._killed = True
            raise

    def wait(
        self,
        uuid: str,
        until: Callable[[PlacementResponse], bool] = terminal,
        on_look: Callable[[float], object] = lambda _: None,
        **named: Any,
    ) -> PlacementResponse:
        given = len(self._world.answers.get(uuid, ()))
        self._world.looked_at[uuid] = 0
        wait = Wait(self._world, uuid, given if self._client.wrote(uuid) else min(1, given))

        def look(left_s: float) -> None:
            on_look(left_s)
            self._world.pass_by(wait.goes_on())

        return self._call("wait", uuid, until=lambda r: wait.taken(r, until), on_look=look, **named)
