"""A job as the sensors see it: containers, hosts, words and lags that tests change at will."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import HostView
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch import auto_failover
from samza_dagster.orchestration.watch.auto_failover import (
    acknowledge_job,
    auto_failover_sensor,
    judged_now,
    look,
    run_request,
)
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.reported import Events
from samza_dagster.orchestration.watch.settings import AutoFailover
from tests.rig.played_job import PlayedJob
from tests.rig.sensor_ticks import ticked


@dataclass(eq=False)
class Lookout(PlayedJob):
    """Four actives with a standby each, on hosts in a ring: `0` on host-0, `0-0` on host-1, ….

    `asked`: uuid → (kind, processor). `after_ask` runs at each write.
    """

    host_states: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    incarnations_asked: dict[str, str | None] = field(default_factory=dict[str, str | None])
    behind: dict[str, int | None] = field(default_factory=dict[str, int | None])
    skew_ms: dict[str, int] = field(default_factory=dict[str, int])
    after_ask: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        super().__post_init__()
        for number in range(4):
            host, next_host = f"host-{number}", f"host-{(number + 1) % 4}"
            self.host_states[host], self.words[host] = "alive", 100
            self.at[str(number)], self.at[f"{number}-0"] = host, next_host

    def start(self, processor: str, host: str) -> None:
        """A new incarnation runs there."""
        self.starts[processor] = self.starts.get(processor, 0) + 1
        self.at[processor] = host

    def alive(self) -> None:
        """The leader shows a sign of life."""
        self.beat_ms = self.now_ms

    def host_views(self) -> dict[str, HostView]:
        return {host: HostView(host, state) for host, state in self.host_states.items()}

    def lags_of(self, processor: str) -> list[int | None] | None:
        return [self.behind.get(processor, 0)]

    def reported_at(self, processor: str) -> int:
        return self.now_ms + self.skew_ms.get(self.at[processor], 0)

    def on_asked(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        is_own = isinstance(request, OwnRequest)
        self.asked[uuid] = (request.kind.value if is_own else "place", request.processor_id)
        if is_own:
            self.incarnations_asked[uuid] = request.execution_id
        self.after_ask()

    def answer(self, uuid: str, status: StatusCode, message: str = "told") -> None:
        """One more status of a request."""
        kind, processor = self.asked[uuid]
        self.respond(
            PlacementResponse(
                uuid=uuid,
                deployment_id=self.deployment,
                processor_id=processor,
                destination_host="STANDBY" if kind == "fail-over" else "LAST_SEEN",
                status_code=status,
                timestamp=self.now_ms,
                response_message=message,
            )
        )

    def fail_over_done(self, uuid: str) -> None:
        """The active runs where its standby was, which starts on the next host without either."""
        _, active = self.asked[uuid]
        host, standby = self.at[f"{active}-0"], f"{active}-0"
        others = [h for h in self.host_states if h not in (host, self.at[active])]
        self.start(active, host)
        self.start(standby, others[0] if others else self.at[active])
        self.answer(uuid, StatusCode.SUCCEEDED, f"Successfully started on {host}")


LOOKOUTS: dict[str, Lookout] = {}


class LookoutSamza(SamzaClientResource):
    """The resource over a `Lookout`; `bootstrap_servers` names it."""

    def open_client(self) -> PlacementClient:
        return LOOKOUTS[self.bootstrap_servers].client()


@dataclass
class ListEvents:
    """The events of an instance, as a list."""

    kept: list[dg.AssetObservation] = field(default_factory=list)

    def read(self) -> Events:
        """All of them, with their numbers."""
        return list(enumerate(self.kept, start=1))


@dataclass
class Ticked:
    """What a tick of `auto_failover` ends with."""

    cursor: str
    reported: list[dg.AssetObservation]
    runs: list[dg.RunRequest]


def tick(
    client: PlacementClient,
    events: ListEvents,
    settings: AutoFailover,
    cursor: str | None,
    now_ms: int,
) -> Ticked:
    """As Dagster runs it, but for its instance and its clock."""
    observation = look(client)
    job = observation.job
    kept = FailoverCursor.read(cursor, job) or FailoverCursor(job)
    judged, reported = judged_now(kept, observation, events.read(), settings, now_ms)
    runs = [run_request(d, job, "") for d in judged.advice if d.verdict == "ask"]
    return Ticked(judged.cursor.to_text(), reported, runs)


class FailoverStage:
    """`auto_failover` over a `Lookout`, as Dagster runs it, and an instance that keeps its events."""

    def __init__(self, instance: dg.DagsterInstance, prefix: str, at: str) -> None:
        self.instance, self.world = instance, Lookout()
        LOOKOUTS[at] = self.world
        self.samza = LookoutSamza(bootstrap_servers=at, job_name="demo", prefix=prefix)
        self.cursor: str | None = None
        self.said = ""
        self.events: list[dg.AssetObservation] = []

    def tick(self, **settings: Any) -> list[dg.RunRequest]:
        """What is launched by the next tick, five seconds later in every world."""
        for world in LOOKOUTS.values():
            world.now_ms += 5_000
            world.alive()
        sensor = auto_failover_sensor(AutoFailover.model_validate({"mode": "act", **settings}))
        result = ticked(self.instance, sensor, self.samza, self.cursor)
        if isinstance(result, dg.SkipReason):
            self.said = result.skip_message or ""
            return []
        events = result.asset_events or []
        self.events += [event for event in events if isinstance(event, dg.AssetObservation)]
        self.cursor = result.cursor
        return list(result.run_requests or [])

    def told(self, times: int, **settings: Any) -> list[str]:
        """What so many ticks tell, each as `<signal> <verdict>`, or `over`."""
        before = len(self.events)
        for _ in range(times):
            self.tick(**settings)
        return [
            f"{e.metadata['signal'].value} {e.metadata['verdict'].value if 'verdict' in e.metadata else 'over'}"
            for e in self.events[before:]
        ]

    def run(self, job: dg.JobDefinition, config: object) -> dg.ExecuteInProcessResult:
        """A run of a job over the same world."""
        return job.execute_in_process(
            run_config=config,
            instance=self.instance,
            resources={
                "samza": self.samza,
                "samza_policies": PlacementPolicies(verify_timeout_s=0),
            },
            raise_on_error=False,
        )

    def acknowledge(self, **config: object) -> dg.ExecuteInProcessResult:
        """Somebody acknowledges the group of `0`, if no other is named."""
        given = {"processor": "0", "reason": "the agent was restarted", **config}
        return self.run(acknowledge_job("demo/1"), {"ops": {"acknowledge": {"config": given}}})


@contextmanager
def failover_stages(*prefixes: str) -> Iterator[list[FailoverStage]]:
    """One for each prefix, in one instance; sensors tell the time of the last one's world."""
    with dg.DagsterInstance.ephemeral() as instance, pytest.MonkeyPatch.context() as patch:
        made = [FailoverStage(instance, prefix, prefix or "plain") for prefix in prefixes]
        world = made[-1].world
        patch.setattr(auto_failover.time, "time_ns", lambda: world.now_ms * 1_000_000)
        yield made
    LOOKOUTS.clear()
