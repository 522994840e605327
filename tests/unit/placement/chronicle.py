"""Writes audit histories for tests, as a coordinator would: numbered, chained, in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from samza_dagster.placement.certificates import FIRST_HASH, AuditRecord, Kind, digest_of
from samza_dagster.placement.state import End
from samza_dagster.placement.verification import Rule, verify

TICK_MS = 7


def chained(records: list[AuditRecord], number: int = 1) -> list[AuditRecord]:
    """The same contents, numbered and chained anew: a forger who knows the rules."""
    done: list[AuditRecord] = []
    for record in records:
        last = done[-1] if done else None
        before = last.digest if last else (FIRST_HASH if number == 1 else "f" * 64)
        fresh = replace(
            record,
            number=number + len(done),
            previous_hash=before,
            previous_at_ms=last.at_ms if last else None,
        )
        done.append(replace(fresh, digest=digest_of(fresh)))
    return done


class Chronicle:
    """A job whose groups are `0`, `1`, …, each an active and its standbys `0-0`, `0-1`, …

    What is told of is the caller's affair, legal or not.
    """

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []
        self.epoch = 0
        self.now_ms = 1_000
        self.undead: dict[str, AuditRecord] = {}
        self.not_ended: dict[str, AuditRecord] = {}
        self.predecessor: dict[str, End] = {}

    def start(self, processor_id: str, host: str, **fields: Any) -> AuditRecord:
        """An incarnation of the processor on a host."""
        self.epoch += 1
        group_id = processor_id.split("-", maxsplit=1)[0]
        content: dict[str, Any] = {
            "kind": Kind.START,
            "deployment_id": "1-a",
            "group_id": group_id,
            "processor_id": processor_id,
            "role": "Standby" if "-" in processor_id else "Active",
            "execution_id": f"{processor_id}_{self.epoch}",
            "epoch": self.epoch,
            "host": host,
            "why": "it isn't running",
            "fencing": "lease",
            "predecessor": self.predecessor.get(processor_id),
            "others": tuple(
                (life.processor_id, life.host)
                for life in self.undead.values()
                if life.group_id == group_id
            ),
        }
        record = self._append(**(content | fields))
        self.undead[record.execution_id] = self.not_ended[processor_id] = record
        return record

    def end(self, started: AuditRecord, how: str = "dead", **fields: Any) -> AuditRecord:
        """Of an incarnation: by death, or by fence or lease and perhaps death later."""
        names = (
            "deployment_id",
            "group_id",
            "processor_id",
            "role",
            "execution_id",
            "epoch",
            "host",
        )
        content: dict[str, Any] = {name: getattr(started, name) for name in names}
        content |= {"how": how, "evidence": f"seen {how}", "fencing": "lease"}
        if how == "lease":
            content["evidence"] = f"its lease ended at {self.now_ms}, it is {self.now_ms + TICK_MS}"
        if how == "fenced":
            content["fencing"] = "broker"
        record = self._append(kind=Kind.END, **(content | fields))
        last = self.predecessor.get(started.processor_id)
        anew = how == "lease" and last is not None and last.execution_id == started.execution_id
        if anew or self.not_ended.get(started.processor_id) is started:
            self.not_ended.pop(started.processor_id, None)
            self.predecessor[started.processor_id] = End(
                execution_id=started.execution_id,
                epoch=started.epoch,
                host=started.host,
                how=how,
                at_ms=record.at_ms,
                evidence=record.evidence,
            )
        if how == "dead":
            self.undead.pop(started.execution_id, None)
        return record

    def _append(self, **content: Any) -> AuditRecord:
        self.now_ms += TICK_MS
        before = self.records[-1] if self.records else None
        record = AuditRecord(
            number=len(self.records) + 1,
            at_ms=self.now_ms,
            previous_hash=before.digest if before else FIRST_HASH,
            previous_at_ms=before.at_ms if before else None,
            **content,
        )
        record = replace(record, digest=digest_of(record))
        self.records.append(record)
        return record


def broken(records: list[AuditRecord]) -> tuple[int, Rule]:
    """Position and rule of the violation of records whose chain is right."""
    violation = verify(chained(records)).violation
    assert violation is not None
    return violation.position, violation.rule


def moved() -> Chronicle:
    """An active and its standby; the active is moved from host-1 to host-3."""
    job = Chronicle()
    active = job.start("0", "host-1")
    job.start("0-0", "host-2")
    job.end(active)
    job.start("0", "host-3")
    return job
