"""ZooKeeper of a virtual group of standalone processors."""

from __future__ import annotations

from dataclasses import dataclass, field

from samza_dagster.model import JobModel
from samza_dagster.simulation.standalone_process import VirtualProcess
from samza_dagster.simulation.standalone_requests import Placement
from samza_dagster.standalone.group import Barrier, GroupView, Member


@dataclass
class Server:
    """ZooKeeper as its clients see it: one order of all writes, sessions that expire by its clock."""

    session_ms: int
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    heard_ms: dict[str, int] = field(default_factory=dict[str, int])
    models: dict[int, JobModel] = field(default_factory=dict[int, JobModel])
    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])
    locality: dict[str, str] = field(default_factory=dict[str, str])
    version: int = 0
    revision: int = 0
    agreed: int = 0
    next_sequence: int = 0
    placement: Placement = field(default_factory=Placement)

    def view(self, now_ms: int) -> GroupView:
        """All of it as it is now."""
        return GroupView(
            tuple(self.members[sequence] for sequence in sorted(self.members)),
            self.version,
            self.revision,
            self.agreed,
            max((*self.models, *self.barriers), default=0),
            self.models.get(self.version),
            self.barriers.get(self.version),
            dict(self.locality),
            self.placement.waiting(),
            dict(self.placement.responses),
            dict(self.placement.pins),
            dict(self.placement.restarts),
            dict(self.placement.running),
            now_ms,
        )

    def register(self, process: VirtualProcess, now_ms: int) -> str:
        """Makes the node of a processor; returns its sequence."""
        made = f"{self.next_sequence:010d}"
        self.next_sequence += 1
        state = process.state
        self.members[made] = Member(
            made, state.processor_id, state.location, holds_standbys=not process.is_samzas
        )
        self.heard_ms[made] = now_ms
        return made

    def expire(self, now_ms: int) -> None:
        """Ends the sessions of which nothing was heard in time."""
        for sequence, heard_ms in list(self.heard_ms.items()):
            if now_ms >= heard_ms + self.session_ms:
                self.end(sequence)

    def end(self, sequence: str) -> None:
        """Ends a session: its nodes are gone."""
        del self.heard_ms[sequence]
        self.members.pop(sequence, None)
        self.placement.running.pop(sequence, None)
