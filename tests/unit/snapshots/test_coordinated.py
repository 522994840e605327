"""What our coordinator's own records tell a snapshot: places before the containers say them, and how long starts take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.placement import codec
from samza_dagster.placement.state import Group, Incarnation, JobState, Phase, Processor, Role
from samza_dagster.snapshots.coordinated import Coordinated
from samza_dagster.snapshots.job import Job
from samza_dagster.snapshots.lag import container_rows
from samza_dagster.snapshots.reading import Found
from samza_dagster.snapshots.records import AGENT, DEPLOYMENT, GROUP, Fact

pytestmark = pytest.mark.unit


def group(
    phase: Phase, execution: str = "run-a", host: str = "host-2"
) -> tuple[bytes, bytes | None]:
    """The record of an active that waits, starts or runs there, and of its standby, which was removed."""
    run = Incarnation(1, execution, host, "r") if phase is not Phase.WAITING else None
    processor = Processor("0", Role.ACTIVE, phase, run)
    told = codec.group_to_json(Group("0", {"0": processor}))
    return encode_record("group/0", {"epoch": 1, "group": told})


def told(records: list[tuple[tuple[bytes, bytes | None], int]]) -> list[Fact]:
    reading = Coordinated()
    return [fact for record, at_ms in records for fact in reading.read(*record, at_ms)[0]]


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
    reading = Coordinated()
    starts = [start for record, at_ms in records for start in reading.read(*record, at_ms)[1]]
    assert starts == [("host-2", 7.5)]


def rows(*records: tuple[tuple[bytes, bytes | None], int], deployment: str = "d-1") -> Any:
    """Of container_locality, of a job whose container has said that it was on host-1."""
    known = [
        Fact("config", "app.run.id", deployment),
        Fact("container", "Partition 0", "0"),
        Fact("host", "0", "host-1", 500),
        *told([(encode_record("job", {"state": codec.job_to_json(JobState("demo/1", "d-1"))}), 1)]),
        *told(list(records)),
    ]
    found = Found()
    for offset, fact in enumerate(known):
        found.state(fact, 900, offset)
    job = Job.of("demo", "1", [found])
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
    assert rows((group(phase), 900)) == [place]


def test_the_state_of_another_deployment_tells_nothing() -> None:
    """Samza's Application Master runs the job since."""
    assert rows((group(Phase.RUNNING), 900), deployment="d-2") == [("host-1", None, None)]


def test_a_host_is_known_by_its_agent() -> None:
    """Also one without a container; a lost one isn't."""
    records = [
        (encode_record(f"host/{name}", {"host": name, "alive": alive}), 1)
        for name, alive in (("host-3", True), ("host-4", False))
    ]
    assert [(f.kind, f.name, f.value) for f in told(records)] == [
        (AGENT, "host-3", True),
        (AGENT, "host-4", None),
    ]


def test_what_is_no_place_says_nothing_and_what_cannot_be_read_is_refused() -> None:
    """A job's remembered requests are most of its state; a version that isn't known is no reason to guess."""
    passed = [(encode_record("uuid/1", {"at_ms": 1}), 1), ((b"request/1", b"{}"), 1)]
    assert told(passed) == []
    assert told([((b"group/0", None), 1)]) == [Fact(GROUP, "0", None)]
    for value in (b"", json.dumps({"version": 9}).encode(), b'{"version":2,"group":{"x":1}}'):
        with pytest.raises(MalformedRecord):
            told([((b"group/0", value), 1)])
    job = encode_record("job", {"state": codec.job_to_json(JobState("demo/1", "d-1"))})
    assert told([(job, 1)]) == [Fact(DEPLOYMENT, "", "d-1")]
