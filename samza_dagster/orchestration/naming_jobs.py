"""Names of several Samza jobs in one code location: a prefix before each, and its own resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.waits.continuation import LaunchingSensor


def job_under(
    prefix: str, job: dg.JobDefinition, resources: Mapping[str, object]
) -> dg.JobDefinition:
    """The job under its prefix, with resources of its own."""
    return job.graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, job.name),
        description=job.description,
        resource_defs={name: resources[name] for name in _needed(job, resources)},
        executor_def=job.executor_def,
        tags=job.tags,
        partitions_def=job.partitions_def,
    )


def _needed(job: dg.JobDefinition, resources: Mapping[str, object]) -> list[str]:
    keys: set[str] = set()
    for op in job.graph.iterate_op_defs():
        keys |= set(op.required_resource_keys)
    return sorted(keys & set(resources))


def sensor_under(
    prefix: str,
    sensor: dg.SensorDefinition,
    resources: Mapping[str, Any],
    jobs: Sequence[Any] = (),
) -> dg.SensorDefinition:
    """The sensor under its prefix: its function is handed resources of its own.

    A job that it launches by name is launched by its name under the prefix. `jobs` are
    those that it launches as they are.
    """
    given = {name: resources[name] for name in sorted(sensor.required_resource_keys)}
    function: Callable[..., Any] = sensor._raw_fn  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    target = sensor.job_name if sensor.targets and not jobs else None

    def evaluate(context: dg.SensorEvaluationContext) -> Any:
        result: Any = function(context, **given)
        if isinstance(result, dg.SensorResult) and result.run_requests:
            requests = [_renamed(prefix, target, one) for one in result.run_requests]
            return result._replace(run_requests=requests)
        return result

    return LaunchingSensor(
        name=named(prefix, sensor.name),
        evaluation_fn=evaluate,
        job_name=named(prefix, target) if target else None,
        jobs=list(jobs) or None,
        minimum_interval_seconds=sensor.minimum_interval_seconds,
        default_status=sensor.default_status,
        description=sensor.description,
    )


def _renamed(prefix: str, target: str | None, request: dg.RunRequest) -> dg.RunRequest:
    if target is None or request.job_name != target:
        return request
    return request.with_replaced_attrs(job_name=named(prefix, target))
