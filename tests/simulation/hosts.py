"""A virtual host: its agent with its journal and ledger, its wardens, its containers' processes.

It keeps the promises of `agent/` and no others: commands in order, one that was done
changes nothing; a start needs the resource that its request holds; a JobModel is served
only under a live lease, and only while no other process has the store directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from tests.simulation.clocks import HostClocks, LeaseGrant
from tests.simulation.copies import copied
from tests.simulation.host_messages import HostCommand, Report, Reserve, Saying


class Life(StrEnum):
    """What a host's journal says of an incarnation."""

    LAUNCHED = "launched"
    RELEASED = "released"  # its JobModel was served: it owns its tasks
    RUNNING = "running"  # and its first heartbeat was seen
    DEAD = "dead"
    NEVER = "never started"


class Trouble(StrEnum):
    """What a host does wrong for as long as it lasts."""

    NO_START = "starts-fail"
    NO_CHECK_IN = "no-check-in"
    STUBBORN = "stops-fail"
    SLOW_STOP = "slow-stops"
    LOST_ACKS = "lost-acks"


@dataclass(frozen=True, slots=True)
class Hold:
    """Memory and cores held for a request, and who uses them."""

    memory_mb: int
    cores: int
    user: str | None = None


@dataclass(slots=True)
class Entry:
    """One incarnation in a host's journal. Entries are never shared between worlds.

    `doomed`: its warden killed it, and the kernel hasn't ended it yet. It runs no
    instruction of its own any more, so it owns nothing, but holds its store directory.
    """

    processor_id: str
    execution_id: str
    life: Life
    stopping: bool = False
    stop_failed: bool = False
    doomed: bool = False

    @property
    def alive(self) -> bool:
        """A process exists."""
        return self.life is not Life.DEAD and self.life is not Life.NEVER

    @property
    def released(self) -> bool:
        """Its JobModel was served."""
        return self.life is Life.RELEASED or self.life is Life.RUNNING


@dataclass(slots=True)
class VirtualHost:
    """One host. `epoch` is the highest leader epoch that its agent has on disk.

    `frozen` says since when, and how; `stale` that nothing ran since the thaw;
    `missed_until` up to when, by its boot time, it missed time that no clock of it tells.
    `restarted` is an agent that has yet to say its first word. `directory` and `boot` count
    the agent's directories and the machine's boots under this name; `bereft` is one whose
    machine had another directory since its boot, so nobody can tell what became of that.
    `begun_with` are the fault domain and the room, in containers, that it had at first.

    A former host is what goes on when another has taken its name: `shares_machine_of` is that
    one while both are on one machine, "" when the former has a machine of its own.
    """

    name: str
    clock: HostClocks
    fault_domain: str = ""
    memory_mb: int = 1_536
    cores: int = 4
    agent_up: bool = True
    restarted: bool = True
    frozen: tuple[int, str] | None = None
    stale: bool = False
    missed_until: int | None = None
    cut_out: bool = False
    cut_in: bool = False
    epoch: int = 0
    directory: int = 1
    boot: int = 1
    bereft: bool = False
    begun_with: tuple[str, int] = ("", 4)
    shares_machine_of: str = ""
    grant: LeaseGrant | None = None
    late_grant: LeaseGrant | None = None
    troubles: frozenset[Trouble] = frozenset()
    journal: dict[str, Entry] = field(default_factory=dict[str, Entry])
    ledger: dict[str, Hold] = field(default_factory=dict[str, Hold])
    commands: list[tuple[int, HostCommand]] = field(default_factory=list[tuple[int, HostCommand]])
    unacknowledged: list[HostCommand] = field(default_factory=list[HostCommand])
    reports: list[Report] = field(default_factory=list[Report])
    late: list[Report] = field(default_factory=list[Report])

    def copy(self) -> VirtualHost:
        """An independent one."""
        journal = {key: copied(entry) for key, entry in self.journal.items()}
        return copied(self, clock=self.clock.copy(), journal=journal)

    # -- what is so --------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        """The machine isn't frozen and its agent is there."""
        return self.agent_up and self.frozen is None

    @property
    def speaks(self) -> bool:
        """What the agent says reaches a leader."""
        return self.agent_up and self.frozen is None and not self.cut_out

    @property
    def converses(self) -> bool:
        """What the agent says reaches a leader, and the reply comes back."""
        return self.agent_up and self.frozen is None and not self.cut_out and not self.cut_in

    def live(self) -> Iterator[Entry]:
        """Incarnations that have a process."""
        return (entry for entry in self.journal.values() if entry.alive)

    def lease_left(self, true_ms: int) -> int:
        """Milliseconds, by this host's clocks."""
        return self.clock.remaining(true_ms, self.grant)

    @property
    def believes_wrongly(self) -> bool:
        """It asked for the lease that it has before a pause that none of its clocks counted."""
        missed, held = self.missed_until, self.grant
        return missed is not None and held is not None and held.boot_ms < missed

    def thaw(self, true_ms: int) -> None:
        """It can run again; a machine that was paused from outside lost that time on its clocks."""
        assert self.frozen is not None
        since, how = self.frozen
        if how == "pause":
            left = self.lease_left(true_ms)
            self.clock.paused(true_ms - since)
            if self.lease_left(true_ms) > left:
                self.missed_until = self.clock.boot.read(true_ms)
        self.frozen, self.stale = None, True

    def free(self) -> tuple[int, int]:
        """MiB and cores that nobody holds."""
        memory, cores = self.memory_mb, self.cores
        for hold in self.ledger.values():
            memory -= hold.memory_mb
            cores -= hold.cores
        return memory, cores

    def fits(self, reserve: Reserve) -> bool:
        """There is room for it."""
        memory, cores = self.free()
        return memory >= reserve.memory_mb and cores >= reserve.cores

    def may_release(self, true_ms: int, entry: Entry) -> bool:
        """`agent/gate.py`: a live lease, not stopping, and the store directory is free."""
        if entry.life is not Life.LAUNCHED or entry.stopping or entry.doomed or not self.runs:
            return False
        if self.lease_left(true_ms) <= 0:
            return False
        store = naming.group_of(entry.processor_id)
        for other in self.journal.values():
            if other is entry:
                return True  # whoever is in the journal before it, and lives, goes first
            if other.alive and naming.group_of(other.processor_id) == store:
                return False
        return True

    # -- what it does ------------------------------------------------------------------

    def carry_out(self, true_ms: int, command: HostCommand) -> None:
        """Does what a leader says."""
        match command:
            case Reserve(request_id):
                if request_id in self.ledger or self.fits(command):
                    self.ledger.setdefault(request_id, Hold(command.memory_mb, command.cores))
                    self.reports.append((Saying.RESERVED, request_id))
                else:
                    self.reports.append((Saying.REFUSED, request_id))
            case cmd.StartContainer(processor_id, execution_id, _, request_id):
                self._start(true_ms, processor_id, execution_id, request_id)
            case cmd.StopContainer(execution_id, _):
                entry = self.journal.get(execution_id)
                if entry is None:
                    self.reports.append((Saying.STOPPED, execution_id))
                elif entry.alive:
                    entry.stopping = True
                else:
                    self.tell(entry)
            case cmd.ForgetContainer(execution_id, _):
                entry = self.journal.get(execution_id)
                if entry is not None and not entry.alive:
                    del self.journal[execution_id]
            case cmd.ReleaseResource(request_id):
                hold = self.ledger.get(request_id)
                if hold is not None and hold.user is None:
                    del self.ledger[request_id]

    def _start(self, true_ms: int, processor_id: str, execution_id: str, request_id: str) -> None:
        entry = self.journal.get(execution_id)
        if entry is not None:
            self.tell(entry)
            return
        hold = self.ledger.get(request_id)
        if hold is None or hold.user is not None:
            self.reports.append((Saying.START_FAILED, execution_id))
            return
        starts = Trouble.NO_START not in self.troubles and self.lease_left(true_ms) > 0
        entry = Entry(processor_id, execution_id, Life.LAUNCHED if starts else Life.NEVER)
        self.journal[execution_id] = entry
        if starts:
            self.ledger[request_id] = replace(hold, user=execution_id)
        else:
            del self.ledger[request_id]
        self.tell(entry)

    def advance(self, entry: Entry) -> None:
        """A container reads its JobModel, then its first heartbeat is seen."""
        entry.life = Life.RUNNING if entry.life is Life.RELEASED else Life.RELEASED
        if entry.life is Life.RUNNING:
            self.tell(entry)

    def die(self, entry: Entry) -> None:
        """A process ends, asked or not. Without an agent nobody sees it yet."""
        entry.life, entry.stopping = Life.DEAD, False
        self.ledger = {r: h for r, h in self.ledger.items() if h.user != entry.execution_id}
        if self.agent_up:
            self.tell(entry)

    def refuse_to_die(self, entry: Entry) -> None:
        """A process outlives SIGKILL: told once; it dies when the kernel lets it."""
        entry.stop_failed = True
        self.reports.append((Saying.STOP_FAILED, entry.execution_id))

    def wardens_look(self, true_ms: int) -> bool:
        """Kills every container when the lease is over; one that can't die lives on."""
        if self.frozen is not None or self.lease_left(true_ms) > 0:
            return False
        looked = False
        for entry in list(self.live()):
            looked = looked or not entry.doomed
            if Trouble.STUBBORN in self.troubles:
                entry.doomed = True
            else:
                self.die(entry)
        return looked

    def take_grant(self, true_ms: int, offered: LeaseGrant) -> None:
        """Keeps the grant that ends later; a newer leader's always wins."""
        held = self.grant
        if offered.epoch < self.epoch:
            return
        remaining = self.clock.remaining
        if (
            held is None
            or offered.epoch > held.epoch
            or remaining(true_ms, offered) >= remaining(true_ms, held)
        ):
            self.grant = offered

    def reboot(self, true_ms: int, *, keeps_disk: bool) -> None:
        """Every process is gone, and so is the lease and what was held; without its disk, the journal too."""
        for entry in list(self.live()):
            entry.life, entry.stopping = Life.DEAD, False
        self.ledger.clear()
        self.boot += 1
        self.bereft = False
        if not keeps_disk:
            self.journal.clear()
            self.directory += 1
        self.clock = HostClocks(true_ms, self.clock.boot.ppm, self.clock.wall_offset)
        self.grant = self.late_grant = None
        self.frozen, self.stale, self.missed_until, self.agent_up = None, False, None, True
        self.begin_anew()

    def replaced(self, true_ms: int, *, by_a_machine: bool) -> VirtualHost:
        """Another agent takes the name, with an empty directory; what was there goes on.

        Returns the former host: wardens and containers, with the lease that they have, or that is on its
        way to them. On a machine of its own (`by_a_machine`: the name went to another one) the
        agent lives on, too, and no leader answers it any more.
        """
        former = self.copy()
        former.name = f"{self.name} before {self.directory + 1}"
        former.shares_machine_of = "" if by_a_machine else self.name
        former.agent_up = by_a_machine and self.agent_up
        former.fault_domain = ""
        former.cut_in = former.cut_out = True
        if former.agent_up and self.late_grant is not None:
            former.take_grant(true_ms, self.late_grant)
        former.late_grant = None
        for queue in (former.commands, former.unacknowledged, former.reports, former.late):
            queue.clear()
        self.journal, self.ledger, self.grant, self.late_grant = {}, {}, None, None
        self.directory += 1
        self.bereft = not by_a_machine
        self.epoch = 0
        self.unacknowledged.clear()
        self.cut_in = self.cut_out = False
        if by_a_machine:
            self.boot += 1
            self.clock = HostClocks(true_ms, self.clock.boot.ppm, self.clock.wall_offset)
            self.frozen, self.stale, self.missed_until = None, False, None
        self.begin_anew()
        return former

    def begin_anew(self) -> None:
        """An agent starts: it does again what it can't know was acknowledged, and registers."""
        self.agent_up = self.restarted = True
        self.reports.clear()
        self.late.clear()
        self.commands[:0] = [(self.epoch, command) for command in self.unacknowledged]
        self.unacknowledged.clear()

    def tell(self, entry: Entry) -> None:
        """Reports what the journal says of an incarnation."""
        match entry.life:
            case Life.LAUNCHED | Life.RELEASED:
                said = Saying.LAUNCHED
            case Life.RUNNING:
                said = Saying.CHECKED_IN
            case Life.DEAD:
                said = Saying.STOPPED
            case Life.NEVER:
                said = Saying.START_FAILED
        self.reports.append((said, entry.execution_id))

    def tell_all(self) -> None:
        """What follows a registration: every incarnation, and what is held for nobody."""
        for entry in self.journal.values():
            self.tell(entry)
            if entry.stop_failed and entry.alive:
                self.reports.append((Saying.STOP_FAILED, entry.execution_id))
        for request_id, hold in self.ledger.items():
            if hold.user is None:
                self.reports.append((Saying.HELD, request_id))
