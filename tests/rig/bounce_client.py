"""The client's interface over a `BounceWorld`.

Each call is counted, so that a run's worker can be killed before or after any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from samza_dagster.client.checkpoints import ProcessorProgress
from samza_dagster.client.plan import Plan, make_plan
from samza_dagster.client.requests import Request
from samza_dagster.client.views import JobView, ReplicaLag
from samza_dagster.errors import Refused
from samza_dagster.lag import NewestReadiness
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode, TaskMode
from samza_dagster.placement import texts
from tests.rig.bounce_world import BEGIN_MS, BounceWorld


class Killed(Exception):
    """The run's worker is gone: from then on nothing that it asks gets anywhere."""


class BounceClient:
    """`PlacementClient` over a `BounceWorld`; what a bounce doesn't need isn't there."""

    def __init__(self, world: BounceWorld) -> None:
        self._world = world
        self._killed = False
        world.opened += 1

    def _called(self, name: str, effect: Callable[[BounceWorld], Any]) -> Any:
        """One call: counted, cut off before or after its effect when it is time for that."""
        world = self._world
        if self._killed:
            raise Killed
        world.calls += 1
        broken = world.breaks.pop(world.calls, None)
        if broken is not None:
            raise broken
        world.of_kind[name] = world.of_kind.get(name, 0) + 1
        last = world.calls == world.kill_at or (name, world.of_kind[name]) == world.kill_on
        self._killed = last
        if last and not world.kill_after:
            raise Killed
        done = effect(world)
        if last:
            raise Killed
        return done

    def prepare(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Nothing to release."""

    def view(self) -> JobView:
        return self._called("view", lambda w: w.view())

    def plan(self, processor_id: str, destination: str, *, beyond_budget: bool = False) -> Plan:
        return self._called(
            "plan",
            lambda w: make_plan(w.view(), processor_id, destination, beyond_budget=beyond_budget),
        )

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
        beyond_budget: bool = False,
        **_: Any,
    ) -> PlacementRequest:
        assert destination == "LAST_SEEN"
        assert uuid is not None

        def write(world: BounceWorld) -> PlacementRequest:
            world.ask(uuid, processor_id, hold=False)
            return PlacementRequest(
                uuid=uuid,
                deployment_id=world.deployment,
                processor_id=processor_id,
                destination_host=destination,
                timestamp=world.requests[uuid].asked_ms,
                request_expiry=None,
            )

        return self._called("place", write)

    def reserve(self, processor_id: str, destination: str, **more: Any) -> Request:
        def write(world: BounceWorld) -> Request:
            assert world.coordinator == "samza_dagster"
            world.ask(more["uuid"], processor_id, hold=True)
            return self._asked(world, more["uuid"])

        return self._called("reserve", write)

    def commit(self, reservation: str, *, uuid: str | None = None) -> Request:
        def write(world: BounceWorld) -> Request:
            world.advance()
            r = world.requests[reservation]
            if r.ended and not r.committed_by:
                raise Refused("commit what is held", seen=r.statuses[-1].response_message)
            assert r.committed_by in ("", uuid), "two commits of one hold"
            if not r.committed_by:
                r.committed_by, r.stop_ms = str(uuid), world.now_ms
            return self._asked(world, reservation)

        return self._called("commit", write)

    def release(self, reservation: str, *, uuid: str | None = None) -> Request:
        def write(world: BounceWorld) -> Request:
            world.advance()
            r = world.requests[reservation]
            assert r.stop_ms is None, "what was stopped can't be given back"
            r.taken = True
            world._end(r, StatusCode.FAILED, texts.RELEASED, world.now_ms)
            world.released.append(r.processor)
            return self._asked(world, reservation)

        return self._called("release", write)

    def wait(self, uuid: str, **_: Any) -> PlacementResponse:
        return self._called("wait", lambda w: w.requests[uuid].statuses[-1])

    def request(self, uuid: str) -> PlacementRequest | None:
        return None

    def own_request(self, uuid: str) -> Request | None:
        """Written and not read yet; also stands for what waits on Samza's wire."""

        def read(world: BounceWorld) -> Request | None:
            world.advance()
            r = world.requests.get(uuid)
            return self._asked(world, uuid) if r is not None and not r.taken else None

        return self._called("own_request", read)

    def response(self, uuid: str) -> PlacementResponse | None:
        def read(world: BounceWorld) -> PlacementResponse | None:
            world.advance()
            r = world.requests.get(uuid)
            told = r is not None and r.statuses and uuid not in world.forgotten
            return r.statuses[-1] if r is not None and told else None

        return self._called("response", read)

    def remembered(self) -> frozenset[str]:
        def read(world: BounceWorld) -> frozenset[str]:
            world.advance()
            return frozenset(u for u, r in world.requests.items() if r.statuses)

        return self._called("remembered", read)

    def history(self, processor_id: str | None = None, *, limit: int | None = None) -> Any:
        def read(world: BounceWorld) -> tuple[PlacementResponse, ...]:
            world.advance()
            there = [r for u, r in world.requests.items() if u not in world.forgotten]
            mine = [r.statuses[-1] for r in there if r.statuses]
            return (*world.earlier, *mine)

        return self._called("history", read)

    def checkpoints_end(self) -> int:
        return self._called("checkpoints_end", lambda world: world.now_ms)

    def processing(self, processor_id: str, since: int) -> ProcessorProgress:
        def read(world: BounceWorld) -> ProcessorProgress:
            started = world.starts.get(processor_id, [BEGIN_MS])[-1]
            done = (
                processor_id not in world.slow
                and processor_id not in world.down()
                and min(world.now_ms, world.idle_since_ms) >= max(started, since) + world.process_ms
            )
            stops = (r.stop_ms or 0 for r in world.requests.values() if r.processor == processor_id)
            # Up to its stop the former incarnation has committed too.
            done = done or since < max(stops, default=0)
            return ProcessorProgress(processor_id, since, done, (), world.now_ms)

        return self._called("processing", read)

    def lag(self) -> tuple[ReplicaLag, ...]:
        def read(world: BounceWorld) -> tuple[ReplicaLag, ...]:
            rows: list[ReplicaLag] = []
            for p in world.at:
                started = world.starts.get(p, [BEGIN_MS])[-1]
                every_ms = world.report_every_ms or 1
                reported = started + (world.now_ms - started) // every_ms * every_ms
                caught_up = reported >= started + world.lag_ms and p not in world.far
                told = p not in world.mute and p not in world.down()
                is_first = world.report_every_ms > 0 and reported == started > BEGIN_MS
                rows.append(
                    ReplicaLag(
                        *(p, f"task {p}", TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE),
                        *("store", "log", 0, world.at[p], 1_000, 0),
                        None if is_first or not told else 0 if caught_up else 1_000,
                        None
                        if is_first or not told
                        else reported + world.skew_ms.get(world.at[p], 0),
                        "metrics",
                        "" if p in world.mute else f"{p}#{len(world.starts.get(p, []))}",
                    )
                )
            return tuple(rows)

        return self._called("lag", read)

    def readiness(self, lags: Collection[ReplicaLag]) -> NewestReadiness:
        return self._world.newest

    def _asked(self, world: BounceWorld, uuid: str) -> Request:
        r = world.requests[uuid]
        return Request(uuid, "place", r.processor, "LAST_SEEN", r.deployment, r.asked_ms)
