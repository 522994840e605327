"""The columns of the seven datasets, with their units: what is written, read back and documented.

Whatever is a moment is a TIMESTAMP in UTC, by the broker's clock where it is a record's; whatever lasts is
in seconds. A figure that can't be known is null, and `unknown_because` of its row says why.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column: `type` is a Spark SQL type, `doc` says what it holds and in which unit."""

    name: str
    type: str
    doc: str


DAY = "snapshot_day"
_SNAPSHOT = (
    Column(DAY, "string", "day of snapshot_time in UTC: what the tables are partitioned by"),
    Column("snapshot_time", "timestamp", "time of the snapshot, by the brokers' clock"),
    Column("job_name", "string", "job.name"),
    Column("job_id", "string", "job.id"),
    Column("deployment_id", "string", "app.run.id of the running deployment; null: not set"),
)
_REPORTED = Column("reported_at", "timestamp", "when it reported the host, by the writer's clock")
_UNKNOWN = (
    "no-leader (the changelog's partition can't be read), no-changelog (no such topic or partition), "
    "not-heard (no report or commit is in the window that is read; earlier snapshots had one), "
    "no-observation (nor had they), no-leader-of-observations (a partition that may have one can't "
    "be read), former-host (the newest observation is of another host than the processor's), beyond-end "
    "(applied in a changelog that was deleted or cut since); null when lag_records is known"
)
_STATUS = (
    "ready, unproven (small, but not for long enough), growing, behind, stalled, silent, unknown; "
    "see `lag.StandbyStatus`"
)


def _forecast(name: str, prefix: str, doc: str) -> tuple[Column, ...]:
    """Seconds, and the interval that they lie in nine times of ten."""
    return (
        Column(name, "double", doc),
        Column(f"{prefix}_soonest_s", "double", "the 90 % interval's lower end"),
        Column(f"{prefix}_latest_s", "double", "its upper end; null: no latest time can be named"),
    )


CONTAINER_LOCALITY = (
    *_SNAPSHOT,
    Column("processor_id", "string", "processor (container) id"),
    Column("host", "string", "host that it last reported; null: never, or deleted since"),
    Column("mode", "string", "Active or Standby, of its tasks; without tasks, of its group"),
    Column("tasks", "int", "tasks assigned to it; 0: a leftover of an earlier job model"),
    _REPORTED,
    Column(
        "phase",
        "string",
        "waiting, requesting, reserved, starting, running or stopping, by our coordinator; null: another runs it",
    ),
    Column("execution_id", "string", "its process, by our coordinator; null: none, or not known"),
)

TASK_LOCALITY = (
    *_SNAPSHOT,
    Column("task_name", "string", "task"),
    Column("processor_id", "string", "processor that it is assigned to"),
    Column("host", "string", "host of that processor; null: not reported"),
    Column("mode", "string", "Active or Standby"),
    Column("changelog_partition", "int", "partition of every changelog of the task"),
    _REPORTED,
)

CHANGELOG_LAG = (
    *_SNAPSHOT,
    Column("store", "string", "store"),
    Column("system", "string", "Samza system of the changelog"),
    Column("changelog", "string", "topic of the changelog"),
    Column("partition", "int", "partition of the changelog"),
    Column("task_name", "string", "the replica: an active task or one of its standbys"),
    Column("active_task", "string", "the active task whose state it is"),
    Column("mode", "string", "Active or Standby"),
    Column("processor_id", "string", "processor that the task is assigned to"),
    Column("host", "string", "host of that processor; null: not reported"),
    Column("beginning_offset", "bigint", "first offset of the partition; null: none known"),
    Column("end_offset", "bigint", "where the changelog ended when the replica's report came"),
    Column("written_since", "bigint", "records written to the changelog since then"),
    Column("applied_offset", "bigint", "last offset that the replica is known to hold"),
    Column("applied_source", "string", "metrics, checkpoint-v2 or checkpoint-v1"),
    Column(
        "observed_at",
        "timestamp",
        "when the applied offset was reported, by the replica's clock; of a checkpoint, the record's time",
    ),
    Column("came_at", "timestamp", "time of the record that brought it; null of a checkpoint"),
    Column("process", "string", "execution id of the process that reported it, or its host"),
    Column("lag_records", "bigint", "end - 1 - applied, as it was at the report; null: unknown"),
    Column("lag_bytes", "bigint", "lag_records × the mean size of what it applied; null: unknown"),
    Column("lag_s", "double", "seconds that it needs for them if nothing more is written; null: unknown"),
    Column("apply_per_s", "double", "offsets a second that it applies; null: none was seen"),
    Column("write_per_s", "double", "offsets a second written meanwhile; null: none was seen"),
    Column("status", "string", f"of a standby: {_STATUS}"),
    Column("why", "string", "why it has this status; of an active, for how long it wasn't heard"),
    *_forecast("ready_in_s", "ready", "seconds until lag_s is within the limit; null: unknown, or never"),
    Column("ready_spread", "double", "standard deviation of the rate behind ready_in_s, as a part of it"),
    Column("ready_since", "timestamp", "when that process was within the limit first; null: never yet"),
    Column("unknown_because", "string", _UNKNOWN),
)  # fmt: skip

STANDBY_READINESS = (
    *_SNAPSHOT,
    Column("processor_id", "string", "standby container"),
    Column("active_id", "string", "active container whose state it holds"),
    Column("host", "string", "host that it last reported; null: never"),
    Column("replicas", "int", "store partitions that it holds"),
    Column("status", "string", f"of its worst replica: {_STATUS}"),
    Column("why", "string", "why it has this status"),
    Column("lag_records", "bigint", "sum over its replicas; null: unknown of one"),
    Column("lag_bytes", "bigint", "sum over its replicas; null: unknown of one"),
    Column("lag_s", "double", "of the worst replica, in seconds; null: unknown"),
    *_forecast("ready_in_s", "ready", "seconds until its last replica is ready; null: unknown, or never"),
    Column("came_at", "timestamp", "time of the oldest of its replicas' newest reports; null: none"),
)  # fmt: skip

RESTORE_FORECAST = (
    *_SNAPSHOT,
    Column("processor_id", "string", "active container"),
    Column(
        "host",
        "string",
        "where it would start: a host of its job; null: any other, where nothing of its job is",
    ),
    Column("is_warm", "boolean", "a copy of each of its stores is there"),
    Column("records", "bigint", "offsets to apply before it processes; null: unknown"),
    Column("bytes", "bigint", "their size; null: unknown"),
    *_forecast(
        "restore_s",
        "restore",
        "seconds from its start until it processes; null: unknown. The start itself counts as the starts that our "
        "coordinator has recorded, on that host where three were; where none is, 10 s: neither Samza's "
        "Application Master nor a standalone processor records when it began one",
    ),
    Column("why", "string", "what isn't known; null: all is"),
)  # fmt: skip

HOST_LOSS = (
    *_SNAPSHOT,
    Column("host", "string", "the host that would die"),
    Column("processor_id", "string", "active container on it"),
    Column("has_standby", "boolean", "a standby of it is on another host"),
    Column("back_on", "string", "where it would be back soonest; null: any other host"),
    *_forecast("downtime_s", "downtime", "seconds until it processes again; null: unknown"),
    Column("why", "string", "what isn't known; null: all is"),
)  # fmt: skip

VIOLATIONS = (
    *_SNAPSHOT,
    Column(
        "rule",
        "string",
        "same-host (an active and a standby of one task, or two standbys, on one host), no-host (a "
        "container with tasks has reported none), no-standby (an active with a changelog, of a job "
        "with standbys, has none), no-changelog (a store's changelog, or a partition of it, isn't there), "
        "unreadable (a record that can't be read)",
    ),
    Column("processor_id", "string", "the container that breaks it; null: none does"),
    Column("other_id", "string", "the other container of it; null: there is none"),
    Column("host", "string", "where; null: nowhere"),
    Column("seen", "string", "what was seen, in a sentence"),
)

DATASETS: dict[str, tuple[Column, ...]] = {
    "container_locality": CONTAINER_LOCALITY,
    "task_locality": TASK_LOCALITY,
    "changelog_lag": CHANGELOG_LAG,
    "standby_readiness": STANDBY_READINESS,
    "restore_forecast": RESTORE_FORECAST,
    "host_loss": HOST_LOSS,
    "violations": VIOLATIONS,
}


SNAPSHOTS = (
    *_SNAPSHOT,
    Column("unreadable", "bigint", "records in its own topics that can't be read"),
    Column("unread", "string", "what couldn't be reached of it, and why; null: all was"),
)  # fmt: skip

TABLES: dict[str, tuple[Column, ...]] = {**DATASETS, "snapshots": SNAPSHOTS}
"""The datasets, and the snapshots of which all of them are there."""
