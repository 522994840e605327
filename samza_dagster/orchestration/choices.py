"""The choices that exist, offered by the Launchpad: processors and hosts as dynamic partitions.

A sensor keeps them current. A placement job takes its processor (`drain_host` its host)
from the chosen partition when its config names none, and refuses two that differ. In a component
of several Samza jobs the partition says which job, too: `<name>/<id>/<processor>`, and for a
Dagster job that is about a whole Samza job `<name>/<id>`.

Where a person must name a host beside the processor, the form is filled with those that the
processor may go to now, once it is chosen. It can be launched as it is: the first counts.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

from contextlib import closing
from functools import cache
from typing import Any

import dagster as dg

from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import ANY_HOST, STANDBY
from samza_dagster.orchestration.config import MOST_DESTINATIONS, OR
from samza_dagster.orchestration.job_sensor import TickResult, job_sensor, side_by_side
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import (
    BY_HOST,
    JOB,
    PARTITION,
    is_of_all,
    job_tags,
    subject_of,
    tags_from_run_config,
)

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
def keys_of(job: str, what: str) -> dg.DynamicPartitionsDefinition:
    """`<job>/<what>`: the `processors` or the `hosts` of a job, named as tag `samza/job` names it, or `*/jobs`.

    As it is written: names and ids may have `_`, so `a/b_c` isn't `a_b/c` with another sign.
    """
    return dg.DynamicPartitionsDefinition(name=f"{job}/{what}")


def choice_of_a_job(
    action: str, job: str, samza: SamzaClientResource | None = None
) -> dg.PartitionedConfig[Any] | None:
    """Return the choice for a placement job, and what the form says once it is made; None without one.

    The run is tagged with its Samza job and its container group: by these the queue has its limits.
    """
    what = "processors" if action in BY_PROCESSOR else "hosts" if action in BY_HOST else "jobs"
    if what == "jobs" and not is_of_all(job):
        return None

    def tags_of(key: str) -> dict[str, str]:
        of = job
        if is_of_all(job):
            of = key.rpartition("/")[0] if action in BY_PROCESSOR | BY_HOST else key
        tags = job_tags(of, action)
        return tags | tags_from_run_config({}, {**tags, PARTITION: key})

    def config_of(key: str) -> dict[str, Any]:
        offered = OR.join(_destinations(samza.of_key(key), key)) if samza else ""
        config = {"destination": offered}
        return {"ops": {f"plan_{action}": {"config": config}}} if offered else {}

    return dg.PartitionedConfig(
        partitions_def=keys_of(job, what),
        run_config_for_partition_key_fn=config_of,
        tags_for_partition_key_fn=tags_of,
    )


def _destinations(samza: SamzaClientResource, key: str) -> list[str]:
    """Return the legal hosts for the processor of a partition: warm state first, then most room.

    None where it can't be told: the form stays as it was.
    """
    try:
        with closing(samza.open_client()) as client:
            plan = client.plan(subject_of(key, samza.tag), STANDBY)
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
    """Return the processor that the config names, else the chosen partition.

    Raises `InvalidInput` for neither, and `Refused` if both are given and differ, because the wanted
    one is unknown. Raises `Refused` in a backfill, which would act on every container without order or
    bound.
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


def choices_sensor(
    job: str, interval_s: int = 30, *, running: bool = True, prefix: str = ""
) -> dg.SensorDefinition:
    """`choices`: keeps the partitions of processors and hosts as the jobs have them now.

    `job` is the value of tag `samza/job`; that of each, in a component of several.
    """

    def look(context: dg.SensorEvaluationContext, samza: SamzaClientResource) -> TickResult:
        try:
            jobs = samza.each()
        except SamzaDagsterError as error:
            return dg.SkipReason(f"which Samza jobs there are isn't known: {error}")
        found = side_by_side(jobs, lambda one: _offered(one, is_of_all(job)), context.log)
        read = [one for one in found.values() if not isinstance(one, str)]
        summaries = sorted(f"{tag}: {why}" for tag, why in found.items() if isinstance(why, str))
        if jobs and not read:
            return dg.SkipReason("; ".join(summaries)[:2_000])
        # What couldn't be read is taken to be as it was.
        unread = tuple(f"{tag}/" for tag, one in found.items() if isinstance(one, str))
        offered = [
            (keys_of(job, "processors"), [key for units, _ in read for key in units]),
            (keys_of(job, "hosts"), [key for _, hosts in read for key in hosts]),
        ]
        if is_of_all(job):
            offered.append((keys_of(job, "jobs"), list(found)))
        requests: list[Any] = []
        for of, there in offered:
            known = context.instance.get_dynamic_partitions(str(of.name))
            new = sorted({*there} - {*known})
            gone = sorted({key for key in known if not key.startswith(unread)} - {*there})
            requests += [of.build_add_request(new)] if new else []
            requests += [of.build_delete_request(gone)] if gone else []
            summaries.append(f"{of.name}: {len(there)}, {len(new)} new, {len(gone)} gone")
        if not requests:
            return dg.SkipReason("; ".join(summaries)[:2_000])
        return dg.SensorResult(
            skip_reason="; ".join(summaries)[:2_000], dynamic_partitions_requests=requests
        )

    return job_sensor(
        "choices",
        look,
        prefix=prefix,
        interval_s=interval_s,
        running=running,
        description="Keeps the processors and hosts that the Launchpad offers current.",
    )


def _offered(samza: SamzaClientResource, is_one_of_many: bool) -> tuple[list[str], list[str]]:
    """Return the keys of a job's processors and of its hosts."""
    with closing(samza.open_client()) as client:
        view = client.view()
    within = f"{samza.tag}/" if is_one_of_many else ""
    units = [f"{within}{unit}" for unit in (*view.processors, *view.members)]
    return units, [f"{within}{host}" for host in view.hosts]
