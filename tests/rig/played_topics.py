"""What containers and the leader of a played job (`played_job`) tell outside of its stores."""

from __future__ import annotations

import functools
import io
import json
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping
from email.message import Message
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.response import addinfourl
from weakref import WeakValueDictionary

from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.naming import group_of, is_standby, lag_topic
from tests.rig.played_stores import (
    CHANGELOG,
    COMMITS,
    INPUT,
    JOB,
    JOB_ID,
    METRICS,
    partition_of,
    require_answer,
    task_of,
)

if TYPE_CHECKING:
    from tests.rig.played_job import PlayedJob


# Each is read again and again while it is the newest.
@functools.lru_cache(maxsize=10_000)
def commit(processor: str, offset: int, position: int, at_ms: int) -> TopicRecord:
    """What an active writes of its input, at a position of the checkpoint topic."""
    key = json.dumps({"taskName": task_of(processor), "type": "checkpoint-v2"}).encode()
    inputs = {f"kafka.{INPUT}.{partition_of(processor)}": str(offset)}
    value = json.dumps({"input-offsets": inputs}).encode()
    return TopicRecord(key, value, at_ms, position)


@functools.lru_cache(maxsize=10_000)
def report(
    processor: str,
    incarnation: str,
    host: str,
    at_ms: int,
    applied: tuple[int | None, ...],
    came_ms: int,
) -> TopicRecord:
    """What a container reports of its task: the last offset applied of each store's changelog, None: of none yet."""
    header = {
        "job-name": JOB,
        "job-id": JOB_ID,
        "source": f"TaskName-{task_of(processor)}",
        "host": host,
        "exec-env-container-id": incarnation,
        "time": at_ms,
    }
    gauges: dict[str, Any] = {"commit-calls": int(None not in applied)}
    for n, offset in enumerate(applied):
        if offset is not None and is_standby(processor):
            gauges[f"kafka-{CHANGELOG}-{n}-{partition_of(processor)}-offset"] = str(offset)
    metrics = {"org.apache.samza.container.TaskInstanceMetrics": gauges}
    value = json.dumps({"header": header, "metrics": metrics}).encode()
    return TopicRecord(None, value, came_ms)


class Topics:
    """What containers report and commit, and where their changelogs and inputs end."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job

    def close(self) -> None:
        """Nothing is open."""

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        require_answer(self._job)
        found = {(INPUT, n): OffsetRange(0, end) for n, end in self._job.inputs().items()}
        for group, ends in self._ends().items():
            for n, end in enumerate(ends):
                found[f"{CHANGELOG}-{n}", partition_of(group)] = OffsetRange(0, end)
        if COMMITS in topics:
            end = max((one.offset + 1 for one in self._job.commits()), default=0)
            found[COMMITS, 0] = OffsetRange(0, end)
        return {at: span for at, span in found.items() if at[0] in topics}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        del asked
        return {}

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord]:
        require_answer(self._job)
        if topic == COMMITS:
            return iter(self._job.commits())
        if topic == lag_topic(JOB, JOB_ID):
            return (TopicRecord(key, value, 0) for key, value in self._job.published)
        if topic != METRICS:
            return iter(())
        return (one for one in self.reports() if one is not None)

    def reports(self) -> Iterable[TopicRecord | None]:
        """The newest of each container."""
        ends, job = self._ends(), self._job
        for pid in job.at:
            left = job.lags_of(pid)
            if left is None:
                continue
            of_group = ends[group_of(pid)]
            applied = tuple(
                None if n is None else end - 1 - n for end, n in zip(of_group, left, strict=False)
            )
            at_ms, came_ms = job.reported_at(pid), job.came_at(pid)
            yield report(pid, job.incarnation(pid), job.at[pid], at_ms, applied, came_ms)

    def _ends(self) -> dict[str, list[int]]:
        """Of the changelogs of each group: the standby that is farthest behind has applied offset 1,000."""
        ends: dict[str, list[int]] = {}
        for pid in filter(self._job.has_state, self._job.at):
            of_group = ends.setdefault(group_of(pid), [1_001] * self._job.stores)
            for n, left in enumerate(self._job.lags_of(pid) or ()):
                of_group[n] = max(of_group[n], 1_001 + (left or 0))
        return ends


class Pages(urllib.request.BaseHandler):
    """Answers in the place of played leaders, at addresses that nothing else has."""

    handler_order = 100  # before urllib's own

    def __init__(self) -> None:
        self._jobs: WeakValueDictionary[str, PlayedJob] = WeakValueDictionary()

    def of(self, job: PlayedJob) -> str:
        """The leader's address."""
        name = f"leader-{id(job)}.test"
        self._jobs[name] = job
        return f"http://{name}"

    def http_open(self, request: urllib.request.Request) -> addinfourl | None:
        job = self._jobs.get(urlsplit(request.full_url).hostname or "")
        if job is None:
            return None
        told = {"hosts": {host: {"silent_ms": ms} for host, ms in job.words.items()}}
        page = io.BytesIO(json.dumps(told).encode())
        answer = addinfourl(page, Message(), request.full_url, 200)
        answer.msg = "OK"  # type: ignore[attr-defined]
        return answer


PAGES = Pages()
urllib.request.install_opener(urllib.request.build_opener(PAGES))
