"""What of a record is found, and what is kept aside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.errors import MalformedRecord
from samza_dagster.lag import PACED_BY
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.model.checkpoints import V1, V2, checkpoint_key
from samza_dagster.placement import codec
from samza_dagster.placement.state import Group, Incarnation, JobState, Phase, Processor, Role
from samza_dagster.snapshots.found import (
    HUGE_BYTES,
    Found,
    Job,
    Said,
    refuse_future,
    standby_report,
    window_ms,
)
from samza_dagster.snapshots.rows import container_rows
from tests.rig.fleets import spoiled

pytestmark = pytest.mark.unit
WIRE = Path(__file__).parents[2] / "data" / "wire"
Record = tuple[bytes | None, bytes | None]
Read = Callable[[Found, bytes | None, bytes | None], Any]


def recorded(name: str) -> list[Record]:
    lines = (json.loads(line) for line in (WIRE / name).read_text().splitlines())

    def text(it: Any) -> bytes | None:
        return None if it is None else (it if isinstance(it, str) else json.dumps(it)).encode()

    return [(text(line["key"]), text(line["value"])) for line in lines]


def stream(found: Found, key: bytes | None, value: bytes | None) -> None:
    found.read_stream(key, value, 900)


def checkpoint(found: Found, key: bytes | None, value: bytes | None) -> None:
    found.read_checkpoint(key, value, 900, 7)


def report(_: Found, _key: bytes | None, value: bytes | None) -> Any:
    return standby_report(value)


def size(found: Found) -> Mapping[str, int]:
    names = ("hosts", "containers", "modes", "partitions", "checkpoints")
    return {name: len(getattr(found, name)) for name in names if getattr(found, name)}


def test_nothing_that_samza_wrote_is_unreadable() -> None:
    """Records of a real cluster; most of them say nothing that is needed."""
    found = Found()
    for record in recorded("coordinator-stream.jsonl"):
        stream(found, *record)
    assert size(found) == {"hosts": 4, "containers": 8, "modes": 8, "partitions": 8}
    assert found.config["job.name"]
    for record in recorded("checkpoint-tail.jsonl"):
        checkpoint(found, *record)
    assert size(found)["checkpoints"] == 8
    sources = {(version, said.source) for (_, version), said in found.checkpoints.items()}
    assert sources == {("checkpoint", "checkpoint-v1"), ("checkpoint-v2", "checkpoint-v2")}
    reports = [standby_report(value) for _, value in recorded("metrics-samples.jsonl")]
    assert sum(one is not None for one in reports) == 4


@pytest.mark.parametrize("one", spoiled("j", "Standby-Partition 0-0", "h"), ids=lambda it: it.kind)
def test_what_is_no_report_is_kept_aside(one: Any) -> None:
    """One of next year is readable, and its time isn't believed."""

    def read() -> None:
        refuse_future(one.at_ms, 1_795_264_000_000)
        standby_report(one.value)

    with pytest.raises(MalformedRecord):
        read()


@pytest.mark.parametrize(
    ("read", "key", "value", "why"),
    [
        (stream, b"x", b"{}", "key: b'x'"),
        (stream, b'[1,"set-config","job.id"]', b"[]", "no object"),
        (stream, b'[1,"set-config","job.id"]', b"{}", "no object"),
        (stream, b'[1,"set-config","job.id"]', b'{"values":{"value":1}}', "no string"),
        (checkpoint, b"{}", b"{}", "no type"),
        (checkpoint, b'{"type":"checkpoint-v2","taskName":"t"}', b"[]", "no checkpoint-v2"),
        (report, None, None, "no value"),
        (report, None, b'{"header":{"a":1}}', "snapshot: 'source'"),
        (report, None, b"x" * (HUGE_BYTES + 1), "4,194,305 bytes"),
    ],
)
def test_what_cant_be_read_says_why(read: Read, key: Any, value: Any, why: str) -> None:
    """Whoever it is of: also one that names no standby. What was found before stays."""
    found = Found({"job.id": "7"})
    with pytest.raises(MalformedRecord, match=why):
        read(found, key, value)
    assert found == Found({"job.id": "7"})


def test_what_a_snapshot_doesnt_go_by_is_passed_over() -> None:
    """Other types of records, other settings, other types of checkpoints."""
    found, value = Found(), b'{"values":{"value":"x"}}'
    stream(found, b'[1,"set-started","a"]', value)
    stream(found, b'[1,"set-config","task.class"]', value)
    checkpoint(found, b'{"type":"startpoint","taskName":"t"}', b"x")
    assert found == Found()


def test_the_commit_that_was_written_last_counts_whatever_its_writers_clock_says() -> None:
    """A container went on with checkpoints of another version on a host whose clock is behind."""
    records = {
        checkpoint_key(key): (key, value) for key, value in recorded("checkpoint-tail.jsonl")
    }
    v1, v2 = (
        next(r for about, r in records.items() if about and about.version == v) for v in (V1, V2)
    )
    found = Found()
    found.read_checkpoint(*v1, 9_000, 7)
    found.read_checkpoint(*v2, 5_000, 8)
    newest = max(found.checkpoints.values(), key=lambda one: one.order)
    assert newest.source == V2


def test_a_deletion_hides_what_was_said_before() -> None:
    """A host that was deleted isn't known any more."""
    found, key = Found(), b'[1,"set-container-host-assignment","0"]'
    stream(found, key, b'{"values":{"host":"h"},"timestamp":5}')
    assert found.hosts == {"0": ("h", 5)}
    stream(found, key, None)
    assert found == Found()


def test_what_a_field_lacks_is_taken_from_elsewhere_or_not_known() -> None:
    """A host's time from its record; a partition that is no number is none, and replaces the former."""
    found, partition = Found(), b'[1,"set-changelog","Partition 0"]'
    stream(found, b'[1,"set-container-host-assignment","0"]', b'{"values":{"host":"h"}}')
    assert found.hosts == {"0": ("h", 900)}
    for value in (b'{"values":{"Partition":"3"}}', b'{"values":{"Partition":"x"}}'):
        stream(found, partition, value)
    assert found.partitions == {}


REPORTER = {"metrics.reporters": "r", "metrics.reporter.r.stream": "kafka.metrics"}


@pytest.mark.parametrize(
    ("configs", "minutes"),
    [
        ([], 2),
        ([{"task.commit.ms": "10000"}], 2),
        # Samza commits and reports once a minute
        ([{}], 3),
        ([{"task.commit.ms": "off"}, REPORTER], 3),
        # the slowest of all jobs
        ([{}, {"task.commit.ms": "100000"}, {"task.commit.ms": "1"}], 5),
        ([{**REPORTER, "metrics.reporter.r.interval": "200"}, {}], 10),
        ([{"task.commit.ms": "3600000"}], 15),
    ],
)
def test_a_window_has_three_reports_and_commits_of_every_job(
    configs: list[dict[str, str]], minutes: int
) -> None:
    """And is never shorter than two minutes, nor longer than a quarter of an hour."""
    assert window_ms(configs) == minutes * 60_000


def said(order: int, host: str | None, source: str = "metrics") -> Said:
    return Said(source, (order, 0), order, {}, host, host, order)


def test_a_job_keeps_the_newest_reports_of_each_host_and_commits_in_their_order() -> None:
    """Whichever part was read first."""
    of_a = [said(n, "a") for n in range(100, 100 + PACED_BY + 2)]
    one_of_b = said(50, "b")
    commits = {("t", "v2"): said(9, None, "checkpoint-v2"), ("t", "v1"): said(8, None, "checkpoint-v1")}  # fmt: skip
    found = Found(checkpoints=commits, reports={"t": [*reversed(of_a), one_of_b]})
    job = Job("demo", "1", found)
    assert job.reports == {"t": [one_of_b, *of_a[2:]]}
    assert [one.source for one in job.checkpoints["t"]] == ["checkpoint-v1", "checkpoint-v2"]


@pytest.mark.parametrize(
    ("newest_ms", "silent"),
    [
        ({"metrics": 140, "others": 999}, {"t": 40}),
        # the task may report to either; the clock that told is the brokers'
        ({"metrics": 140, "more": 170}, {"t": 70}),
        ({"metrics": 90}, {"t": 0}),
        ({"others": 999}, {}),
    ],
)
def test_a_task_is_silent_since_its_newest_report_by_the_newest_record_of_its_topics(
    newest_ms: dict[str, int], silent: dict[str, int]
) -> None:
    """Topics that its job doesn't report to tell nothing of it."""
    config = {**REPORTER, "metrics.reporters": "r, s", "metrics.reporter.s.stream": "kafka.more"}
    found = Found(config, reports={"t": [said(70, "a"), said(100, "a")]})
    assert Job("demo", "1", found).silences_ms(newest_ms) == silent


def test_a_processor_s_mode_and_its_active_are_those_of_its_tasks() -> None:
    """One with an active task is active; of one without tasks its id tells it, or its coordinator's group."""
    tasks = {"P 0": "a", "P 1": "b", "Standby-P 0-0": "b", "Standby-P 1-0": "c"}
    tasks["Standby-P 9-0"] = "d"
    modes = {task: "Standby" for task in tasks if task.startswith("Standby")}
    hosts = dict.fromkeys(("7", "7-0"), ("h", 1))
    job = Job("demo", "1", Found({}, hosts, tasks, modes))
    told = {p: (job.mode_of(p), job.active_of(p)) for p in (*"abcd", "7", "7-0")}
    assert told == {
        "a": ("Active", "a"),
        "b": ("Active", "b"),
        "c": ("Standby", "b"),
        "d": ("Standby", "d"),
        "7": ("Active", "7"),
        "7-0": ("Standby", "7"),
    }
    assert [task.mode for task in job.tasks] == ["Active"] * 2 + ["Standby"] * 3


def group(phase: Phase, execution: str = "run-a", host: str = "host-2") -> Record:
    """The record of an active that waits, starts or runs there, and of its standby, which was removed."""
    run = Incarnation(1, execution, host, "r") if phase is not Phase.WAITING else None
    processor = Processor("0", Role.ACTIVE, phase, run)
    told = codec.group_to_json(Group("0", {"0": processor}))
    return encode_record("group/0", {"epoch": 1, "group": told})


def test_a_start_takes_from_its_command_until_the_container_checks_in() -> None:
    """Further records of a start that goes on don't begin it anew; of one that failed nothing follows."""
    records = [
        (group(Phase.STARTING, "run-a"), 1_000),
        (group(Phase.STARTING, "run-a"), 3_000),
        (group(Phase.RUNNING, "run-a"), 8_500),
        (group(Phase.RUNNING, "run-a"), 99_000),
        (group(Phase.STARTING, "run-b"), 100_000),
        (group(Phase.STOPPING, "run-b"), 101_000),
        (group(Phase.RUNNING, "run-c"), 102_000),
    ]
    found = Found()
    for record, at_ms in records:
        found.read_state(*record, at_ms)
    assert found.starts == [("host-2", 7.5)]


def coordinated(*records: Record, deployment: str = "d-1") -> Found:
    """What is found of a job whose container has said that it was on host-1."""
    found = Found({"app.run.id": deployment}, {"0": ("host-1", 500)}, {"Partition 0": "0"})
    job = encode_record("job", {"state": codec.job_to_json(JobState("demo/1", "d-1"))})
    for record in (job, *records):
        found.read_state(*record, 900)
    return found


def rows(found: Found) -> list[Any]:
    """Of container_locality."""
    job = Job("demo", "1", found)
    return [(row["host"], row["phase"], row["execution_id"]) for row in container_rows(job)]


@pytest.mark.parametrize(
    ("phase", "place"),
    [
        (Phase.STARTING, ("host-2", "starting", "run-a")),
        (Phase.RUNNING, ("host-2", "running", "run-a")),
        (Phase.WAITING, (None, "waiting", None)),
    ],
)
def test_a_container_is_where_its_coordinator_has_it(phase: Phase, place: tuple[Any, ...]) -> None:
    """Whatever it said of itself before; one that isn't started is nowhere."""
    assert rows(coordinated(group(phase))) == [place]


def test_the_state_of_another_deployment_tells_nothing() -> None:
    """Samza's Application Master runs the job since."""
    found = coordinated(group(Phase.RUNNING), deployment="d-2")
    assert rows(found) == [("host-1", None, None)]


def test_a_host_is_known_by_its_agent() -> None:
    """Also one without a container; a lost one isn't, nor one whose record was removed."""
    found = coordinated(
        *(
            encode_record(f"host/{name}", {"host": name, "alive": alive})
            for name, alive in (("host-3", True), ("host-4", True), ("host-4", False), ("host-5", True))
        ),
        (b"host/host-5", None),
    )  # fmt: skip
    assert Job("demo", "1", found).known_hosts == {"host-1", "host-3"}
    found.read_state(b"job", None, 901)
    assert Job("demo", "1", found).known_hosts == {"host-1"}, "no coordinator of ours runs it"


def test_what_is_no_place_says_nothing_and_what_cannot_be_read_is_refused() -> None:
    """A job's remembered requests are most of its state; a version that isn't known is no reason to guess."""
    found = coordinated(group(Phase.RUNNING))
    found.read_state(*encode_record("uuid/1", {"at_ms": 1}), 1)
    found.read_state(b"request/1", b"{}", 1)
    for value in (b"", json.dumps({"version": 9}).encode(), b'{"version":2,"group":{"x":1}}'):
        with pytest.raises(MalformedRecord):
            found.read_state(b"group/0", value, 1)
    assert found == coordinated(group(Phase.RUNNING))
    found.read_state(b"group/0", None, 1)
    assert rows(found) == [("host-1", None, None)]
