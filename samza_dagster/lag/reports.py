"""What was reported of one replica of one changelog partition, as samples that can be compared. Pure.

Times are those of the records that brought the reports, as the brokers tell them. What a host's own
clock says is in no sample: a clock that is off changes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from samza_dagster.lag.forecasting import Applied
from samza_dagster.lag.records import records_behind


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """One report of a replica, and where its changelog began and ended when it came.

    `process` tells one process from another: its execution id, or its host where there is none.
    `applied_offset` is the last offset applied, None before the first.
    """

    came_ms: int
    process: str
    applied_offset: int | None
    beginning: int
    end: int


@dataclass(frozen=True, slots=True)
class Course:
    """The samples of a replica's newest process in the changelog that is there now.

    `unknown_because` says why its newest report tells no lag; empty: it tells one. Its words are those
    of the tables: `no-observation`, `beyond-end`.
    """

    samples: tuple[Applied, ...] = ()
    unknown_because: str = ""


def course(reports: Iterable[ReplicaReport]) -> Course:
    """What can be compared of reports in order of time.

    What another process reported before tells nothing of the one that is there, nor does what was
    applied of a topic that has been made anew: its end, or what is applied, went back. There the
    process tells its former offset until it applies anything of the new topic.
    """
    samples: list[Applied] = []
    newest: ReplicaReport | None = None
    of_former: int | None = None
    unknown = "no-observation"
    for report in reports:
        if newest is None or report.process != newest.process:
            samples.clear()
            of_former = None
        elif report.end < newest.end:
            samples.clear()
            went_back = (report.applied_offset or 0) < (newest.applied_offset or 0)
            of_former = None if went_back else report.applied_offset
        newest, applied = report, report.applied_offset
        lag = records_behind(report.beginning, report.end, applied)
        if lag is None or (lag and applied == of_former):
            samples.clear()
            unknown = "no-observation" if applied is None else "beyond-end"
            continue
        unknown = ""
        sample = Applied(report.came_ms, report.end - lag, report.end)
        if samples and sample.applied < samples[-1].applied:
            samples.clear()
        samples.append(sample)
    return Course(tuple(samples), unknown)
