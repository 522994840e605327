"""Where hosts' clocks disagree, by the reports that stand in a job's metrics topics: nothing is waited for.

A topic tells which of two reports of one partition was written first, whatever their hosts' clocks
say. One that dates its messages by the broker's clock tells how far each host is from that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from samza_dagster.client.access import JobAccess
from samza_dagster.errors import Unreachable
from samza_dagster.model.metrics_snapshots import host_time, metrics_topics

_TOLERATED_MS = 5_000
_LOOK_BACK_INTERVALS = 5
_NEWEST = 5


@dataclass(frozen=True, order=True)
class StandingReport:
    """A report of a host and its position; `at_ms` is by the host's clock, `appended_ms` by the broker's.

    `appended_ms` is None in a topic that dates its messages by their producers' clocks.
    """

    topic: str
    partition: int
    offset: int
    host: str
    at_ms: int
    appended_ms: int | None = None


def standing_reports(job: JobAccess) -> tuple[list[StandingReport], list[Unreachable]]:
    """The reports of the last intervals of each reporter, and what couldn't be read of them."""
    found: list[StandingReport] = []
    unread: list[Unreachable] = []
    if job.topics is None:
        return found, unread
    for topic, interval_s in metrics_topics(job.reader().config()).items():
        for record in job.topics.tail(topic, _LOOK_BACK_INTERVALS * interval_s * 1000):
            if isinstance(record, Unreachable):
                unread.append(record)
                continue
            report = host_time(record.value, (job.job_name, job.job_id))
            if report is not None:
                appended_ms = record.timestamp_ms if record.by_broker else None
                found.append(
                    StandingReport(topic, record.partition, record.offset, *report, appended_ms)
                )
    return found, unread


def disagreements(reports: Iterable[StandingReport], now_ms: int) -> dict[str, str]:
    """Host → how its clock is wrong as far as its reports show; empty: they show nothing of it.

    A host's clock is wrong if it is more than 5 s from the broker's, or if it reports from the future of
    this machine. It is also wrong if it is that far from more than half of the others by at least two
    reports: a single one may have come late.
    """
    first = _each_once(reports)
    apart = _apart(first)
    hosts = sorted({report.host for report in first})
    found: dict[str, str] = {}
    for host in hosts:
        mine = [report for report in first if report.host == host]
        others = {other: ms for (one, other), ms in apart.items() if one == host}
        far = max(others, key=lambda other: abs(others[other]), default="")
        dated = [r.at_ms - r.appended_ms for r in mine[-_NEWEST:] if r.appended_ms is not None]
        ahead_ms = max(report.at_ms for report in mine) - now_ms
        found[host] = ""
        if dated and abs(median(dated)) > _TOLERATED_MS:
            found[host] = f"{_far(median(dated))} the broker's, by which its reports are dated"
        elif ahead_ms > _TOLERATED_MS:
            found[host] = f"at least {_far(ahead_ms)} this machine's, by its newest report"
        elif 2 * len(others) > len(hosts) - 1:
            found[host] = (
                f"at least {_far(others[far])} that of {far}, by the order of their reports"
            )
    return found


def _far(ms: float) -> str:
    return f"{abs(ms) / 1000:.0f} s {'ahead of' if ms > 0 else 'behind'}"


def _each_once(reports: Iterable[StandingReport]) -> list[StandingReport]:
    """Return the reports in order; of the records of one report only the first."""
    seen: set[tuple[str, int, str, int]] = set()
    found: list[StandingReport] = []
    for report in sorted(reports):
        key = report.topic, report.partition, report.host, report.at_ms
        if key not in seen:
            seen.add(key)
            found.append(report)
    return found


def _apart(reports: Sequence[StandingReport]) -> dict[tuple[str, str], int]:
    """Two hosts → by how many ms the first is certainly ahead of the second (below 0: behind)."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    for _, of_partition in groupby(reports, key=lambda r: (r.topic, r.partition)):
        for behind, ahead, ms in _out_of_order(of_partition):
            seen[behind, ahead].append(ms)
    found: dict[tuple[str, str], int] = {}
    for (behind, ahead), differences in seen.items():
        if len(differences) > 1:
            certain = sorted(differences)[-2]
            found[behind, ahead], found[ahead, behind] = -certain, certain
    return found


def _out_of_order(reports: Iterable[StandingReport]) -> Iterator[tuple[str, str, int]]:
    """Return reports with a later position and an earlier date than another host's report."""
    newest: dict[str, int] = {}
    for report in reports:
        for other, at_ms in newest.items():
            if other != report.host and at_ms - report.at_ms > _TOLERATED_MS:
                yield report.host, other, at_ms - report.at_ms
        newest[report.host] = report.at_ms
