"""The choices that exist, offered by the Launchpad: processors and hosts as dynamic partitions.

A sensor keeps them current. A placement job takes its processor (`drain_host` its host)
from the chosen partition when its config names none, and refuses two that differ.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

from collections.abc import Collection
from functools import cache
from typing import Any

import dagster as dg

from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import BY_HOST
from samza_dagster.orchestration.ticks import least_seconds

SENSOR = "choices"
BACKFILL = "dagster/backfill"
BY_PROCESSOR = frozenset(
    {
        *("move_container", "restart_container", "move_with_standby", "relocate_standby"),
        *("fail_over", "spin_up_standby", "move_via_new_standby"),
    }
)


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


def choices_for(action: str, job: str) -> dg.DynamicPartitionsDefinition | None:
    """What one chooses for a placement job; None for one that is about the whole job."""
    if action in BY_PROCESSOR:
        return processors_of(job)
    return hosts_of(job) if action in BY_HOST else None


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


def choices_sensor(job: str, interval_s: int = 30, *, running: bool = True) -> dg.SensorDefinition:
    """`choices`: keeps the partitions of processors and hosts as the job has them now.

    `job` is the value of tag `samza/job`.
    """

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=SENSOR,
        minimum_interval_seconds=least_seconds(interval_s),
        default_status=dg.DefaultSensorStatus.RUNNING
        if running
        else dg.DefaultSensorStatus.STOPPED,
        description="Keeps the processors and hosts that the Launchpad offers current.",
    )
    def choices(
        context: dg.SensorEvaluationContext, samza: SamzaClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            client = samza.open_client()
            try:
                view = client.view()
            finally:
                client.close()
        except SamzaDagsterError as error:
            return dg.SkipReason(f"the job can't be read: {error}")
        requests: list[Any] = []
        told: list[str] = []
        for partitions, there in (
            (processors_of(job), list(view.processors)),
            (hosts_of(job), list(view.hosts)),
        ):
            known = context.instance.get_dynamic_partitions(str(partitions.name))
            new, gone = changes(known, there)
            if new:
                requests.append(partitions.build_add_request(new))
            if gone:
                requests.append(partitions.build_delete_request(gone))
            told.append(f"{partitions.name}: {len(there)}, {len(new)} new, {len(gone)} gone")
        if not requests:
            return dg.SkipReason("; ".join(told))
        return dg.SensorResult(skip_reason="; ".join(told), dynamic_partitions_requests=requests)

    return choices
