"""How far each active is behind its input, by what it committed last. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.client.checkpoints import Checkpoint
from samza_dagster.client.views import InputLag, JobView
from samza_dagster.errors import Unreachable
from samza_dagster.lag import records_behind
from samza_dagster.metadata.job_topics import Ranges, span_of
from samza_dagster.model import TaskMode
from samza_dagster.model.numbers import long_or_none


def input_partition(name: str) -> tuple[str, int] | None:
    """Topic and partition of a checkpoint's `<system>.<stream>.<partition>`."""
    _, _, rest = name.partition(".")
    topic, _, partition = rest.rpartition(".")
    number = long_or_none(partition)
    return (topic, number) if topic and number is not None else None


def input_topics(checkpoints: Mapping[str, Checkpoint]) -> set[str]:
    """The topics that the checkpoints name."""
    names = {name for checkpoint in checkpoints.values() for name in checkpoint.input_offsets}
    return {at[0] for name in names if (at := input_partition(name)) is not None}


def input_lags(
    view: JobView,
    checkpoints: Mapping[str, Checkpoint],
    ranges: Ranges,
) -> tuple[InputLag, ...]:
    """One entry per active task and input partition that it has committed."""
    found: list[InputLag] = []
    for _, processor in sorted(view.processors.items()):
        if processor.mode is not TaskMode.ACTIVE:
            continue
        for task in processor.tasks:
            checkpoint = checkpoints.get(task)
            for name, offset in checkpoint.input_offsets.items() if checkpoint else ():
                at = input_partition(name)
                span = span_of(ranges, *at) if at is not None else None
                if checkpoint is None or at is None or span is None:
                    continue
                unread = isinstance(span, Unreachable)
                found.append(
                    InputLag(
                        processor_id=processor.processor_id,
                        task_name=task,
                        topic=at[0],
                        partition=at[1],
                        committed_offset=offset,
                        end_offset=None if unread else span.end,
                        lag=None if unread else records_behind(span.start, span.end, offset),
                        at_ms=checkpoint.at_ms,
                        reason=span.seen if unread else None,
                    )
                )
    return tuple(found)
