"""Names that Samza derives: topics, standby ids, store directories.

Sources: Samza's `CoordinatorStreamUtil`, `KafkaCheckpointManagerFactory`,
`StandbyTaskUtil`, `StorageManagerUtil` (1.8.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from samza_dagster.errors import InvalidInput, Refused

ANY_HOST = "ANY_HOST"
LAST_SEEN = "LAST_SEEN"
FORCE_RESTART_LAST_SEEN = "FORCE_RESTART_LAST_SEEN"
STANDBY = "STANDBY"
STANDALONE_DEPLOYMENT = "standalone"
"""The deployment id of a standalone group's placement messages: there is one alone."""
ONE_MORE = "-new"
"""Ends the id of a standby that an active has not yet; see `one_more_of`."""
DESTINATION_WORDS = frozenset({ANY_HOST, LAST_SEEN, FORCE_RESTART_LAST_SEEN, STANDBY})

_ESCAPED = re.compile(r"\.(?=\.[0-9a-f]{2})|[^A-Za-z0-9._-]")
_ESCAPED_IN_AN_ID = re.compile(r"\.(?=\.[0-9a-f]{2})|[^A-Za-z0-9._]")

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_A_STANDBY = re.compile(rf"(?!{_UUID}$)({_UUID}|[^-]+)-.+", re.IGNORECASE)


def _flat(name: str) -> str:
    return name.replace("_", "-")


def coordinator_stream_topic(job_name: str, job_id: str) -> str:
    """Return the coordinator stream's topic; `_` inside name or id becomes `-`."""
    return f"__samza_coordinator_{_flat(job_name)}_{_flat(job_id)}"


def checkpoint_topic(job_name: str, job_id: str) -> str:
    """Return the checkpoint topic (`KafkaCheckpointManagerFactory.getTopicName`)."""
    return f"__samza_checkpoint_ver_1_for_{_flat(job_name)}_{_flat(job_id)}"


def state_topic(job_name: str, job_id: str) -> str:
    """Return the topic of our durable state: one partition, compacted, written in transactions."""
    return f"__samza_dagster_{_flat(job_name)}_{_flat(job_id)}"


def audit_topic(job_name: str, job_id: str) -> str:
    """Return the topic of our certificates and history: one partition, retained by time."""
    return f"__samza_dagster_audit_{_flat(job_name)}_{_flat(job_id)}"


def lag_topic(job_name: str, job_id: str) -> str:
    """Return the topic of standbys' newest readiness: one partition, compacted by the standby's id."""
    return f"__samza_dagster_lag_{_flat(job_name)}_{_flat(job_id)}"


def require_owner(config: Mapping[str, str], job_name: str, job_id: str) -> None:
    """Raise `Refused` when the config in a coordinator stream is another job's.

    `wd_v1` and `wd-v1` have one coordinator stream, one state topic and one audit topic.
    A stream without `job.name` is free; without `job.id` it is the job's with id 1.
    """
    name, ident = config.get("job.name"), config.get("job.id") or "1"
    if name and (name, ident) != (job_name, job_id):
        raise Refused(
            f"job {job_name}, id {job_id}",
            seen=f"topic {coordinator_stream_topic(job_name, job_id)} is of job {name}, "
            f"id {ident}: names of topics have '-' for '_'",
            fix=f"job.name={name} and job.id={ident} for that job; for one of its own another "
            "job.name or job.id",
        )


def own_name(job_name: str, job_id: str) -> str:
    """Return `<name>-<id>`, unique to a job: the form in which names of ours contain both.

    It is split at its last `-`: `..<hex>` replaces a `-` inside the id, and in either part each
    byte that is no letter, digit, `.`, `_` or `-`. It is safe as a part of a path and of a URL.
    """
    return f"{_ESCAPED.sub(_hex, job_name)}-{_ESCAPED_IN_AN_ID.sub(_hex, job_id)}"


def _hex(found: re.Match[str]) -> str:
    return "".join(f"..{byte:02x}" for byte in found[0].encode())


def transactional_id(job_name: str, job_id: str) -> str:
    """Return the transactional id of the state topic's one writer: one id a topic.

    Jobs that share the topic by Samza's rule for names share it too, and fence one another.
    """
    return f"samza-dagster-{own_name(_flat(job_name), _flat(job_id))}"


def is_standby(processor_id: str) -> bool:
    """Return whether an id with `-` in it is a standby's, by Samza's rule (`StandbyTaskUtil`).

    The hyphens of a UUID don't count. A job's tasks, where they are known, decide for every id.
    """
    return _OF_A_STANDBY.fullmatch(processor_id) is not None


def group_of(processor_id: str) -> str:
    """Return the active's processor id by the same rule: the name of its group with its standbys.

    Where tasks are placed, return the active task's name of a standby task.
    """
    if processor_id.startswith("Standby-"):
        return active_task_of(processor_id)
    found = _OF_A_STANDBY.fullmatch(processor_id)
    return processor_id if found is None else found[1]


def standby_container_id(active_id: str, replica: int) -> str:
    """Return `<active>-<replica>`, replica counted from 0."""
    return f"{active_id}-{replica}"


def standby_task_name(active_task: str, replica: int) -> str:
    """Return `Standby-<active task>-<replica>`.

    Raises `InvalidInput` for a task name with `-` in it: Samza takes the
    part between the first and the second `-` for the active's name.
    """
    if "-" in active_task:
        raise InvalidInput(
            f"a standby for task {active_task!r}",
            seen="'-' in the task name, which Samza reads as a separator",
            fix="a stream partition grouper whose task names have no '-'",
        )
    return f"Standby-{active_task}-{replica}"


def active_task_of(task_name: str) -> str:
    """Return the active task that a standby task shadows; an active task's own name."""
    parts = task_name.split("-")
    return parts[1] if len(parts) >= 3 and parts[0] == "Standby" else task_name


def store_directory(job_name: str, job_id: str, store: str, task_name: str) -> str:
    """Return the path of a task's store below `LOGGED_STORE_BASE_DIR`.

    It is the same for an active and its standby, which is why they can't share a host.
    """
    return f"{job_name}-{job_id}/{store}/{active_task_of(task_name).replace(' ', '_')}"


def one_more_of(active_id: str) -> str:
    """Return a unique id for one more standby of an active."""
    return f"{active_id}{ONE_MORE}"


def with_ids(jobs: Iterable[str]) -> list[str]:
    """Return each job as `<name>/<id>`; one without an id has id 1, as in Samza."""
    return [job if "/" in job else f"{job}/1" for job in jobs]


def is_pattern(job: str) -> bool:
    """Return whether it is a pattern for any number of jobs."""
    return any(sign in job for sign in "*?[")


def jobs_of(names: Iterable[str], deployed: Callable[[], Iterable[str]]) -> list[str]:
    """Return jobs by their names, each `<name>/<id>`, and by patterns of the `deployed` ones."""
    patterns = [name for name in names if is_pattern(name)]
    found = deployed() if patterns else ()
    matching = [job for job in found if any(fnmatchcase(job, one) for one in patterns)]
    return sorted({*matching, *(name for name in names if not is_pattern(name))})
