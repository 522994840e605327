"""The choices that exist, offered by the Launchpad: processors and hosts as dynamic partitions.

A sensor keeps them current. A placement job takes its processor (`drain_host` its host)
from the chosen partition when its config names none, and refuses two that differ. In a component
of several Samza jobs the partition says which job, too: `<name>/<id>/<processor>`, and for a
Dagster job that is about a whole Samza job `<name>/<id>`.

Where a person must name a host beside the processor, the form is filled with those that the
processor may go to now, once it is chosen. It can be launched as it is: the first counts.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import dagster as dg

from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError
from samza_dagster.model.naming import ANY_HOST, STANDBY
from samza_dagster.orchestration.config import MOST_DESTINATIONS, OR
from samza_dagster.orchestration.job_sensor import (
    JobTick,
    LaunchingSensor,
    Outlasting,
    TickResult,
    of_every_job,
    started,
)
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import BY_HOST, JOB, is_of_all, job_tags, subject_of
from samza_dagster.orchestration.ticks import least_seconds

SENSOR = "choices"
BACKFILL = "dagster/backfill"
BY_PROCESSOR = frozenset(
    {
        *("move_container", "restart_container", "move_with_standby", "relocate_standby"),
        *("fail_over", "spin_up_standby", "move_via_new_standby"),
    }
)
TO_A_HOST = "move_container"
"""The job whose destination a person must name."""


@cache
def processors_of(job: str) -> dg.DynamicPartitionsDefinition:
    """`<job>/processors`: the processors of a job, named as tag `samza/job` names it.

    As it is written: names and ids may have `_`, so `a/b_c` isn't `a_b/c` with another sign.
    """
    return dg.DynamicPartitionsDefinition(name=f"{job}/processors")


@cache
def hosts_of(job: str) -> dg.DynamicPartitionsDefinition:
    """`<job>/hosts`: the hosts of a job, named as tag `samza/job` names it."""
    return dg.DynamicPartitionsDefinition(name=f"{job}/hosts")


@cache
def jobs_of(job: str) -> dg.DynamicPartitionsDefinition:
    """`*/jobs`: the Samza jobs of a component of several, each as tag `samza/job` names it."""
    return dg.DynamicPartitionsDefinition(name=f"{job}/jobs")


def choices_for(action: str, job: str) -> dg.DynamicPartitionsDefinition | None:
    """What one chooses for a placement job; None for one that is about the one Samza job there is."""
    if action in BY_PROCESSOR:
        return processors_of(job)
    if action in BY_HOST:
        return hosts_of(job)
    return jobs_of(job) if is_of_all(job) else None


def choice_of_a_job(
    action: str, job: str, samza: SamzaClientResource | None = None
) -> dg.PartitionedConfig[Any]:
    """The choice for a placement job of a component, and what the form says once it is made.

    Of a component of several the run is tagged with its Samza job.
    """

    def tags_of(key: str) -> dict[str, str]:
        if not is_of_all(job):
            return {}
        by_job = action not in BY_PROCESSOR | BY_HOST
        return job_tags(key if by_job else key.rpartition("/")[0], action)

    def config_of(key: str) -> dict[str, Any]:
        offered = OR.join(_destinations(samza.of_key(key), key)) if samza else ""
        config = {"destination": offered}
        return {"ops": {f"plan_{action}": {"config": config}}} if offered else {}

    return dg.PartitionedConfig(
        partitions_def=choices_for(action, job) or jobs_of(job),
        run_config_for_partition_key_fn=config_of,
        tags_for_partition_key_fn=tags_of,
    )


def _destinations(samza: SamzaClientResource, key: str) -> list[str]:
    """Where the processor of a partition may go now: where its state is warm, then who has room.

    None where it can't be told: the form stays as it was.
    """
    from samza_dagster.model import TaskMode  # late: a run's start

    try:
        client = samza.open_client()
        try:
            plan = client.plan(subject_of(key, samza.tag), STANDBY)
        finally:
            client.close()
    except SamzaDagsterError:
        return []
    among = samza.hosts if plan.mode is TaskMode.STANDBY else ()
    meant = (plan.source_host, plan.host)  # by no move, and by STANDBY
    legal = [one for one in plan.hosts if one.legal and one.host not in meant]
    legal = [one for one in legal if not among or one.host in among]
    hosts = [one.host for one in sorted(legal, key=lambda one: not one.ready)]
    warm = [STANDBY] if plan.refusal is None and not samza.hosts else []
    return [*warm, *hosts[: MOST_DESTINATIONS - 2], *([ANY_HOST] if hosts else [])]


def chosen(context: dg.OpExecutionContext, configured: str, what: str) -> str:
    """What the config names, else the partition that was chosen.

    Raises `InvalidInput` for neither, `Refused` for both when they differ: of two that were
    named nobody knows which one was meant; and `Refused` in a backfill: it would act on every
    one of them, with nothing that keeps an order or a bound.
    """
    if BACKFILL in context.run.tags:
        raise Refused(
            "one run for one choice",
            seen="a backfill over partitions",
            fix="rolling_bounce or drain_host, which know an order; or one run from the Launchpad",
        )
    partition = context.partition_key if context.has_partition_key else ""
    partition = subject_of(partition, context.run.tags.get(JOB, ""))
    if configured and partition and configured != partition:
        raise Refused(
            f"one {what}",
            seen=f"{what} {configured} in the config, {partition} as the chosen partition",
            fix=f"the {what} of the config left empty, or the partition {configured}",
        )
    if configured or partition:
        return configured or partition
    raise InvalidInput(
        f"a {what}", seen="none in the config, no partition chosen", fix=f"{what}: … in the config"
    )


def changes(known: Collection[str], there: Collection[str]) -> tuple[list[str], list[str]]:
    """What is to be added to the known keys, and what to be deleted. Pure."""
    return sorted(set(there) - set(known)), sorted(set(known) - set(there))


def choices_sensor(
    job: str, interval_s: int = 30, *, running: bool = True, prefix: str = ""
) -> dg.SensorDefinition:
    """`choices`: keeps the partitions of processors and hosts as the jobs have them now.

    `job` is the value of tag `samza/job`; that of each, in a component of several.
    """
    samza_key = named(prefix, "samza")
    offered = (processors_of(job), hosts_of(job))
    outlasting: Outlasting = {}

    def choices(context: dg.SensorEvaluationContext, **_named: object) -> TickResult:
        known = {of.name: _by_job(context.instance, str(of.name), job) for of in offered}

        def tick(_one: JobTick, samza: SamzaClientResource) -> TickResult:
            try:
                client = samza.open_client()
                try:
                    view = client.view()
                finally:
                    client.close()
            except SamzaDagsterError as error:
                return dg.SkipReason(f"the job can't be read: {error}")
            within = f"{samza.tag}/" if is_of_all(job) else ""
            requests: list[Any] = []
            summaries: list[str] = []
            units = {**view.processors, **view.members}
            for of, there in zip(offered, (units, view.hosts), strict=True):
                keys = [f"{within}{one}" for one in there]
                new, gone = changes(known[of.name].get(within, ()), keys)
                requests += _requests(of, new, gone)
                summaries.append(f"{of.name}: {len(keys)}, {len(new)} new, {len(gone)} gone")
            if not requests:
                return dg.SkipReason("; ".join(summaries))
            return dg.SensorResult(
                skip_reason="; ".join(summaries), dynamic_partitions_requests=requests
            )

        samza = getattr(context.resources, samza_key)
        result = of_every_job(context, samza, tick, outlasting)
        if not is_of_all(job) or isinstance(result, dg.SkipReason):
            return result
        there = {one.tag for one in samza.each()}
        jobs = jobs_of(job)
        requests = _requests(
            jobs, *changes(context.instance.get_dynamic_partitions(str(jobs.name)), there)
        )
        for of in offered:
            gone = [
                key
                for within, keys in known[of.name].items()
                if within[:-1] not in there
                for key in keys
            ]
            requests += _requests(of, [], gone)
        requests += result.dynamic_partitions_requests or []
        return result._replace(dynamic_partitions_requests=requests or None)

    return LaunchingSensor(
        name=named(prefix, SENSOR),
        evaluation_fn=choices,
        minimum_interval_seconds=least_seconds(interval_s),
        default_status=started(running),
        description="Keeps the processors and hosts that the Launchpad offers current.",
        required_resource_keys={samza_key},
    )


def _by_job(instance: dg.DagsterInstance, name: str, job: str) -> Mapping[str, Collection[str]]:
    """The known keys of partitions by what is before each: `<value of samza/job>/`, or nothing."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key in instance.get_dynamic_partitions(name):
        found["".join(key.rpartition("/")[:2]) if is_of_all(job) else ""].append(key)
    return found


def _requests(of: dg.DynamicPartitionsDefinition, new: list[str], gone: list[str]) -> list[Any]:
    made: list[Any] = [of.build_add_request(new)] if new else []
    return [*made, of.build_delete_request(gone)] if gone else made
