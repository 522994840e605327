"""Run tags: which job and container group a run acts on, which action, who and why.

`samza/container-group` is what a limit per unique value holds runs apart by: a container
group, or for what acts on several of them, the action and its host. It is
derived from the run's config on every road by which a run is launched: see
`run_coordinator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from samza_dagster.model.naming import group_of

JOB = "samza/job"
GROUP = "samza/container-group"
ACTION = "samza/action"
WHO = "samza/who"
WHY = "samza/why"
TICKET = "samza/ticket"
EVENT = "samza/event"
"""Of an asset's observation: what kind of event it is."""

PARTITION = "dagster/partition"
BY_HOST = frozenset({"drain_host"})  # their partitions are hosts, all others' processors

_FROM_CONFIG = {WHO: "requested_by", WHY: "reason", TICKET: "ticket"}


def job_tag(job: str, prefix: str = "") -> str:
    """Value of `samza/job`: `<name>/<id>`, under a prefix `<prefix>/<name>/<id>`.

    Two clusters may have jobs of one name and id; runs are selected by this tag. Neither
    a job's name nor its id has a `/`, so the one isn't taken for the other.
    """
    return f"{prefix}/{job}" if prefix else job


def job_tags(job: str, action: str) -> dict[str, str]:
    """Tags that every run of a placement job carries; `job` as `job_tag` has it."""
    return {JOB: job, ACTION: action}


def group_tag(job: str, processor_id: str) -> str:
    """Value of `samza/container-group`: that of `samza/job`, then `/<group>`."""
    return f"{job}/{group_of(processor_id)}"


def tags_from_run_config(run_config: object, tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that a run's config implies.

    `tags` are those that the run has; without `samza/job` and `samza/action` it is
    not a placement run and nothing is implied. Malformed config implies nothing:
    Dagster refuses it later with its own message.
    """
    if JOB not in tags or ACTION not in tags:
        return {}
    by_host = tags[ACTION] in BY_HOST
    for config in _op_configs(run_config) or [{}]:
        implied: dict[str, str] = {}
        subject = config.get("host" if by_host else "processor") or tags.get(PARTITION)
        if isinstance(subject, str) and subject:
            implied[GROUP] = (
                f"{tags[JOB]}/{tags[ACTION]}/{subject}"
                if by_host
                else group_tag(tags[JOB], subject)
            )
        for tag, field in _FROM_CONFIG.items():
            value = config.get(field)
            if isinstance(value, str) and value:
                implied[tag] = value
        if implied:
            return implied
    return {}


def _op_configs(run_config: object) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    if not isinstance(run_config, Mapping):
        return found
    ops = cast("Mapping[str, object]", run_config).get("ops")
    if not isinstance(ops, Mapping):
        return found
    for op in cast("Mapping[str, object]", ops).values():
        if isinstance(op, Mapping):
            config = cast("Mapping[str, object]", op).get("config")
            if isinstance(config, Mapping):
                found.append(cast("Mapping[str, Any]", config))
    return found
