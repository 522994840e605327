"""The columns of the three datasets, with their units. What is written and read back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column: `type` is a Spark SQL type, `doc` says what it holds and in which unit."""

    name: str
    type: str
    doc: str


_SNAPSHOT = (
    Column("snapshot_time", "bigint", "time of the snapshot, ms since the epoch"),
    Column("job_name", "string", "job.name"),
    Column("job_id", "string", "job.id"),
)
PARTITION_COLUMNS = tuple(column.name for column in _SNAPSHOT)

CONTAINER_LOCALITY = (
    *_SNAPSHOT,
    Column("processor_id", "string", "processor (container) id"),
    Column("host", "string", "host that it last reported; null: never, or deleted since"),
    Column("mode", "string", "Active or Standby, of its tasks; without tasks, of its id"),
    Column("tasks", "int", "tasks assigned to it; 0: a leftover of an earlier job model"),
    Column("reported_at_ms", "bigint", "when it reported the host, ms, the writer's clock"),
    Column("deployment_id", "string", "app.run.id of the running deployment; null: not set"),
)

TASK_LOCALITY = (
    *_SNAPSHOT,
    Column("task_name", "string", "task"),
    Column("processor_id", "string", "processor that it is assigned to"),
    Column("host", "string", "host of that processor; null: not reported"),
    Column("mode", "string", "Active or Standby"),
    Column("changelog_partition", "int", "partition of every changelog of the task"),
    Column("reported_at_ms", "bigint", "when the processor reported the host, ms"),
    Column("deployment_id", "string", "app.run.id of the running deployment; null: not set"),
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
    Column("observed_at_ms", "bigint", "when the applied offset was reported, ms"),
    Column("lag_records", "bigint", "end - 1 - applied, as it was at the report; null: unknown"),
    Column(
        "unknown_because",
        "string",
        "no-leader (the changelog's partition can't be read), no-changelog (no such topic or "
        "partition), no-observation, no-leader-of-observations (none was read, and a partition "
        "that may have it can't be), former-host (the newest "
        "observation is of another host than the processor's), beyond-end (applied in a "
        "changelog that was deleted or cut since); null when lag_records is known",
    ),
    Column("deployment_id", "string", "app.run.id of the running deployment; null: not set"),
)

DATASETS: dict[str, tuple[Column, ...]] = {
    "container_locality": CONTAINER_LOCALITY,
    "task_locality": TASK_LOCALITY,
    "changelog_lag": CHANGELOG_LAG,
}


def ddl(columns: tuple[Column, ...], *, separator: str = " ") -> str:
    """The columns as a Spark schema; with `": "` as the fields of a `struct<…>`."""
    return ", ".join(f"`{column.name}`{separator}{column.type}" for column in columns)


def select_list(columns: tuple[Column, ...]) -> list[str]:
    """SQL expressions that give exactly these columns, in this order and of these types."""
    return [f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in columns]
