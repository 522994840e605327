"""What befalls a sandbox with our coordinator on YARN. YARN starts its agents, as the coordinator asks.

An operator's init starts NodeManagers and the ResourceManager again, beside coordinator and broker.
"""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path

from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from samza_dagster.sandbox.yarn.cluster import RESOURCE_MANAGER
from tests.chaos.acts import Acts, send
from tests.chaos.broker_links import BrokerLinks
from tests.chaos.in_force import Done, Undo
from tests.chaos.schedule import OF_YARN, Fault
from tests.rig.ours_on_yarn import (
    JobOnYarn,
    cluster,
    coordinator_elsewhere,
    every_agent,
    hadoop_gateways,
    node_managers,
    resource_managers,
)


class YarnActs(Acts):
    """`links` is a directory of this one's own."""

    def __init__(self, job: JobOnYarn, links: Path) -> None:
        super().__init__(job, BrokerLinks(links, (), {}))  # no link of it is cut
        self._box = job.sandbox
        self._cluster = cluster(job.sandbox)

    def carry_out(self, fault: Fault, taken: Collection[str]) -> Done | None:
        """Does it now, to one that isn't taken; None when all are."""
        if fault.kind not in OF_YARN:
            return super().carry_out(fault, taken)
        how, _, whom = fault.kind.partition(" ")
        match whom:
            case "node manager":
                host = self._host(fault, taken)
                if host is None:
                    return None
                self._cluster.kill_node_manager(host)
                return Done(host, frozenset({host}), lambda: self._node_again(host))
            case "resource manager":
                if RESOURCE_MANAGER in taken:
                    return None
                self._cluster.kill_resource_manager()
                return Done(
                    RESOURCE_MANAGER,
                    frozenset({RESOURCE_MANAGER}),
                    self._cluster.start_resource_manager,
                )
            case _:
                if COORDINATOR in taken:
                    return None
                undo = self._signal(how, hadoop_gateways(self._box))
                return Done("gateway", frozenset({COORDINATOR}), undo)

    def _agent(self, host: str) -> list[int]:
        return [pid for at, pid in every_agent(self._box) if at == host]

    def _agent_again(self, host: str) -> None:
        for pid in self._agent(host):
            send(pid, signal.SIGCONT)

    def _keepers(self, host: str) -> list[int]:
        return [pid for at, pid in node_managers(self._box).items() if at == host] + self._agent(
            host
        )

    def _all_pids(self) -> list[int]:
        of_yarn = [*node_managers(self._box).values(), *resource_managers(self._box)]
        return [*super()._all_pids(), *of_yarn, *hadoop_gateways(self._box)]

    def _keep_hosts_up(self) -> list[str]:
        running = node_managers(self._box)
        ended = [host for host in self._job.host_names if host not in running]
        for host in ended:
            self._node_again(host)
        if not resource_managers(self._box):
            self._cluster.start_resource_manager()
            ended.append(RESOURCE_MANAGER)
        return ended

    def _node_again(self, host: str) -> None:
        if host in node_managers(self._box):
            return
        if self._registry.live(host):
            self._cluster.start_node_manager(host)
        else:
            self._cluster.start_node(host)

    def _to_host(self, host: str, how: str) -> Done:
        if how != "kill":
            return super()._to_host(host, how)
        self._box.own_yarn.lose(host)
        return Done(host, frozenset({host}), lambda: self._node_again(host))

    def _zombie(self, pids: list[int]) -> Undo:
        """The spare has an address of its own, which the sandbox asks from now on."""
        nodes = self._box.own_yarn.nodes
        address = nodes.record["coordinator"]
        thaw = self._signal("stop", pids)
        spare = coordinator_elsewhere(self._box)

        def undo() -> str:
            took_over = self._job.status() is not None
            if not took_over and pids:
                spare.send(signal.SIGKILL)
                spare.wait(10)
                nodes.note(coordinator=address)
            thaw()
            self._coordinator_again()
            return "a spare led when it thawed" if took_over else "no spare led"

        return undo
