"""Brokers and streams: who is refused, what was asked, answered and recorded for good."""

from __future__ import annotations

from dataclasses import dataclass, field

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Fencing, PlacementAsk
from samza_dagster.simulation.twins import twin


@dataclass(slots=True)
class Brokers:
    """Kafka as everybody shares it. It loses nothing that was acknowledged.

    `calls` are fences on their way: execution id and the epoch of the leader that asked.
    `topic` are requests that nobody has deleted yet. `epochs`: of each execution id that was
    started, as its audit record has it. `logins` are the incarnations that were let in with a
    principal of their own, `strangers` those that were started with another. `lease_ms` is the longest lease that may still run, as the last
    leader's record says; 0 before there was a second leader.
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
    lease_ms: int = 0

    def copy(self) -> Brokers:
        """An independent one."""
        return twin(
            self,
            refused=set(self.refused),
            calls=list(self.calls),
            asked=dict(self.asked),
            topic=dict(self.topic),
            responses=list(self.responses),
            locality=dict(self.locality),
            audit=list(self.audit),
            epochs=dict(self.epochs),
            logins=set(self.logins),
            strangers=set(self.strangers),
        )

    def shut_out(self, execution_id: str) -> None:
        """Serves its principal no more; one that logs in as somebody else goes on."""
        if execution_id not in self.strangers:
            self.refused.add(execution_id)

    def admit(self, execution_id: str, *, fencing: Fencing) -> None:
        """What is started now logs in as itself where the brokers are to fence, else as all do.

        One that is started again runs as it was launched.
        """
        if fencing is Fencing.BROKER:
            self.logins.add(execution_id)
        elif execution_id not in self.logins:
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
