"""Run tags: the job and container group a run acts on, its action, its requester and the reason.

Two of them are limited by the queue: of `samza/container-group` one run per value, of
`samza/slot` so many per Samza job. The group is a container group, or for what acts on several
of them, the action and its host. A partition that is chosen brings it (`choices`); a run that has none
tags itself by its config as it begins. A run that asks nothing of the Samza job has neither; a dry
run lets go of both as it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from samza_dagster.model.naming import group_of

JOB = "samza/job"
GROUP = "samza/container-group"
SLOT = "samza/slot"
"""The job of a run that asks something of it: by it the queue limits the runs of one Samza job."""
SNAPSHOT_OF = "samza/snapshot-of"
"""The brokers and Samza jobs of a snapshot: another code location's job may have the same name."""
ACTION = "samza/action"
WHO = "samza/who"
WHY = "samza/why"
TICKET = "samza/ticket"
CASE = "samza/case"
"""Of a run that `auto_failover` requested: the failure that it is for, as its events name it."""
EVENT = "samza/event"
"""Of an asset's observation: what kind of event it is."""

PARTITION = "dagster/partition"
BY_HOST = frozenset({"drain_host"})  # their partitions are hosts, all others' processors
ALONE = frozenset({"rolling_bounce"})
"""One run of a Samza job at a time: it is about the whole job."""
ASK_NOTHING = frozenset(
    {
        "acknowledge_failover",
        *("snapshot_assets", "look_at_fleet"),
    }
)

MOST_TAG_BYTES = 2_400
"""Of a tag's value: PostgreSQL's index over keys and values takes 2,704 bytes a row."""

FROM_CONFIG = {WHO: "requested_by", WHY: "reason", TICKET: "ticket"}


ALL = "*"
"""In the place of a job's name and id: each of the component's jobs."""


def is_of_all(job: str) -> bool:
    """Return whether a value as `job_tag` has it stands for each job of a component."""
    return job.endswith(ALL)


def job_tag(job: str, prefix: str = "") -> str:
    """Value of `samza/job`: `<name>/<id>`, under a prefix `<prefix>/<name>/<id>`.

    Two clusters may have jobs of one name and id; runs are selected by this tag. Neither
    a job's name nor its id has a `/`, so the one isn't taken for the other.
    """
    return f"{prefix}/{job}" if prefix else job


def job_tags(job: str, action: str) -> dict[str, str]:
    """Tags that every run of a placement job carries; `job` as `job_tag` has it.

    Of a component of several Samza jobs the run says which one it is about, by its partition.
    """
    if is_of_all(job):
        return {ACTION: action}
    tags = {JOB: job, ACTION: action}
    if action not in ASK_NOTHING:
        tags[SLOT] = job
    if action in ALONE:
        tags[GROUP] = f"{job}/{action}"
    return tags


def group_tag(job: str, processor_id: str) -> str:
    """Value of `samza/container-group`: that of `samza/job`, then `/<group>`.

    By the rule of names: where a run is submitted no job is at hand, and one value has to come of
    every road.
    """
    return f"{job}/{group_of(processor_id)}"


def subject_of(partition: str, job: str) -> str:
    """The processor or host that a partition names; one of several Samza jobs has the job before it."""
    return "" if partition == job else partition.removeprefix(f"{job}/")


def names_within(names: Iterable[str]) -> str:
    """Return as many of the names, joined by commas, as a tag's value takes."""
    kept, size = list[str](), 0
    for name in names:
        size += len(name.encode()) + 1
        if size > MOST_TAG_BYTES + 1:
            break
        kept.append(name)
    return ",".join(kept)


def is_dry(run_config: object) -> bool:
    """Return whether the config says that nothing is to be asked."""
    return any(config.get("dry_run") is True for config in _op_configs(run_config))


def tags_from_run_config(
    run_config: object, tags: Mapping[str, str], run_id: str = ""
) -> dict[str, str]:
    """The tags that a run's config implies.

    `tags` are those that the run has; without `samza/job` and `samza/action` it is
    not a placement run and nothing is implied. Malformed config implies nothing of its own:
    Dagster refuses it later with its own message. A tag can't be taken from a run: limited ones
    that the job or a copied run has given to one that asks nothing get a value of its own, made
    of `run_id`.
    """
    if JOB not in tags or ACTION not in tags:
        return {}
    job, action = tags[JOB], tags[ACTION]
    implied = _said(run_config)
    group = _group(run_config, tags)
    if action in ASK_NOTHING or is_dry(run_config):
        implied |= {tag: f"asks-nothing/{run_id}" for tag in (GROUP, SLOT) if tag in tags}
        return implied
    if group:
        implied[GROUP] = group
    if tags.get(SLOT) not in (None, job):
        implied[SLOT] = job
    return implied


def _group(run_config: object, tags: Mapping[str, str]) -> str:
    job, action = tags[JOB], tags[ACTION]
    if action in ALONE:
        return f"{job}/{action}"
    by_host = action in BY_HOST
    named = (c.get("host" if by_host else "processor") for c in _op_configs(run_config))
    subject = next((name for name in named if name), subject_of(tags.get(PARTITION, ""), job))
    if not isinstance(subject, str) or not subject:
        return ""
    return f"{job}/{action}/{subject}" if by_host else group_tag(job, subject)


def _said(run_config: object) -> dict[str, str]:
    """Return requester, reason and ticket of the first op whose config has any of them."""
    for config in _op_configs(run_config):
        asked = {tag: config.get(field) for tag, field in FROM_CONFIG.items()}
        kept = {tag: value for tag, value in asked.items() if isinstance(value, str) and value}
        if kept:
            return kept
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
