"""Every input of a snapshot, in each state that it may be in: a right row, an unknown with its reason, or one line.

What one job alone is told by is tried in one fleet: each case is a job of it, and one snapshot is taken of all.
So each case also shows that it costs no other job anything.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle  # noqa: TID253 - what it pickles is what is tested

from samza_dagster.errors import MissingPrerequisite, Refused, SamzaDagsterError
from samza_dagster.lag import Judgement, StandbyStatus, newest_readiness, published
from samza_dagster.metadata import Connection, KafkaCluster
from samza_dagster.metadata.job_topics import KafkaJobTopics
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.naming import (
    checkpoint_topic,
    coordinator_stream_topic,
    lag_topic,
    state_topic,
)
from samza_dagster.placement import codec
from samza_dagster.placement.state import Group, Incarnation, JobState, Phase, Processor, Role
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, fleet, reading, take_fleet
from samza_dagster.snapshots.schemas import TABLES
from samza_dagster.snapshots.secrets import WORKER_SECRETS, Secret
from samza_dagster.snapshots.tables import arrow_table
from tests.spark.conftest import Record, Topics, at, checkpoint_v1, deletion, metrics_report
from tests.spark.reported import HOSTS, HOUR_MS, NOW_MS, TASKS, Reported, commit, deployed, report

pytestmark = pytest.mark.spark

DAY_MS = 24 * HOUR_MS
STREAM, CHECKPOINTS, METRICS = "coordinator stream", "checkpoints", "metrics"
STATE, CHANGELOG, LAG, HISTORY = "our state", "changelog", "lag topic", "history"
TOPICS: Mapping[str, Callable[[str], str]] = {
    STREAM: lambda job: coordinator_stream_topic(job, "1"),
    CHECKPOINTS: lambda job: checkpoint_topic(job, "1"),
    METRICS: lambda job: f"{job}-metrics",
    STATE: lambda job: state_topic(job, "1"),
    CHANGELOG: lambda job: f"{job}-changelog",
    LAG: lambda job: lag_topic(job, "1"),
}
WHOLE: Mapping[str, Callable[[str], Any]] = {
    STREAM: deployed,
    CHECKPOINTS: lambda job: [commit(job, 9)],
    METRICS: lambda job: [report(job, 7)],
    STATE: lambda _: None,
    CHANGELOG: lambda _: [("k", "v", 1)] * 10,
    LAG: lambda _: None,
    HISTORY: lambda _: [],
}
"""What the topics of a job hold; None: there is no such topic. Of ten records the standby has 0 to 7."""

Lag = tuple[int | None, int | None, str | None]
"""Applied offset, lag in records, and why that isn't known."""


@dataclass(frozen=True)
class Told:
    """What is right to tell of a job; by default of one whose topics are as in `WHOLE`.

    `refusal` is what its one line has in it; with one, nothing else is told of it.
    """

    hosts: Mapping[str, str | None] = field(default_factory=lambda: HOSTS)
    standby: Lag | None = (7, 2, None)
    active: Lag | None = (9, 0, None)
    rules: tuple[str, ...] = ()
    phases: tuple[str | None, ...] = (None, None)
    status: str = "unproven"
    why: str | None = None
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class Case:
    """One input in one state: what is there of it, by the job's name, and what is right then."""

    input: str
    state: str
    content: Callable[[str], Any]
    told: Told = Told()

    def __str__(self) -> str:
        return f"{self.input}, {self.state}"


def twice(content: Callable[[str], list[Record]]) -> Callable[[str], list[Record]]:
    return lambda job: [*content(job), *content(job)]


def cut(content: Callable[[str], list[Record]]) -> Callable[[str], list[Record]]:
    """Only the first half of each value was written."""
    return lambda job: [
        (key, value and value[: len(value) // 2], ms) for key, value, ms in content(job)
    ]


def dated(content: Callable[[str], list[Record]], ms: int) -> Callable[[str], list[Record]]:
    return lambda job: [(key, value, ms) for key, value, _ in content(job)]


def coordinated(run: str, phase: Phase = Phase.RUNNING) -> list[Record]:
    """Our coordinator has the active of deployment `run` on h5, and its standby on h1."""

    def one(name: str, role: Role, host: str) -> Processor:
        return Processor(name, role, phase, Incarnation(1, f"{name}-of-1", host, "r"))

    members = {"0": one("0", Role.ACTIVE, "h5"), "0-0": one("0-0", Role.STANDBY, "h1")}
    records = [
        ("job", {"state": codec.job_to_json(JobState("edge/1", run))}),
        ("group/0", {"epoch": 1, "group": codec.group_to_json(Group("0", members))}),
    ]
    encoded = [encode_record(key, value) for key, value in records]
    return [(key.decode(), (value or b"").decode(), NOW_MS - 60_000) for key, value in encoded]


def another_job_s(job: str) -> Record:
    """A report of a task of the same name and of the same changelog."""
    gauges = {f"kafka-{job}-changelog-0-offset": 7}
    return metrics_report("other", "Standby-Partition 0-0", "h1", gauges, NOW_MS - 5_000)


def was_ready(job: str, ms: int = NOW_MS - HOUR_MS) -> list[Record]:
    """What an earlier snapshot has published of the standby."""
    verdict = Judgement(StandbyStatus.READY, f"as of an earlier snapshot of {job}")
    key, value = published("0-0", verdict, {}, ms)
    return [(key.decode(), value.decode(), ms)]


def heard(
    ago_ms: int, came_ms: int | None, **other: object
) -> Callable[[str], list[dict[str, Any]]]:
    """A row of an earlier snapshot, `ago_ms` before, of the standby's replica."""
    return lambda job: [
        {
            "snapshot_time": NOW_MS - ago_ms,
            "job_name": job,
            "job_id": "1",
            "task_name": "Standby-Partition 0-0",
            "store": "s",
            "came_at": came_ms,
            "observed_at": came_ms,
            **other,
        }
    ]


NOBODY = Told(refusal="no job.name")
NO_COMMIT = Told(active=(None, None, "no-observation"))
NO_REPORT = Told(standby=(None, None, "no-observation"), status="unknown")
SILENT = "its newest report came 600 s ago, and it reports every 10 s"
NOT_HEARD = Told(standby=(None, None, "not-heard"), status="silent", why=SILENT)
COORDINATED = Told(hosts={"0": "h5", "0-0": "h1"}, phases=("running", "running"))
GONE = Told(
    standby=(7, None, "no-changelog"),
    active=(9, None, "no-changelog"),
    rules=("no-changelog",),
    status="unknown",
)
BEYOND_END = Told(standby=(7, None, "beyond-end"), active=(9, None, "beyond-end"), status="unknown")
TEN_MIN_MS = 600_000

CASES = (
    Case(STREAM, "whole", deployed),
    Case(STREAM, "absent", lambda _: None, Told(refusal="no topic __samza_coordinator_")),
    Case(STREAM, "empty", lambda _: [], NOBODY),
    Case(STREAM, "older", dated(deployed, 1)),
    Case(STREAM, "newer", dated(deployed, NOW_MS + 400 * DAY_MS)),
    Case(STREAM, "shorter: its beginning is gone", lambda job: deployed(job)[9:], NOBODY),
    Case(
        STREAM,
        "shorter: its end is gone",
        lambda job: deployed(job)[:-2],
        Told({"0": None, "0-0": None}, rules=("no-host", "no-host")),
    ),
    Case(STREAM, "cut", cut(deployed), NOBODY),
    Case(STREAM, "doubled", twice(deployed)),
    Case(STREAM, "foreign", lambda job: deployed(job.replace("-", "_")), Told(refusal="is of job")),
    Case(
        STREAM,
        "foreign to us: what others write there",
        lambda job: [*deployed(job), ('[1,"set-other","x"]', '{"values":{}}', 1)],
    ),
    Case(CHECKPOINTS, "absent", lambda _: None, NO_COMMIT),
    Case(CHECKPOINTS, "empty", lambda _: [], NO_COMMIT),
    Case(CHECKPOINTS, "older", lambda job: [commit(job, 9, NOW_MS - HOUR_MS)], NO_COMMIT),
    Case(CHECKPOINTS, "newer", lambda job: [commit(job, 9, NOW_MS + 60 * DAY_MS)]),
    Case(
        CHECKPOINTS,
        "newer, and another was written after it",
        lambda job: [
            commit(job, 8, NOW_MS + 60 * DAY_MS),
            checkpoint_v1("Partition 0", f"{job}-changelog", 0, "1-1:9", NOW_MS - 5_000),
        ],
    ),
    Case(
        CHECKPOINTS,
        "shorter",
        cut(WHOLE[CHECKPOINTS]),
        Told(active=(None, None, "no-observation"), rules=("unreadable",)),
    ),
    Case(CHECKPOINTS, "doubled", twice(WHOLE[CHECKPOINTS])),
    Case(CHECKPOINTS, "foreign", lambda job: [commit(f"{job}-other", 9)], NO_COMMIT),
    Case(
        CHECKPOINTS,
        "deleted",
        lambda job: [commit(job, 9), (commit(job, 9)[0], None, NOW_MS)],
        NO_COMMIT,
    ),
    Case(METRICS, "absent", lambda _: None, NO_REPORT),
    Case(METRICS, "empty", lambda _: [], NO_REPORT),
    Case(METRICS, "older", lambda job: [report(job, 7, NOW_MS - HOUR_MS)], NO_REPORT),
    Case(METRICS, "newer", lambda job: [report(job, 7, NOW_MS + 2 * DAY_MS)], NO_REPORT),
    Case(METRICS, "newer by a minute", lambda job: [report(job, 7, NOW_MS + 60_000)]),
    Case(METRICS, "shorter", cut(WHOLE[METRICS]), NO_REPORT),
    Case(METRICS, "doubled", twice(WHOLE[METRICS])),
    Case(METRICS, "foreign: another job's", lambda job: [another_job_s(job)], NO_REPORT),
    Case(
        METRICS,
        "foreign: a former host's",
        lambda job: [report(job, 7, host="h9")],
        Told(standby=(None, None, "former-host"), status="unknown"),
    ),
    Case(STATE, "whole", lambda _: coordinated("run-1"), COORDINATED),
    Case(STATE, "absent", lambda _: None),
    Case(STATE, "empty", lambda _: []),
    Case(STATE, "older", lambda _: coordinated("run-0")),
    Case(STATE, "newer", lambda _: coordinated("run-2")),
    Case(STATE, "shorter: no deployment is in it", lambda _: coordinated("run-1")[1:]),
    Case(STATE, "shorter: cut", cut(lambda _: coordinated("run-1")), Told(rules=("unreadable",))),
    Case(STATE, "doubled", twice(lambda _: coordinated("run-1")), COORDINATED),
    Case(STATE, "foreign", lambda _: [("theirs", "no state of ours", 1), (None, "x", 1)]),
    Case(CHANGELOG, "absent", lambda _: None, GONE),
    Case(CHANGELOG, "empty", lambda _: [], BEYOND_END),
    Case(
        CHANGELOG,
        "newer than the report",
        lambda _: [*[("k", "v", 1)] * 10, *[("k", "v", NOW_MS - 1_000)] * 5],
        Told(active=(9, 5, None)),
    ),
    Case(CHANGELOG, "shorter", lambda _: [("k", "v", 1)] * 5, BEYOND_END),
    Case(
        CHANGELOG,
        "doubled",
        lambda _: [("k", "v", 1)] * 20,
        Told(standby=(7, 12, None), active=(9, 10, None)),
    ),
    *(
        Case(LAG, state, content)
        for state, content in (
            ("absent", lambda _: None),
            ("empty", lambda _: []),
            ("older", was_ready),
            ("newer", lambda job: was_ready(job, NOW_MS + 400 * DAY_MS)),
            ("shorter", cut(was_ready)),
            ("doubled", twice(was_ready)),
            ("foreign", lambda _: [("x", "no readiness", 1), (None, None, 1)]),
        )
    ),
)


HISTORIES = (
    Case(HISTORY, "whole", heard(60_000, NOW_MS - TEN_MIN_MS), NOT_HEARD),
    Case(HISTORY, "absent", lambda _: [], NO_REPORT),
    Case(HISTORY, "older", heard(25 * HOUR_MS, NOW_MS - 26 * HOUR_MS), NO_REPORT),
    Case(HISTORY, "newer", heard(-60_000, NOW_MS - TEN_MIN_MS), NO_REPORT),
    Case(HISTORY, "shorter", heard(60_000, None), NO_REPORT),
    Case(
        HISTORY,
        "doubled",
        lambda job: heard(60_000, NOW_MS - TEN_MIN_MS)(job) * 2,
        NOT_HEARD,
    ),
    Case(HISTORY, "foreign", heard(60_000, NOW_MS - TEN_MIN_MS, job_name="other"), NO_REPORT),
)
"""There is no report in the window: for how long not is told by earlier snapshots."""

EVERY = (*CASES, *HISTORIES)


def contents(job: str, case: Case) -> dict[str, Any]:
    """What there is of each input of this job."""
    silent = {METRICS: lambda _: []} if case.input == HISTORY else {}
    wanted = {**WHOLE, **silent, case.input: case.content}
    return {name: content(job) for name, content in wanted.items()}


class OneFleet:
    """Each case as a job; what tables have before is there too."""

    def __init__(self, topics: Topics, workers: Workers, directory: Path) -> None:
        prefix = uuid4().hex[:6]
        self.names = {case: f"in-{prefix}-{number}" for number, case in enumerate(EVERY)}
        self.jobs = [Connection(topics.bootstrap, job, "1") for job in self.names.values()]
        self.tables = Tables(str(directory / "tables"))
        held: dict[str, list[Record]] = {}
        for case, job in self.names.items():
            found = contents(job, case)
            held |= {TOPICS[name](job): found[name] for name in TOPICS if found[name] is not None}
            for row in found[HISTORY]:
                self.tables.add("changelog_lag", arrow_table("changelog_lag", [row]))
        topics.create_all(held)
        topics.fill_all(held)
        self.snapshot = self.take(workers)
        self.rows = {name: self.snapshot.rows(name) for name in self.snapshot.counts}

    def take(self, workers: Workers, tables: Tables | None = None) -> FleetSnapshot:
        return take_fleet(workers, self.jobs, at(NOW_MS), tables or self.tables)

    def of(self, dataset: str, job: str) -> list[dict[str, Any]]:
        return [row for row in self.rows[dataset] if row["job_name"] == job]


@pytest.fixture(scope="module")
def one_fleet(
    topics: Topics, workers: Workers, tmp_path_factory: pytest.TempPathFactory
) -> OneFleet:
    return OneFleet(topics, workers, tmp_path_factory.mktemp("inputs"))


def is_one_line(error: str) -> bool:
    """With what was asked, what was seen and what to do."""
    return "\n" not in error and "; seen: " in error and "; fix: " in error


def lag_of(rows: list[dict[str, Any]], mode: str) -> Lag | None:
    for row in rows:
        if row["mode"] == mode:
            return row["applied_offset"], row["lag_records"], row["unknown_because"]
    return None


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_each_input_in_each_state_is_told_right_unknown_or_refused(
    one_fleet: OneFleet, case: Case
) -> None:
    """By values that were written by hand, in every table that it is told of."""
    told, job = case.told, one_fleet.names[case]
    refused = one_fleet.snapshot.unread.get(f"{job}/1", "")
    if told.refusal:
        assert told.refusal in refused
        assert is_one_line(refused)
        assert not any(one_fleet.of(name, job) for name in one_fleet.rows)
        return
    assert refused == ""
    places = {r["processor_id"]: r for r in one_fleet.of("container_locality", job)}
    assert {name: row["host"] for name, row in places.items()} == told.hosts
    assert tuple(row["phase"] for row in places.values()) == told.phases
    lags = one_fleet.of("changelog_lag", job)
    assert lag_of(lags, "Standby") == told.standby
    assert lag_of(lags, "Active") == told.active
    assert {row["why"] for row in lags if row["unknown_because"] == "not-heard"} <= {told.why}
    rules = [row["rule"] for row in one_fleet.of("violations", job)]
    assert sorted(rules) == sorted(told.rules)
    (standby,) = one_fleet.of("standby_readiness", job)
    assert standby["status"] == told.status
    tasks = {row["task_name"]: row["host"] for row in one_fleet.of("task_locality", job)}
    assert tasks == {"Partition 0": told.hosts["0"], "Standby-Partition 0-0": told.hosts["0-0"]}
    if any(row["came_at"] for row in lags):
        assert readiness(one_fleet, job)["0-0"].status == told.status


def readiness(fleet: OneFleet, job: str) -> Mapping[str, Any]:
    """What who decides by it reads in the job's lag topic."""
    with closing(KafkaJobTopics(KafkaCluster.of(fleet.jobs[0]))) as topics:
        tail = [one for one in topics.tail(lag_topic(job, "1")) if isinstance(one, TopicRecord)]
    return newest_readiness([(one.key or b"", one.value) for one in tail], 0).standbys


def test_reports_of_no_job_that_cannot_be_read_are_counted(one_fleet: OneFleet) -> None:
    """The one of the day after tomorrow, and the one that was cut."""
    (nobody,) = (row for row in one_fleet.rows["violations"] if row["job_name"] is None)
    assert nobody["rule"] == "unreadable"
    assert nobody["seen"].startswith("2 records can't be read")


# What is of the whole snapshot: where the tables are, and the time.


@pytest.fixture
def job(one_fleet: OneFleet) -> Connection:
    """One of the fleet that has reported nothing of late: its history is read."""
    (silent,) = (case for case in HISTORIES if case.state == "absent")
    return Connection(one_fleet.jobs[0].bootstrap_servers, one_fleet.names[silent], "1")


def earlier(uri: Path, job: Connection) -> Tables:
    """Tables with a snapshot of an hour before."""
    tables = Tables(str(uri))
    (row,) = heard(HOUR_MS, NOW_MS - HOUR_MS)(job.job_name)
    tables.add("changelog_lag", arrow_table("changelog_lag", [row]))
    return tables


def of_another_release(uri: Path, change: Callable[[list[Any]], list[Any]]) -> Tables:
    """Tables whose columns aren't those of now."""
    from deltalake import DeltaTable, Schema

    made = Tables(str(uri / "now"))
    tables = Tables(str(uri / "then"))
    for name in TABLES:
        now = made.opened(name)
        DeltaTable.create(
            tables.location(name),
            Schema(change(now.schema().fields)),
            partition_by=now.metadata().partition_columns,
            configuration=now.metadata().configuration,
            raise_if_key_not_exists=False,
        )
    return tables


def more_columns(fields: list[Any]) -> list[Any]:
    from deltalake import Field

    return [*fields, Field("of_tomorrow", "string", nullable=True)]


def changed(uri: Path, job: Connection, pattern: str, change: Callable[[Path], object]) -> Tables:
    """Tables of which somebody has changed a file."""
    tables = earlier(uri, job)
    (file,) = (uri / "changelog_lag").glob(pattern)
    change(file)
    return tables


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def somebody_s(uri: Path) -> Tables:
    (uri / "violations").mkdir()
    (uri / "violations" / "theirs.csv").write_text("a,b")
    return Tables(str(uri))


def a_file(uri: Path) -> Tables:
    uri.write_text("no directory")
    return Tables(str(uri))


ROWS = "snapshot_day=*/*.parquet"
PLACES: Mapping[str, tuple[Callable[[Path, Connection], Tables], str]] = {
    "absent": (lambda uri, _: Tables(str(uri / "no" / "such")), ""),
    "empty": (lambda uri, _: Tables(str(uri)), ""),
    "older": (
        lambda uri, _: of_another_release(uri, lambda fields: fields[:20]),
        "the columns of this table are those of another release",
    ),
    "older, by columns that nobody reads": (
        lambda uri, _: of_another_release(uri, lambda fields: fields[:-3]),
        "",
    ),
    "newer": (lambda uri, _: of_another_release(uri, more_columns), ""),
    "shorter: rows are gone": (
        lambda uri, job: changed(uri, job, ROWS, Path.unlink),
        "changelog_lag",
    ),
    "shorter: rows are cut": (lambda uri, job: changed(uri, job, ROWS, shorten), "changelog_lag"),
    "shorter: its log is cut": (
        lambda uri, job: changed(uri, job, "_delta_log/*0.json", shorten),
        "changelog_lag",
    ),
    "doubled": (
        lambda uri, job: changed(
            uri, job, ROWS, lambda file: file.with_suffix(".2").write_bytes(file.read_bytes())
        ),
        "",
    ),
    "foreign": (lambda uri, _: somebody_s(uri), "theirs.csv"),
    "refused: a file is there": (lambda uri, _: a_file(uri / "a-file"), "a-file"),
    "refused: nothing may be made there": (lambda _, __: Tables("/proc/nowhere"), "/proc/nowhere"),
}
"""What there is of the tables' place, and what the one line names; empty: all is right."""


@pytest.mark.parametrize("state", PLACES)
def test_each_place_of_tables_is_used_or_refused_in_one_line(
    workers: Workers, job: Connection, tmp_path: Path, state: str
) -> None:
    """With the table that it is about."""
    make, named = PLACES[state]
    tables = make(tmp_path, job)
    if named:
        with pytest.raises(SamzaDagsterError) as caught:
            take_fleet(workers, [job], at(NOW_MS), tables)
        assert named in str(caught.value)
        assert is_one_line(str(caught.value))
        return
    taken = take_fleet(workers, [job], at(NOW_MS), tables)
    hosts = {row["processor_id"]: row["host"] for row in taken.rows("container_locality")}
    assert hosts == HOSTS
    assert lag_of(taken.rows("changelog_lag"), "Active") == (9, 0, None)
    assert len(tables.opened("snapshots").to_pyarrow_table()) == 1


def test_a_lag_topic_that_producers_date_tells_no_time_and_a_report_has_to(
    one_fleet: OneFleet, workers: Workers, topics: Topics, tmp_path: Path
) -> None:
    """Its records would have this machine's time: no proof of it."""
    dated_by_producers = one_fleet.names[next(c for c in EVERY if f"{c}" == "lag topic, empty")]
    job = Connection(topics.bootstrap, dated_by_producers, "1")
    with pytest.raises(Refused, match="its producers date the records") as refused:
        take_fleet(workers, [job], None, Tables(str(tmp_path)))
    assert is_one_line(str(refused.value))
    assert "no report of the last 3 min" in refused.value.seen


# Two properties, and what travels to workers.


class Parted(Workers):
    """Deals parts of any size, each to this process, pickled as for a worker; `sent` is all that was."""

    def __init__(self) -> None:
        super().__init__(pytest.fail)
        self.sent: list[bytes] = []

    def share(self, total: int, least: int) -> int:
        del total
        return least

    def each(self, work: Any, parts: Any) -> list[Any]:
        made: list[Any] = []
        for part in parts:
            self.sent.append(cloudpickle.dumps((work, part)))
            its_work, its_part = pickle.loads(self.sent[-1])
            made.append(pickle.loads(pickle.dumps(its_work(its_part))))
        return made


@pytest.fixture(scope="module")
def many_reports(
    topics: Topics, workers: Workers, tmp_path_factory: pytest.TempPathFactory
) -> Reported:
    """A job with thirty reports in one partition, of which a pace is made."""
    made = Reported(topics, workers, tmp_path_factory.mktemp("reports"))
    made.write(100)
    every = [report(made.name, 3 * n, NOW_MS - 60_000 + 2_000 * n) for n in range(30)]
    topics.fill(made.metrics, every)
    return made


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.integers(1, 40), jobs=st.integers(1, 3))
def test_whatever_the_parts_the_rows_are_the_same(
    one_fleet: OneFleet,
    many_reports: Reported,
    workers: Workers,
    tmp_path_factory: pytest.TempPathFactory,
    records: int,
    jobs: int,
) -> None:
    """Of records to a reader, and of jobs to who judges them."""
    connections = [many_reports.job, *one_fleet.jobs[10:50:10]]

    def rows(of: Workers) -> dict[str, list[dict[str, Any]]]:
        tables = Tables(str(tmp_path_factory.mktemp("dealt")))
        taken = take_fleet(of, connections, at(NOW_MS), tables)
        return {name: taken.rows(name) for name in taken.counts}

    whole = rows(workers)
    assert whole["standby_readiness"][-1]["lag_s"] is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LEAST_RECORDS", records)
        patch.setattr(fleet, "LEAST_JOBS", jobs)
        assert rows(Parted()) == whole


MOMENTS = st.one_of(
    st.tuples(st.just("move"), st.sampled_from(["h1", "h5", "h6"])),
    st.tuples(st.just("delete"), st.sampled_from(["0", "0-0"])),
    st.tuples(st.just("redeploy"), st.sampled_from(["run-1", "run-2"])),
    st.tuples(st.just("report"), st.integers(0, 9)),
    st.tuples(st.just("commit"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.integers(1, 200)),
)
HISTORY_TELLS = ("why", "unknown_because", "lag_s", "apply_per_s", "write_per_s", "status")


def known_now(taken: FleetSnapshot) -> dict[str, Any]:
    """All rows of what is known now, without what a history may tell: for how long, and how fast."""
    lags = [
        {
            name: value
            for name, value in row.items()
            if name not in HISTORY_TELLS and not name.startswith("ready_")
        }
        | {
            "is_known": row["unknown_because"]
            in (None, "former-host", "beyond-end", "no-changelog")
        }
        for row in taken.rows("changelog_lag")
    ]
    same = ("container_locality", "task_locality", "violations")
    return {"changelog_lag": lags, **{name: taken.rows(name) for name in same}}


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments=st.lists(st.tuples(MOMENTS, st.booleans()), min_size=2, max_size=6))
def test_a_snapshot_after_any_others_is_as_one_into_new_tables(
    topics: Topics,
    workers: Workers,
    tmp_path_factory: pytest.TempPathFactory,
    moments: list[tuple[tuple[str, Any], bool]],
) -> None:
    """Whatever happened between them, and whichever of it a snapshot has seen."""
    job = Reported(topics, workers, tmp_path_factory.mktemp("moments"))
    job.write(10)
    topics.create(job.checkpoints)
    now_ms = NOW_MS
    for (what, of), is_seen in moments:
        now_ms += 1_000
        if what == "move":
            job.move(of)
        elif what == "delete":
            task = next(name for name, processor in TASKS.items() if processor == of)
            gone = (("container-host", of), ("task-container", task))
            topics.fill(job.stream, [deletion(f"set-{kind}-assignment", it) for kind, it in gone])
        elif what == "redeploy":
            topics.fill(job.stream, deployed(job.name, run=of))
        elif what == "report":
            job.report(of, now_ms)
        elif what == "commit":
            job.commit(of, now_ms)
        else:
            now_ms += 1_000 * of
        if is_seen:
            job.take(now_ms)
    now_ms += 1_000
    after = job.take(now_ms)
    alone = job.take(now_ms, Tables(str(tmp_path_factory.mktemp("alone"))))
    assert known_now(after) == known_now(alone)


SECRETS = ("the-broker-s-own-password", "the-key-of-the-place")


def test_what_travels_to_workers_has_no_secret(one_fleet: OneFleet, tmp_path: Path) -> None:
    """Neither the work nor its parts, packed or not; what they make of it neither."""
    servers = one_fleet.jobs[0].bootstrap_servers
    login = {"sasl.password": SECRETS[0], "sasl.username": "u"}
    jobs = [Connection(servers, one.job_name, "1", login) for one in one_fleet.jobs[10:14]]
    tables = Tables(str(tmp_path), {"aws_secret_access_key": SECRETS[1]})
    parted = Parted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LEAST_RECORDS", 20)
        patch.setattr(fleet, "LEAST_JOBS", 1)
        taken = take_fleet(parted, jobs, at(NOW_MS), tables)
    assert taken.unread == {}
    steps = {pickle.loads(sent)[0] for sent in parted.sent if b"restores" not in sent}
    assert {work.__name__ for work in steps} >= {"part", "judged"}
    assert not [secret for secret in SECRETS for sent in parted.sent if secret.encode() in sent]


@pytest.mark.parametrize("content", [None, "", "{"], ids=["absent", "empty", "cut"])
def test_a_worker_without_its_settings_fails_with_the_one_line_that_names_its_file(
    one_fleet: OneFleet, workers: Workers, tmp_path: Path, content: str | None
) -> None:
    """By Spark's own workers, of which each has the directory in its environment."""
    job = one_fleet.jobs[0]
    if content is not None:
        (tmp_path / "brokers.json").write_text(content)
    login = Secret.of("brokers", {"sasl.password": SECRETS[0]})
    readers = reading.Readers(job.bootstrap_servers, login, NOW_MS)
    variable, directory = WORKER_SECRETS, str(tmp_path)

    def with_a_directory(spans: list[reading.Span]) -> reading.Read:
        import os

        os.environ[variable] = directory
        try:
            return readers.part(spans)
        finally:
            del os.environ[variable]

    span = reading.Span(job.coordinator_stream_topic, 0, 0, 1, reading.COORDINATOR)
    with pytest.raises(MissingPrerequisite) as caught:
        workers.each(with_a_directory, [[span], [span]])
    assert f"{tmp_path}/brokers.json" in caught.value.seen
    assert is_one_line(str(caught.value))
    assert SECRETS[0] not in str(caught.value)
