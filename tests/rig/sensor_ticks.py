"""A sensor's ticks in process, with all that Dagster's daemon does with what comes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg


@contextmanager
def ticking(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, cursor: str | None = None
) -> Iterator[dg.SensorEvaluationContext]:
    with dg.build_sensor_context(
        instance=instance,
        repository_def=repository,
        cursor=cursor,
        resources=dict(repository.get_top_level_resources()),
    ) as context:
        yield context


def tick(
    instance: dg.DagsterInstance,
    repository: dg.RepositoryDefinition,
    sensor: str,
    cursor: str | None = None,
) -> Any:
    """A tick, and what the daemon does with its result."""
    with ticking(instance, repository, cursor) as context:
        result = repository.get_sensor_def(sensor).evaluate_tick(context)
    partitions_kept(instance, result)
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    return result


def ticked(
    instance: dg.DagsterInstance, sensor: dg.SensorDefinition, samza: Any, cursor: str | None
) -> dg.SensorResult | dg.SkipReason:
    """A tick of one sensor alone, whose events the instance then has."""
    resources = {"samza": samza}
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    if isinstance(result, dg.SensorResult):
        for event in result.asset_events or []:
            instance.report_runless_asset_event(event)
    return result


def partitions_kept(instance: dg.DagsterInstance, result: Any) -> None:
    """What the daemon does with the partitions of a tick's result."""
    for one in result.dynamic_partitions_requests or []:
        name, keys = one.partitions_def_name, list(one.partition_keys)
        if isinstance(one, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(name, keys)
        else:
            for key in keys:
                instance.delete_dynamic_partition(name, key)
