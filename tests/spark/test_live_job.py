"""Snapshots of a real job, held against its stores' own files; and what they are for: which standby takes over.

An active with two standbys, real Samza containers under a steady load. How far a standby is tells the file
that RocksDB's flush leaves beside its store (`OFFSET-v2`), how long the changelog is tells the broker: neither
is what a snapshot reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from samza_dagster.client import ReplicaLag
from samza_dagster.model.naming import store_directory
from samza_dagster.sandbox import demo_job, load
from samza_dagster.sandbox.readiness import applied_offset
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from tests.rig.at_rest import Processors
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.kill_scenarios import FAILOVER
from tests.rig.replacement import offsets, partitions_of, replaced
from tests.rig.sandbox_job import SandboxJob
from tests.rig.traced import hung, threads
from tests.rig.waiting import until

pytestmark = pytest.mark.cluster

STANDBYS = ("0-0", "0-1")
PARTITIONS = partitions_of("0", 1)
LACKS = 500
"""Records that a standby whose consumer hangs lacks at least, in all."""
PATIENCE_S = 120.0
Part = tuple[str, int]


class Seen(NamedTuple):
    """Where each partition of the changelog ends, and the record that each standby has flushed last of it."""

    ends: tuple[int, ...]
    flushed: Mapping[Part, int]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxJob]:
    """An active, two standbys, four hosts."""
    root = tmp_path_factory.mktemp("sandboxes")
    with (
        demo_sandbox(root, actives=1, standbys=2) as sandbox,
        closing(SandboxJob(sandbox, actives=1, standbys=2)) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(str(tmp_path_factory.mktemp("live")))


def seen(job: SandboxJob) -> Seen:
    """By the broker and the files alone."""
    ends = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
    now = job.processors()
    flushed: dict[Part, int] = {}
    for standby in STANDBYS:
        for partition in PARTITIONS:
            found = applied_offset(job.state_dir(now[standby]["host"]), f"Partition {partition}")
            assert found is not None, (standby, partition)
            flushed[standby, partition] = found
    return Seen(ends, flushed)


def until_flushed(job: SandboxJob, since_s: float) -> None:
    """Each standby has flushed what it had applied by then."""
    now = job.processors()
    files = [
        job.state_dir(now[standby]["host"])
        / store_directory(demo_job.JOB_NAME, demo_job.JOB_ID, demo_job.STORE, f"Partition {part}")
        / "OFFSET-v2"
        for standby in STANDBYS
        for part in PARTITIONS
    ]
    until(
        "all standbys have flushed",
        lambda: all(file.stat().st_mtime > since_s for file in files),
        seconds=PATIENCE_S,
    )


def until_reported(job: SandboxJob, since_s: float) -> None:
    """Each standby has reported since."""
    with job.client() as client:
        until(
            "all standbys have reported",
            lambda: all((one.came_ms or 0) > 1000 * since_s for one in lags(client.lag())),
            seconds=PATIENCE_S,
        )


def lags(every: tuple[ReplicaLag, ...]) -> list[ReplicaLag]:
    """Those of standbys."""
    return [one for one in every if one.processor_id in STANDBYS]


def taken(job: SandboxJob, workers: Workers, tables: Tables) -> FleetSnapshot:
    snapshot = take_fleet(workers, [job.connection], datetime.now(UTC), tables)
    assert snapshot.unread == snapshot.unpublished == {}
    return snapshot


def rows_of_standbys(snapshot: FleetSnapshot) -> dict[Part, dict[str, Any]]:
    found = {
        (row["processor_id"], row["partition"]): row
        for row in snapshot.rows("changelog_lag")
        if row["processor_id"] in STANDBYS
    }
    assert found.keys() == {(standby, part) for standby in STANDBYS for part in PARTITIONS}
    return found


def test_under_load_a_lag_is_within_what_was_there_before_and_after(
    job: SandboxJob, workers: Workers, kept: Tables
) -> None:
    """By reports that came between two looks at files and broker."""
    before = seen(job)
    until_reported(job, time.time())
    rows = rows_of_standbys(taken(job, workers, kept))
    until_flushed(job, time.time())
    after = seen(job)
    assert sum(after.ends) > sum(before.ends), "no load"
    for (standby, part), row in rows.items():
        least, most = before.flushed[standby, part], after.flushed[standby, part]
        assert least <= row["applied_offset"] <= most, row
        assert before.ends[part] <= row["end_offset"] <= after.ends[part], row
        assert before.ends[part] - 1 - most <= row["lag_records"] <= after.ends[part] - 1 - least


@contextmanager
def lame(job: SandboxJob, standby: str) -> Iterator[None]:
    """A standby that lives, reports and applies nothing, with the load going on until it lacks enough."""
    pid = job.processors()[standby]["pid"]
    with hung(pid, threads(pid, "Samza KafkaCons"), "epoll_wait"):
        since = offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
        until(
            f"{standby} lacks {LACKS} records",
            lambda: (
                sum(offsets(job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC))
                > sum(since) + LACKS
            ),
            seconds=PATIENCE_S,
        )
        yield


def test_an_active_that_dies_is_replaced_by_its_readier_standby(
    job: SandboxJob, workers: Workers, kept: Tables
) -> None:
    """Under load, by the newest readiness and the lags of now: the other one lacks hundreds of records."""
    with lame(job, "0-1"):
        until_reported(job, time.time())
        rows = rows_of_standbys(taken(job, workers, kept))
        assert lacking(rows, "0-1") >= LACKS > lacking(rows, "0-0")
        before = first_is(job, "0-0")
        FAILOVER.happens(job, before)
        assert replaced(job, before, {"0", "0-0"}, PATIENCE_S)["0"]["host"] == before["0-0"]["host"]
        FAILOVER.restore(job, before)


def test_of_a_job_that_stands_still_each_figure_is_that_of_the_files(
    job: SandboxJob, workers: Workers, kept: Tables
) -> None:
    """To the record: of a standby that has all, and of one that lacks hundreds; the active goes onto the former."""
    until(
        "both have all", lambda: all(lacks_little(job, one) for one in STANDBYS), seconds=PATIENCE_S
    )
    with lame(job, "0-0"):
        for sender in job.registry.live(load.ROLE):
            assert sender.stop()
        until("0-1 has all", lambda: has_all(job, "0-1"), seconds=PATIENCE_S)
        until_flushed(job, time.time())  # what the other had applied before it hung
        now = seen(job)
        until_reported(job, time.time())
        rows = rows_of_standbys(taken(job, workers, kept))
        assert seen(job) == now
        for (standby, part), row in rows.items():
            assert row["end_offset"] == now.ends[part]
            assert row["applied_offset"] == now.flushed[standby, part]
            assert row["lag_records"] == now.ends[part] - 1 - now.flushed[standby, part]
        assert lacking(rows, "0-0") >= LACKS
        before = first_is(job, "0-1")
        with job.client() as client:
            uuid = client.place("0", "STANDBY", request_expiry_s=PATIENCE_S).uuid
            assert client.wait(uuid, timeout_s=PATIENCE_S).status_code == "SUCCEEDED"
        assert job.processors()["0"]["host"] == before["0-1"]["host"]


def lacking(rows: Mapping[Part, Mapping[str, Any]], standby: str) -> int:
    """Records that a standby lacks by a snapshot's rows."""
    return sum(row["lag_records"] for (one, _), row in rows.items() if one == standby)


def first_is(job: SandboxJob, standby: str) -> Processors:
    """Where all are, once this standby is the one that a takeover would wait least for.

    For whoever asks and for the coordinator, which looks at the reports by itself, each second.
    """
    (lame_one,) = set(STANDBYS) - {standby}
    until(
        "the coordinator has read the reports",
        lambda: known_to_lack(job, lame_one) >= LACKS > known_to_lack(job, standby),
        seconds=PATIENCE_S,
    )
    with job.client() as client:
        until(
            f"{standby} is the readier",
            lambda: client.standbys_now("0").standbys[0] == standby,
            seconds=PATIENCE_S,
        )
    return job.processors()


def known_to_lack(job: SandboxJob, standby: str) -> int:
    """Records that the coordinator knows a standby to lack."""
    return job.processors()[standby]["lag"]["records"]


def lacks_little(job: SandboxJob, standby: str) -> bool:
    """By its files and the broker."""
    ends, flushed = seen(job)
    return sum(ends[part] - 1 - flushed[standby, part] for part in PARTITIONS) < LACKS * 2


def has_all(job: SandboxJob, standby: str) -> bool:
    """That standby has flushed the last record, and nobody writes any more."""
    once = seen(job)
    whole = all(once.flushed[standby, part] == once.ends[part] - 1 for part in PARTITIONS)
    return whole and once == seen(job)
