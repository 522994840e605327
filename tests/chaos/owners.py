"""Who owned an active, and whether anybody else wrote as it: changelogs and outputs together. Pure.

Three things are held against each other: the broker's batches, the audit history, which
dates the decision to start each incarnation, and the kernel's witness, which dates the
release of its JobModel: from then on it is the owner, and the one before it is none. All
dates are of one machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samza_dagster.model import naming
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.sandbox.broker_log import Overlap, RecordBatch, batches, overlaps

CLOCKS_MS = 50
"""What two readings of one machine's clock may differ by, for steps that set it right."""


class Log(NamedTuple):
    """A partition's batches, in order."""

    topic: str
    partition: int
    batches: Sequence[RecordBatch]


def batches_of_leader(
    data: Mapping[int, Path], leaders: Mapping[int, int], topic: str, partition: int
) -> list[RecordBatch]:
    """A partition as its leader has it; `data` by node id, `leaders` node ids by partition.

    What another replica has beyond that, or in its place, was never acknowledged: it goes as
    that replica comes in step. What another lacks may be acknowledged all the same. Raises
    `LookupError` without a leader.
    """
    return batches(data[leaders[partition]], topic, partition)


def unjudged(topic: str, partition: int, log: Sequence[RecordBatch], owners: int) -> str:
    """Why `overlaps` says nothing of this log, or "": `owners` incarnations are known to have
    worked, one after the other. Batches without a producer's id look like one owner's, and
    so does what is left of a log that was compacted.
    """
    nameless = sum(batch.producer_id < 0 for batch in log)
    if nameless:
        return f"{topic} {partition}: {nameless} of {len(log)} batches name no producer"
    producers = len({batch.producer_id for batch in log})
    if producers < owners:
        return f"{topic} {partition}: {producers} producers, but {owners} owners had worked"
    return ""


class Reign(NamedTuple):
    """An incarnation of an active that could own its tasks: decided on, then released."""

    execution_id: str
    decided_ms: int
    released_ms: int


Reigns = Mapping[str, Sequence[Reign]]
"""By active, in the order of the audit history."""


def reigns(
    history: Iterable[AuditRecord], journal: Sequence[Mapping[str, Any]], known: int
) -> dict[str, list[Reign]]:
    """By what was certified and what the kernel showed (`journal`).

    Its first `known` lines are of those that ran before anybody watched: they, and what
    they had replaced, count from the decision. Later ones that were never seen released
    owned nothing.
    """
    seen_ms = _released_ms(journal)
    before = {line["execution"] for line in journal[:known] if line["what"] == "started"}
    watched_ms = max((seen_ms[execution] for execution in before), default=0)
    found: dict[str, list[Reign]] = {}
    for record in history:
        if record.kind != "start" or naming.is_standby(record.processor_id):
            continue
        execution = record.execution_id
        if execution in before or (execution not in seen_ms and record.at_ms < watched_ms):
            released_ms = record.at_ms
        elif execution in seen_ms:
            released_ms = seen_ms[execution]
        else:
            continue
        found.setdefault(record.processor_id, []).append(
            Reign(execution, record.at_ms, released_ms)
        )
    return found


def uncertified(history: Iterable[AuditRecord], journal: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those that the kernel showed released before the history dates a start of them, or without."""
    decided_ms = {record.execution_id: record.at_ms for record in history if record.kind == "start"}
    found: list[str] = []
    for execution, released_ms in _released_ms(journal).items():
        if execution not in decided_ms:
            found.append(f"{execution} was released without a start on record")
        elif decided_ms[execution] > released_ms + CLOCKS_MS:
            early_ms = decided_ms[execution] - released_ms
            found.append(f"{execution} was released {early_ms} ms before its start on record")
    return found


def judged(
    changelogs: Mapping[str, Sequence[Log]],
    outputs: Sequence[Log],
    reigned: Reigns,
    owners: Mapping[str, int],
) -> tuple[list[Overlap], list[str]]:
    """Overlaps, and why a log can't be judged. `changelogs` and `owners` by active.

    `owners`: so many of its incarnations are known to have written. A partition of the
    outputs is written by all actives: each active's batches there are judged by themselves,
    and whose they are is told by the changelog partitions, which have one active each.
    """
    found: list[Overlap] = []
    reasons: list[str] = []
    active_of: dict[int, str] = {}
    for active, logs in changelogs.items():
        for log in logs:
            if why := unjudged(log.topic, log.partition, log.batches, owners[active]):
                reasons.append(why)
            if log.batches and not log.batches[-1].by_broker:
                reasons.append(f"{log.topic} {log.partition}: not dated by the broker")
            for producer in {batch.producer_id for batch in log.batches}:
                if active_of.setdefault(producer, active) != active:
                    reasons.append(
                        f"{log.topic} {log.partition}: producer {producer} is of two actives"
                    )
    for log in outputs:
        if why := unjudged(log.topic, log.partition, log.batches, 1):
            reasons.append(why)
        strangers = {batch.producer_id for batch in log.batches} - active_of.keys() - {-1}
        if strangers:
            reasons.append(
                f"{log.topic} {log.partition}: producers {sorted(strangers)} are of no active, "
                "by the changelogs"
            )
    for active, logs in changelogs.items():
        put_out = [_of(active, log, active_of) for log in outputs]
        producers = {batch.producer_id for log in put_out for batch in log.batches}
        if outputs and len(producers) < owners[active]:
            reasons.append(
                f"{outputs[0].topic}: {len(producers)} producers of active {active}, "
                f"but {owners[active]} owners had worked"
            )
        # A producer of two actives is told above; its batches count as its first one's.
        whole = [*logs, *put_out]
        for log in whole:
            found += overlaps(log.topic, log.partition, log.batches)
        found += beyond_their_reigns(whole, reigned.get(active, ()))
    return found, reasons


def beyond_their_reigns(logs: Sequence[Log], reigned: Sequence[Reign]) -> list[Overlap]:
    """What an active's producers wrote after a later incarnation's release, or as nobody.

    Two that write A A B show it by the dates alone, when A's last batch came after B was
    released. Each producer is given an incarnation of its own: the last one, decided on
    before its first batch, that no later producer has.
    """
    span: dict[int, tuple[int, int]] = {}
    for log in logs:
        for batch in log.batches:
            if batch.producer_id >= 0:
                first_ms, last_ms = span.get(batch.producer_id, (batch.at_ms, batch.at_ms))
                span[batch.producer_id] = min(first_ms, batch.at_ms), max(last_ms, batch.at_ms)
    found: list[Overlap] = []
    free, successor = len(reigned), -1
    for producer in sorted(span, key=lambda each: span[each], reverse=True):
        first_ms, last_ms = span[producer]
        free = next(
            (n for n in range(free - 1, -1, -1) if reigned[n].decided_ms <= first_ms + CLOCKS_MS),
            -1,
        )
        if free < 0:
            found.append(_first_batch(logs, producer, successor, "wrote as no incarnation", 0))
            free = 0
        else:
            later = min(reigned[free + 1 :], key=lambda each: each.released_ms, default=None)
            if later is not None and last_ms > (until_ms := later.released_ms + CLOCKS_MS):
                how = f"wrote {last_ms - later.released_ms} ms after {later.execution_id} was released"
                found.append(_first_batch(logs, producer, successor, how, until_ms + 1))
        successor = producer
    return found


def _first_batch(
    logs: Sequence[Log], producer: int, other: int, how: str, since_ms: int
) -> Overlap:
    late = [
        (log, batch)
        for log in logs
        for batch in log.batches
        if batch.producer_id == producer and batch.at_ms >= since_ms
    ]
    log, batch = min(late, key=lambda each: each[1].at_ms)
    to_ms = max(each.at_ms for _, each in late)
    at_ms = batch.at_ms
    return Overlap(
        log.topic, log.partition, batch.first_offset, producer, other, at_ms, at_ms, to_ms, how
    )


def _of(active: str, log: Log, active_of: Mapping[int, str]) -> Log:
    mine = [batch for batch in log.batches if active_of.get(batch.producer_id) == active]
    return log._replace(batches=mine)


def _released_ms(journal: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {
        line["execution"]: int(line["at"] * 1000) for line in journal if line["what"] == "started"
    }
