"""From what was found of many jobs to the rows of all datasets, in Spark's Python workers or in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from samza_dagster.lag import Bounds, Speeds
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic, coordinator_stream_topic, state_topic
from samza_dagster.snapshots import rows
from samza_dagster.snapshots.found import Found
from samza_dagster.snapshots.history import earlier_reports, last_heard_ms
from samza_dagster.snapshots.job import KEPT_REPORTS, Job
from samza_dagster.snapshots.reading import JobId
from samza_dagster.snapshots.rows import Row
from samza_dagster.snapshots.tables import Tables, arrow_table

LEAST_JOBS, MOST_JOBS = 10, 100
"""Of a part: of fewer it isn't worth a worker, of more it takes a worker much memory."""
START_S = 10.0
"""From the start of a container's process until it restores, while none was seen."""
_OWN_TOPICS = (coordinator_stream_topic, checkpoint_topic, state_topic)
Pieces = Mapping[JobId, Sequence[bytes]]


def parts(pieces: Pieces, size: int) -> list[Pieces]:
    """Deal jobs into parts of so many, or of as many as a part may have."""
    jobs, size = sorted(pieces), min(size, MOST_JOBS)
    return [{job: pieces[job] for job in jobs[at : at + size]} for at in range(0, len(jobs), size)]


class Judged(NamedTuple):
    """The rows of some jobs: table → `pyarrow.Table`; and a job, key and value of each record of its lag topic."""

    tables: Mapping[str, Any]
    published: Sequence[tuple[JobId, bytes, bytes]]


@dataclass(frozen=True)
class Judge:
    """What the workers must know: whose cluster and tables, and the time.

    `unread`: topic or job → why it couldn't be read. `newest_ms`: topic → when its newest record came, by the brokers' clock. `speeds` are those of past restores.
    `window_ms` is how far back reports and commits were read.
    """

    tables: Tables
    servers: str
    client_config: Mapping[str, str]
    unread: Mapping[str, str]
    newest_ms: Mapping[str, int]
    at_ms: int
    window_ms: int
    bounds: Bounds
    speeds: Speeds

    def judged(self, part: Pieces) -> Judged:
        """Judge a part's jobs; run by a worker.

        The end of a changelog is asked for after all that tells what was applied of it.
        """
        jobs = [Job(*job, Found.of(map(Found.unpacked, pieces))) for job, pieces in part.items()]
        with closing(KafkaJobTopics(KafkaCluster(self.servers, self.client_config))) as topics:
            names = {store.topic for job in jobs for store in job.changelogs}
            ranges: Ranges = topics.offset_ranges(names) if names else {}
            earlier = self._earlier(jobs)
            known = [(job, rows.replicas(job, ranges, earlier.get(job.ident, {}))) for job in jobs]
            times = {
                at for job, every in known for r in every for at in r.times_asked(job.patience_ms)
            }
            first_since = topics.offsets_since(times) if times else {}
        # Of those of which nothing is in the window, earlier snapshots tell when they were heard.
        unheard = {
            (*job.ident, one.task.name, one.store.store): one
            for job, every in known
            for one in every
            if not one.said
        }
        heard = last_heard_ms(self.tables, unheard.keys(), self.at_ms) if unheard else {}
        for at, ms in heard.items():
            unheard[at].silent_ms = self.at_ms - ms
        found, published = defaultdict[str, list[Row]](list), list[tuple[JobId, bytes, bytes]]()
        for job, every in known:
            its_topics = {checkpoint_topic(*job.ident), *metrics_topics(job.config)}
            observed = not its_topics & self.unread.keys()
            own = (name(*job.ident) for name in _OWN_TOPICS)
            unread = "; ".join(self.unread[topic] for topic in own if topic in self.unread)
            lags = [
                one.measure(job.patience_ms, first_since, all_observed=observed) for one in every
            ]
            standbys, records = rows.with_readiness(
                job, every, first_since, self.bounds, self.newest_ms
            )
            published += [(job.ident, *record) for record in records]
            stamp: Row = {
                "snapshot_time": self.at_ms,
                "job_name": job.name or None,
                "job_id": job.id or None,
                "deployment_id": job.deployment_id,
            }
            its: Mapping[str, Iterable[Row]] = {
                "container_locality": rows.container_rows(job),
                "task_locality": rows.task_rows(job),
                "changelog_lag": lags,
                "standby_readiness": standbys,
                **rows.restore_rows(job, every, rows.speeds_for(job, lags, self.speeds, START_S)),
                "violations": rows.violation_rows(job, every),
                "snapshots": [{"unreadable": job.found.unreadable, "unread": unread or None}],
            }
            for table, mine in its.items():
                found[table] += [{**stamp, **row} for row in mine]
        return Judged({table: arrow_table(table, mine) for table, mine in found.items()}, published)

    def _earlier(self, jobs: Sequence[Job]) -> Mapping[JobId, Mapping[Any, Any]]:
        """What earlier snapshots had of reports that are too old to be read again and still tell a pace."""
        since_ms = self.at_ms - KEPT_REPORTS * max(job.report_ms for job in jobs)
        before_ms = self.at_ms - self.window_ms
        if since_ms >= before_ms:
            return {}
        names = {job.name for job in jobs}
        return earlier_reports(self.tables, names, self.at_ms, since_ms, before_ms)
