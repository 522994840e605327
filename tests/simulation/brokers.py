"""Brokers and streams: who is refused, what was asked, answered and recorded for good."""

from __future__ import annotations

from dataclasses import dataclass, field

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import PlacementAsk
from tests.simulation.copies import copied


@dataclass(slots=True)
class VirtualBrokers:
    """Kafka as everybody shares it. It loses nothing that was acknowledged.

    `calls` are fences on their way: execution id and the epoch of the leader that asked.
    `topic` are requests that nobody has deleted yet. `epochs`: of each execution id that was
    started, as its audit record has it. `logins` are the incarnations that were let in with a
    principal of their own, `strangers` those whose process logs in as somebody else; `fencers` are
    the epochs of coordinators whose starts bring a login. `lease_ms` is the longest lease that may
    still run, as the last leader's record says; 0 before there was a second leader.
    """

    refused: set[str] = field(default_factory=set[str])
    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    asked: dict[str, PlacementAsk] = field(default_factory=dict[str, PlacementAsk])
    topic: dict[str, PlacementAsk] = field(default_factory=dict[str, PlacementAsk])
    responses: list[cmd.WriteResponse] = field(default_factory=list[cmd.WriteResponse])
    locality: dict[str, str] = field(default_factory=dict[str, str])
    audit: list[cmd.RecordCertificate] = field(default_factory=list[cmd.RecordCertificate])
    epochs: dict[str, int] = field(default_factory=dict[str, int])
    logins: set[str] = field(default_factory=set[str])
    strangers: set[str] = field(default_factory=set[str])
    fencers: set[int] = field(default_factory=set[int])
    lease_ms: int = 0

    def copy(self) -> VirtualBrokers:
        """An independent one."""
        return copied(self)

    def shut_out(self, execution_id: str) -> None:
        """Serves its principal no more; one that logs in as somebody else goes on."""
        if execution_id not in self.strangers:
            self.refused.add(execution_id)

    def launched(self, execution_id: str, epoch: int) -> None:
        """A host forked it by a start of that coordinator, which decides as whom it logs in.

        Whatever is said of it later, it runs as it was launched.
        """
        if epoch not in self.fencers or execution_id not in self.logins:
            self.strangers.add(execution_id)

    def known(self) -> frozenset[str]:
        """Incarnations of which the brokers have a login or a rule."""
        return frozenset(self.logins | self.refused)

    def commit(self, projection: cmd.Projection) -> None:
        """Writes what a leader's transaction holds."""
        match projection:
            case cmd.WriteResponse():
                self.responses.append(projection)
            case cmd.DeleteRequest(uuid):
                self.topic.pop(uuid, None)
            case cmd.WriteLocality(processor_id, host):
                self.locality[processor_id] = host
            case cmd.DeleteLocality(processor_id):
                self.locality.pop(processor_id, None)
            case cmd.RecordCertificate():
                self.audit.append(projection)
                record = projection.record
                if record.kind == "start":
                    self.epochs[record.execution_id] = record.epoch
