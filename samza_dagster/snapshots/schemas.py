"""The columns of the seven datasets, with their units: what is written, read back and documented.

Whatever is a moment is a TIMESTAMP in UTC, by the broker's clock where it is a record's; whatever lasts is
in seconds. A figure that can't be known is null, and `unknown_because` of its row says why.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import NamedTuple


class Column(NamedTuple):
    """A column: `type` is a Spark SQL type, `doc` its content and unit."""

    name: str
    type: str
    doc: str


def _columns(text: str) -> tuple[Column, ...]:
    """A column a line, as `name type: doc`; a line that is indented further goes on with the one before."""
    lines = cleandoc(text).replace("\n    ", " ").splitlines()
    told = (line.split(" ", 2) for line in lines)
    return tuple(Column(name, kind.rstrip(":"), doc) for name, kind, doc in told)


DAY = "snapshot_day"
_SNAPSHOT = _columns(
    """
    snapshot_day string: day of snapshot_time in UTC: what the tables are partitioned by
    snapshot_time timestamp: time of the snapshot, by the brokers' clock
    job_name string: job.name
    job_id string: job.id
    deployment_id string: app.run.id of the running deployment; null: not set
    """
)
_TABLES = {
    "container_locality": """
        processor_id string: processor (container) id
        host string: host that it last reported; null: never, or deleted since
        mode string: Active or Standby, of its tasks; without tasks, of its group
        tasks int: tasks assigned to it; 0: a leftover of an earlier job model
        reported_at timestamp: when it reported the host, by the writer's clock
        phase string: waiting, requesting, reserved, starting, running or stopping, by our coordinator; null:
            another runs it
        execution_id string: its process, by our coordinator; null: none, or not known
    """,
    "task_locality": """
        task_name string: task
        processor_id string: processor that it is assigned to
        host string: host of that processor; null: not reported
        mode string: Active or Standby
        changelog_partition int: partition of every changelog of the task
        reported_at timestamp: when it reported the host, by the writer's clock
    """,
    "changelog_lag": """
        store string: store
        system string: Samza system of the changelog
        changelog string: topic of the changelog
        partition int: partition of the changelog
        task_name string: the replica: an active task or one of its standbys
        active_task string: the active task whose state it is
        mode string: Active or Standby
        processor_id string: processor that the task is assigned to
        host string: host of that processor; null: not reported
        beginning_offset bigint: first offset of the partition; null: none known
        end_offset bigint: where the changelog ended when the replica's report came
        written_since bigint: records written to the changelog since then
        applied_offset bigint: last offset that the replica is known to hold
        applied_source string: metrics, checkpoint-v2 or checkpoint-v1
        observed_at timestamp: when the applied offset was reported, by the replica's clock; of a checkpoint, the
            record's time
        came_at timestamp: time of the record that brought it; null of a checkpoint
        process string: execution id of the process that reported it, or its host
        lag_records bigint: end - 1 - applied, as it was at the report; null: unknown
        lag_bytes bigint: lag_records × the mean size of what it applied; null: unknown
        lag_s double: seconds that it needs for them if nothing more is written; null: unknown
        apply_per_s double: offsets a second that it applies; null: none was seen
        write_per_s double: offsets a second written meanwhile; null: none was seen
        status string: of a standby: ready, unproven (small, but not for long enough), growing, behind, stalled,
            silent, unknown; see `lag.StandbyStatus`
        why string: why it has this status; of an active, for how long it wasn't heard
        ready_in_s double: seconds until lag_s is within the limit; null: unknown, or never
        ready_soonest_s double: the 90 % interval's lower end
        ready_latest_s double: its upper end; null: no latest time can be named
        ready_spread double: standard deviation of the rate behind ready_in_s, as a part of it
        ready_since timestamp: when that process was within the limit first; null: never yet
        unknown_because string: no-leader (the changelog's partition can't be read), no-changelog (no such topic or
            partition), not-heard (no report or commit is in the window that is read; earlier snapshots had one),
            no-observation (nor had they), no-leader-of-observations (a partition that may have one can't be read),
            former-host (the newest observation is of another host than the processor's), beyond-end (applied in a
            changelog that was deleted or cut since); null when lag_records is known
    """,
    "standby_readiness": """
        processor_id string: standby container
        active_id string: active container whose state it holds
        host string: host that it last reported; null: never
        replicas int: store partitions that it holds
        status string: of its worst replica: ready, unproven (small, but not for long enough), growing, behind,
            stalled, silent, unknown; see `lag.StandbyStatus`
        why string: why it has this status
        lag_records bigint: sum over its replicas; null: unknown of one
        lag_bytes bigint: sum over its replicas; null: unknown of one
        lag_s double: of the worst replica, in seconds; null: unknown
        ready_in_s double: seconds until its last replica is ready; null: unknown, or never
        ready_soonest_s double: the 90 % interval's lower end
        ready_latest_s double: its upper end; null: no latest time can be named
        came_at timestamp: time of the oldest of its replicas' newest reports; null: none
    """,
    "restore_forecast": """
        processor_id string: active container
        host string: where it would start: a host of its job; null: any other, where nothing of its job is
        is_warm boolean: a copy of each of its stores is there
        records bigint: offsets to apply before it processes; null: unknown
        bytes bigint: their size; null: unknown
        restore_s double: seconds from its start until it processes; null: unknown. The start itself counts as the
            starts that our coordinator has recorded, on that host where three were; where none is, 10 s: neither
            Samza's Application Master nor a standalone processor records when it began one
        restore_soonest_s double: the 90 % interval's lower end
        restore_latest_s double: its upper end; null: no latest time can be named
        why string: what isn't known; null: all is
    """,
    "host_loss": """
        host string: the host that would die
        processor_id string: active container on it
        has_standby boolean: a standby of it is on another host
        back_on string: where it would be back soonest; null: any other host
        downtime_s double: seconds until it processes again; null: unknown
        downtime_soonest_s double: the 90 % interval's lower end
        downtime_latest_s double: its upper end; null: no latest time can be named
        why string: what isn't known; null: all is
    """,
    "violations": """
        rule string: same-host (an active and a standby of one task, or two standbys, on one host), no-host (a
            container with tasks has reported none), no-standby (an active with a changelog, of a job with standbys, has
            none), no-changelog (a store's changelog, or a partition of it, isn't there), unreadable (a record that
            can't be read)
        processor_id string: the container that breaks it; null: none does
        other_id string: the other container of it; null: there is none
        host string: where; null: nowhere
        seen string: what was seen, in a sentence
    """,
    "snapshots": """
        unreadable bigint: records in its own topics that can't be read
        unread string: what couldn't be reached of it, and why; null: all was
    """,
}
TABLES = {name: (*_SNAPSHOT, *_columns(text)) for name, text in _TABLES.items()}
"""The datasets, and the snapshots that have all of them."""
DATASETS = {name: columns for name, columns in TABLES.items() if name != "snapshots"}
