"""Brokers and streams: who is refused, what was asked, answered and recorded for good."""

from __future__ import annotations

from dataclasses import dataclass, field

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import PlacementAsk
from samza_dagster.simulation.twins import twin


@dataclass(slots=True)
class Brokers:
    """Kafka as everybody shares it. It loses nothing that was acknowledged.

    `calls` are fences on their way: execution id and the epoch of the leader that asked.
    `topic` are requests that nobody has deleted yet. `epochs`: of each execution id that was
    started, as its audit record has it.
    """

    refused: set[str] = field(default_factory=set[str])
    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    asked: dict[str, PlacementAsk] = field(default_factory=dict[str, PlacementAsk])
    topic: dict[str, PlacementAsk] = field(default_factory=dict[str, PlacementAsk])
    responses: list[cmd.WriteResponse] = field(default_factory=list[cmd.WriteResponse])
    locality: dict[str, str] = field(default_factory=dict[str, str])
    audit: list[cmd.RecordCertificate] = field(default_factory=list[cmd.RecordCertificate])
    epochs: dict[str, int] = field(default_factory=dict[str, int])

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
        )

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
