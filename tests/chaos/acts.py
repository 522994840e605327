"""Carries faults out on a sandbox's processes, by their ids, and takes them back.

What can't be taken back (a kill) is followed by what an operator's init would do: agents,
coordinator and broker are started again. Containers are left to whoever keeps them.
Faults in force together befall different hosts and servers: what one holds another doesn't touch.
"""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path

from samza_dagster.cluster import agent_archive
from samza_dagster.model import naming
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from tests.chaos.broker_acts import BrokerActs
from tests.chaos.broker_links import BROKER_LINK, BrokerLinks
from tests.chaos.clocks import SET, HostClocks
from tests.chaos.cut_links import HELD, CutLinks, Held
from tests.chaos.in_force import Done, Undo
from tests.chaos.schedule import Fault
from tests.rig.job import alive
from tests.rig.sandbox_job import SandboxJob
from tests.rig.traced import undying
from tests.rig.waiting import until

ALONE_S = 1.0
"""For so long what thaws on a host runs before anybody who could end it does."""
_LINK = "link of "


class Acts(ABC):
    """What can befall the processes of a sandbox, whoever starts its agents.

    `broker_links` are those that it was brought up with.
    """

    def __init__(self, job: SandboxJob, broker_links: BrokerLinks) -> None:
        self._job = job
        self.brokers = BrokerActs(job, broker_links)
        """What befalls brokers themselves."""
        self._registry = job.sandbox.registry

    def close(self) -> None:
        """Lets go of what isn't the sandbox's own."""
        return

    def carry_out(self, fault: Fault, taken: Collection[str]) -> Done | None:
        """Does it now, to one that isn't taken; None when all are."""
        if self.brokers.has(fault):
            return self.brokers.carry_out(fault, taken)
        how, _, whom = fault.kind.partition(" ")
        match whom:
            case "container" | "warden" | "agent and warden":
                return self._to_container(fault, how, whom, taken)
            case "agent":
                host = self._host(fault, taken)
                if host is None:
                    return None
                undo = self._signal(how, self._agent(host), lambda: self._agent_again(host))
                return Done(host, frozenset({host}), undo)
            case "host":
                host = self._host(fault, taken)
                return None if host is None else self._to_host(host, how)
            case _:
                return None if COORDINATOR in taken else self._to_coordinator(how)

    def keep_up(self) -> list[str]:
        """What an init does: starts agents and coordinator that have ended; who that was."""
        ended = self._keep_hosts_up()
        if not self._registry.live(COORDINATOR):
            self._start_coordinator()
            ended.append(COORDINATOR)
        return ended

    def heal(self) -> None:
        """Everything that should run does: nothing is stopped, and all that an init starts is up."""
        for pid in self._all_pids():
            send(pid, signal.SIGCONT)
        self.brokers.heal()
        self.keep_up()

    @abstractmethod
    def _agent(self, host: str) -> list[int]:
        """The process ids of the host's agents: one, if it runs."""

    @abstractmethod
    def _agent_again(self, host: str) -> None:
        """It isn't stopped any more, and runs."""

    @abstractmethod
    def _keep_hosts_up(self) -> list[str]:
        """Starts what has ended there; who that was."""

    @abstractmethod
    def _zombie(self, pids: list[int]) -> Undo:
        """All coordinators that run are frozen, and a spare waits for their silence."""

    # Whom

    def _host(self, fault: Fault, taken: Collection[str], prefix: str = "") -> str | None:
        """A host by its containers, an active's twice as likely; any when no free one has some."""
        names = [name for name in self._job.host_names if prefix + name not in taken]
        busy = [
            found.host
            for found in self._job.containers(names)
            for _ in range(1 if naming.is_standby(found.processor) else 2)
        ]
        free = busy or names
        return free[fault.victim % len(free)] if free else None

    def _all_pids(self) -> list[int]:
        found = self._job.containers(self._job.host_names)
        pids = [pid for each in found for pid in (each.warden, each.pid)]
        pids += [pid for host in self._job.host_names for pid in self._agent(host)]
        return [*pids, *(r.pid for r in self._registry.live(COORDINATOR))]

    # What

    def _to_container(
        self, fault: Fault, how: str, whom: str, taken: Collection[str]
    ) -> Done | None:
        free = self._job.containers(name for name in self._job.host_names if name not in taken)
        if not free:
            return None
        host, _, execution, warden, pid = free[fault.victim % len(free)]
        if whom == "container":
            undo = self._undying(pid) if how == "hang" else self._signal(how, [pid])
            return Done(execution, frozenset({host}), undo)
        if whom == "warden":
            return Done(execution, frozenset({host}), self._signal(how, [warden]))
        undo = self._signal(how, [*self._agent(host), warden], lambda: self._agent_again(host))
        return Done(f"{host} {execution}", frozenset({host}), undo)

    def _undying(self, pid: int) -> Undo:
        """SIGKILL, which it dies of when the fault is over; of a process that may not be traced at once."""
        held = ExitStack()
        try:
            held.enter_context(undying(pid))
            undo: Undo = held.close
        except PermissionError:
            undo = lambda: "died at once: no right to trace it"  # noqa: E731
        send(pid, signal.SIGKILL)
        return undo

    def _to_host(self, host: str, how: str) -> Done:
        found = self._job.containers([host])
        keepers = [*self._keepers(host), *(each.warden for each in found)]
        wake_keepers = self._signal(how, keepers, lambda: self._agent_again(host))
        wake_containers = self._signal(how, [each.pid for each in found])

        def undo() -> None:
            wake_containers()
            if how == "freeze" and found:
                time.sleep(ALONE_S)  # of the fault's own length: nothing is waited for
            wake_keepers()

        return Done(host, frozenset({host}), undo)

    def _keepers(self, host: str) -> list[int]:
        """Those of a host beside its wardens, the first to be stopped first."""
        return self._agent(host)

    def _to_coordinator(self, how: str) -> Done:
        pids = [record.pid for record in self._registry.live(COORDINATOR)]
        if how == "zombie":
            undo = self._zombie(pids)
        elif how == "replace":
            self._start_coordinator()
            undo = self._signal("kill", pids)
        else:
            undo = self._signal(how, pids, self._coordinator_again)
        return Done(COORDINATOR, frozenset({COORDINATOR}), undo)

    def _coordinator_again(self) -> None:
        for record in self._registry.live(COORDINATOR):
            record.send(signal.SIGCONT)
        if not self._registry.live(COORDINATOR):
            self._start_coordinator()

    def _start_coordinator(self) -> None:
        self._job.sandbox.files.start(on_spawn=self._registry.add)

    def _signal(self, how: str, pids: list[int], then: Callable[[], object] = str) -> Undo:
        number = signal.SIGKILL if how == "kill" else signal.SIGSTOP
        for pid in pids:
            send(pid, number)

        def undo() -> None:
            for pid in reversed(pids):  # who is looked after wakes before who looks after him
                send(pid, signal.SIGCONT)
            then()

        return undo


class OwnActs(Acts):
    """On hosts whose agents are started here, anew, behind links to cut; `clocks` are the hosts'."""

    def __init__(self, job: SandboxJob, broker_links: BrokerLinks, clocks: HostClocks) -> None:
        super().__init__(job, broker_links)
        self._clocks = clocks
        self._broker_links = broker_links
        self._files: dict[str, Path] = {}  # of the agents that were upgraded
        self._links = CutLinks(
            job.sandbox.files.url, {name: job.host_directory(name) for name in job.host_names}
        )
        for host in job.host_names:
            job.kill_agent(host)
            self._agent_again(host)

    def close(self) -> None:
        """Lets go of the links between agents and coordinator."""
        self._links.close()

    def carry_out(self, fault: Fault, taken: Collection[str]) -> Done | None:
        """Does it now, to one that isn't taken; None when all are."""
        if fault.kind in HELD:
            return self._cut(fault, HELD[fault.kind], taken)
        if fault.kind in SET:
            return self._set_clock(fault, taken)
        if fault.kind == "upgrade agent":
            host = self._host(fault, taken)
            return None if host is None else Done(host, frozenset({host}), self._upgrade(host))
        return super().carry_out(fault, taken)

    def heal(self) -> None:
        """Nothing is held either, and clocks are right."""
        self._links.heal()
        self._broker_links.heal()
        for host in self._job.host_names:
            self._clocks.set_right(host)
        super().heal()

    def _agent(self, host: str) -> list[int]:
        return [r.pid for r in self._registry.live(self._job.simulated(host).role)]

    def _keep_hosts_up(self) -> list[str]:
        ended = [host for host in self._job.host_names if not self._agent(host)]
        for host in ended:
            self._agent_again(host)
        return ended

    def _upgrade(self, host: str) -> Undo:
        """Its agent becomes that of one file, built anew; its containers run on, for who has a lease."""
        ran = [each.pid for each in self._job.containers([host])]
        for pid in self._agent(host):
            send(pid, signal.SIGKILL)
        until(f"the end of the agent of {host}", lambda: not self._agent(host))
        file = self._job.host_directory(host) / "agent.pyz"
        agent_archive.build().write(file)
        self._files[host] = file
        self._agent_again(host)

        def undo() -> str:
            self._agent_again(host)
            return f"of {len(ran)} containers {sum(map(alive, ran))} run on"

        return undo

    def _zombie(self, pids: list[int]) -> Undo:
        """All that run are frozen, and a spare waits for their silence."""
        url = self._job.sandbox.files.coordinator_url()
        thaw = self._signal("stop", pids)
        spare = self._job.sandbox.files.start(on_spawn=self._registry.add)

        def undo() -> str:
            took_over = self._job.sandbox.files.coordinator_url() != url
            if not took_over and pids:
                spare.send(signal.SIGKILL)
                spare.wait(10)
            thaw()
            self._coordinator_again()
            return "a spare led when it thawed" if took_over else "no spare led"

        return undo

    def _cut(self, fault: Fault, held: Held, taken: Collection[str]) -> Done | None:
        """From the coordinator an agent; from the brokers the coordinators, or a host's containers."""
        if held.whom == "agent":
            links, prefix = self._links, _LINK
        else:
            links, prefix = self._broker_links, BROKER_LINK
        if held.whom == COORDINATOR:
            party = None if prefix + COORDINATOR in taken else COORDINATOR
        else:
            party = self._host(fault, taken, prefix)
        if party is None:
            return None
        links.cut(party, held.ways)
        return Done(party, frozenset({prefix + party}), lambda: links.mend(party))

    def _set_clock(self, fault: Fault, taken: Collection[str]) -> Done | None:
        host = self._host(fault, taken)
        if host is None:
            return None
        self._clocks.set(host, fault.kind)
        return Done(host, frozenset({host}), lambda: self._clocks.set_right(host))

    def _agent_again(self, host: str) -> None:
        for pid in self._agent(host):
            send(pid, signal.SIGCONT)
        if not self._agent(host):
            self._job.simulated(host).start(
                url_file=self._links.url_file(host),
                token_file=self._job.sandbox.files.token,
                memory_mb=self._job.memory_mb,
                on_spawn=self._registry.add,
                program=self._files.get(host),
            )


def send(pid: int, number: signal.Signals) -> None:
    """To one that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
