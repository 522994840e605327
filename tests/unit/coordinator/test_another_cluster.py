"""A cluster that isn't ours fits by an implementation of its interface, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import pytest

from samza_dagster.cluster.interface import (
    ClusterCallbacks,
    ClusterFactory,
    ClusterResourceManager,
    ClusterTerm,
    ContainerLaunch,
    HostResources,
    ResourceAsk,
)
from samza_dagster.coordinator.mail import Arrived
from samza_dagster.placement.state import PlacementAsk
from tests.rig.term_bench import UUID, Bench, processors

pytestmark = pytest.mark.unit
HOSTS = ("h1", "h2", "h3", "h4")
Notice = Callable[[ClusterCallbacks], None]


class MemoryCluster:
    """Nodes as a ResourceManager shows them: no agents, no leases, no journal, nothing parked."""

    url = "memory:/1"

    def __init__(self, term: ClusterTerm) -> None:
        self.term = term
        self.pages: dict[str, Callable[[], bytes]] = {}
        self.held: dict[str, str] = {}
        self.running: dict[str, str] = {}
        self.callbacks: ClusterCallbacks | None = None
        self._early: list[Notice] = []

    def add_page(self, path: str, content_type: str, page: Callable[[], bytes]) -> None:
        self.pages[path] = page

    def higher_epochs(self) -> Mapping[str, int]:
        return {}

    def start(self, callbacks: ClusterCallbacks) -> None:
        self.callbacks = callbacks
        self.report_again()
        for notice in self._early:
            notice(callbacks)

    def request_resource(self, ask: ResourceAsk) -> None:
        taken = {*ask.excluded_hosts, *self.held.values(), *self.running.values()}
        found = self.held[ask.request_id] = ask.host or next(h for h in HOSTS if h not in taken)
        self._tell(lambda to: to.on_resource_allocated(ask.request_id, found))

    def release_resource(self, request_id: str) -> None:
        self.held.pop(request_id, None)

    def start_container(self, request_id: str, host: str, launch: ContainerLaunch) -> None:
        del self.held[request_id]
        self.running[launch.execution_id] = host
        self._tell(lambda to: to.on_container_launched(launch.execution_id, host, 7))
        self._tell(lambda to: to.on_container_checked_in(launch.execution_id, host))

    def stop_container(self, execution_id: str, host: str) -> None:
        if self.running.pop(execution_id, None):
            self._tell(lambda to: to.on_container_stopped(execution_id, host, 0))

    def forget_container(self, execution_id: str, host: str) -> None: ...

    def admit_host(self, host: str) -> None: ...

    def report_again(self) -> None:
        for host in self.hosts():
            self._tell(lambda to, host=host: to.on_host_registered(host, ()))
            self._tell(lambda to, host=host: to.on_host_told(host.host))

    def hosts(self) -> tuple[HostResources, ...]:
        return tuple(HostResources(host, 9_000, 9, 9_000, 9) for host in HOSTS)

    def close(self) -> None: ...

    def _tell(self, notice: Notice) -> None:
        if self.callbacks is None:
            self._early.append(notice)
        else:
            notice(self.callbacks)


class MemoryClusters:
    """Opens one for each term; occupies nothing."""

    def require(self, *, beside: tuple[str, str] | None = None) -> None: ...

    @contextmanager
    def prepare(
        self, within_s: float = 0.0
    ) -> Generator[Callable[[ClusterTerm], ClusterResourceManager]]:
        yield MemoryCluster


def test_a_term_deploys_restarts_and_moves_on_a_cluster_of_another_kind() -> None:
    """Nothing of agents, leases or files is asked of it."""
    clusters: ClusterFactory = MemoryClusters()
    term = ClusterTerm(5, 30.0, 30.0, 10.0, lambda: 30.0, 0.0, lambda: 0.0)
    clusters.require(beside=("another host", "memory:/0"))
    with clusters.prepare() as open_cluster:
        cluster = open_cluster(term)
    assert isinstance(cluster, MemoryCluster)
    bench = Bench(cluster=cluster)
    bench.run()
    bench.handle_all()
    assert sorted(cluster.running.values()) == ["h1", "h2"]
    (active,) = (p for p in processors(bench) if p.processor_id == "0")
    died = active.incarnation
    del cluster.running[died.execution_id]
    assert cluster.callbacks is not None
    cluster.callbacks.on_container_stopped(died.execution_id, died.host, 1)
    bench.handle_all()
    assert len(set(cluster.running.values())) == 2
    bench.steps.inbox.put(Arrived(PlacementAsk(UUID, "run-1", "0", "h4", 1)))
    bench.handle_all()
    (active,) = (p for p in processors(bench) if p.processor_id == "0")
    assert active.incarnation.host == "h4"
    assert cluster.running[active.incarnation.execution_id] == "h4"
