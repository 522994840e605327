"""What users of like pipelines reported, tried here: each by a small input, and held against the right value."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from samza_dagster.errors import Refused
from samza_dagster.metadata.lag_topic import brokers_time_ms
from samza_dagster.snapshots import Tables, Workers, fleet, take_fleet
from tests.rig.job import ROOT
from tests.rig.waiting import until
from tests.spark.conftest import Topics, deletion, entry
from tests.spark.reported import (
    HOSTS,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    Reported,
    located,
    report,
    standby_lag,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def reported(topics: Topics, workers: Workers, tmp_path: Path) -> Reported:
    return Reported(topics, workers, tmp_path)


def test_kip_58_what_a_redeployment_removed_is_gone_however_long_nobody_looked(
    reported: Reported,
) -> None:
    """The tombstones are compacted away before the next snapshot: nothing ever says that it was deleted."""
    reported.take()
    reported.made_anew([one for one in reported.deployed() if "0-0" not in f"{one[0]}"])
    later = reported.take(NOW_MS + 24 * HOUR_MS)
    assert located(later) == {"0": "h0"}
    assert {r["task_name"] for r in later.rows("task_locality")} == {"Partition 0"}
    assert later.rows("standby_readiness") == []


def test_systemd_36498_a_snapshot_by_a_clock_that_was_back_hides_nothing_from_the_next(
    reported: Reported,
) -> None:
    """Two days behind; the next one, by the right time, is as one into new tables."""
    reported.write(10)
    reported.report(7, NOW_MS - 5_000)
    reported.take(NOW_MS - 48 * HOUR_MS)
    right = reported.take()
    assert standby_lag(right) == (7, 2, None)
    assert right.unreadable == 0
    assert located(right) == HOSTS


@pytest.mark.parametrize("off", [timedelta(days=-2), timedelta(days=60), timedelta(minutes=2)])
def test_a_clock_far_from_the_brokers_is_refused_and_named(
    reported: Reported, off: timedelta
) -> None:
    """By how much, and that it is this machine's; nothing is written."""
    here = datetime.now(UTC) + off
    with pytest.raises(Refused, match=r"this machine's clock.*(ahead of|behind) theirs") as refused:
        fleet.moment([reported.job], here)
    assert ("ahead" in refused.value.seen) == (off > timedelta(0))
    assert not Path(reported.tables.uri).exists()


def test_the_brokers_tell_the_time_of_a_snapshot(reported: Reported) -> None:
    """Its own clock tells the same within a minute, and what it writes hides no standby's readiness."""
    before, told, after = time.time(), brokers_time_ms(reported.job) / 1000, time.time()
    assert before - 1 <= told <= after + 1
    snapshot = take_fleet(reported.workers, [reported.job], None, reported.tables)
    assert abs(snapshot.at - datetime.now(UTC)) < timedelta(minutes=1)


def test_kip_320_a_log_that_was_put_back_is_read_as_it_is(reported: Reported) -> None:
    """The end went from many to few, then on: what was rolled back is gone, what came since is there."""
    reported.move(*(f"h{n}" for n in range(5, 30)))
    assert located(reported.take())["0"] == "h29"
    moved = entry("set-container-host-assignment", "0", host="h3")
    reported.made_anew([*reported.deployed(), moved])
    assert located(reported.take(NOW_MS + MINUTE_MS))["0"] == "h3"


def test_librdkafka_4806_brokers_that_tell_no_topic_ids_are_read_as_others(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all ids were zero all topics shared one mark, and a move was never read: no id counts any more."""
    from confluent_kafka import Uuid
    from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

    zero = property(lambda _: Uuid(0, 0), lambda _, __: None)
    monkeypatch.setattr(TopicDescription, "topic_id", zero, raising=False)
    assert located(reported.take())["0"] == "h0"
    reported.move("h9")
    assert located(reported.take(NOW_MS + MINUTE_MS))["0"] == "h9"


def test_kafka_7238_a_standby_beyond_the_end_of_its_changelog_is_not_warm(
    reported: Reported,
) -> None:
    """It says 999 applied; the changelog was made anew with 5 records, and all of them are to be restored."""
    reported.write(5)
    reported.report(999, NOW_MS - 5_000)
    snapshot = reported.take()
    assert standby_lag(snapshot) == (999, None, "beyond-end")
    restores = {r["host"]: r for r in snapshot.rows("restore_forecast")}
    assert (restores["h1"]["is_warm"], restores["h1"]["records"]) == (False, 5)
    (loss,) = snapshot.rows("host_loss")
    assert (loss["host"], loss["downtime_s"]) == ("h0", None)


def test_a_record_that_claims_to_be_of_next_week_makes_nobody_silent(reported: Reported) -> None:
    """Not even the last of its partition: by it every report before would have come days ago."""
    reported.write(5)
    reported.report(4, NOW_MS - 5_000)
    reported.report(4, NOW_MS + 7 * 24 * HOUR_MS)
    snapshot = reported.take()
    assert standby_lag(snapshot) == (4, 0, None)
    (standby,) = snapshot.rows("standby_readiness")
    assert standby["status"] == "unproven"


@pytest.mark.parametrize("partition", [0, 1])
def test_a_standby_is_silent_by_the_newest_record_of_its_topic(
    reported: Reported, partition: int
) -> None:
    """Whichever partition has that, and whoever it is of."""
    reported.write(5)
    reported.topics.create(reported.metrics, partitions=2)
    for job, age_ms, where in ((reported.name, 100_000, partition), ("other", 0, 1 - partition)):
        reported.topics.fill(reported.metrics, [report(job, 4, NOW_MS - age_ms)], where)
    (standby,) = reported.take().rows("standby_readiness")
    assert standby["status"] == "silent"


def test_a_report_of_a_clock_that_is_ahead_makes_no_other_standby_silent(
    reported: Reported,
) -> None:
    """Two hours, which is too little to be refused: it came now at the latest."""
    reported.write(5)
    reported.report(4, NOW_MS - 5_000)
    reported.topics.fill(reported.metrics, [report("other", 4, NOW_MS + 2 * HOUR_MS)])
    (standby,) = reported.take().rows("standby_readiness")
    assert standby["status"] != "silent"


def test_scylladb_1745_a_late_writer_brings_nothing_back(reported: Reported) -> None:
    """A snapshot of before commits after one that saw the deletion: the next one sees what Kafka holds."""

    class Late(Tables):
        """Commits its rows once it is told to."""

        def add(self, table: str, rows: Any) -> None:
            held.append((table, rows))

    held: list[tuple[str, Any]] = []
    reported.take(NOW_MS, Late(reported.tables.uri))
    reported.topics.fill(
        reported.stream,
        [
            deletion("set-container-host-assignment", "0-0"),
            deletion("set-task-container-assignment", "Standby-Partition 0-0"),
        ],
    )
    assert located(reported.take(NOW_MS + MINUTE_MS)) == {"0": "h0"}
    for table, rows in held:
        reported.tables.add(table, rows)
    after = reported.take(NOW_MS + 2 * MINUTE_MS)
    assert located(after) == {"0": "h0"}
    assert after.rows("violations") == []


def test_a_changelog_that_was_deleted_is_told(reported: Reported) -> None:
    """In its rows, as a violation, and no restore counts on it."""
    reported.write(10)
    reported.report(7, NOW_MS - 5_000)
    reported.topics.admin.delete_topics([reported.changelog])[reported.changelog].result()
    until(
        "it is gone", lambda: reported.changelog not in reported.topics.admin.list_topics().topics
    )
    snapshot = reported.take()
    assert {r["unknown_because"] for r in snapshot.rows("changelog_lag")} == {"no-changelog"}
    (violation,) = snapshot.rows("violations")
    assert violation["rule"] == "no-changelog"
    assert reported.changelog in violation["seen"]
    assert {r["restore_s"] for r in snapshot.rows("restore_forecast")} == {None}


def test_delta_rs_2379_a_stream_lives_through_a_place_that_takes_no_more(
    reported: Reported,
) -> None:
    """One line with the place and the fix for each snapshot that fails, and snapshots again once there is room.

    The kernel refuses the process's writes, by the limit that it has on the size of files.
    """
    command = [
        *(sys.executable, "-m", "samza_dagster.cli.main", "snapshots", "stream", "--json"),
        *("--bootstrap-servers", reported.topics.bootstrap, "--job", f"{reported.name}/1"),
        *("--uri", reported.tables.uri, "--every", "0"),
    ]
    piped = subprocess.PIPE
    stream = subprocess.Popen(command, stdout=piped, stderr=piped, text=True, cwd=ROOT)
    kernel, told = psutil.Process(stream.pid), list[str]()
    no_limit = kernel.rlimit(psutil.RLIMIT_FSIZE)
    assert stream.stdout is not None
    reader = Thread(target=lambda: told.extend(stream.stderr or ()), daemon=True)
    reader.start()
    try:
        assert json.loads(stream.stdout.readline())["unread"] == {}
        kernel.rlimit(psutil.RLIMIT_FSIZE, (0, no_limit[1]))
        until("it is told twice", lambda: len(of_snapshots(told)) > 1, seconds=120)
        kernel.rlimit(psutil.RLIMIT_FSIZE, no_limit)
        lifted, taken = datetime.now(UTC), datetime.min.replace(tzinfo=UTC)
        while taken < lifted:
            snapshot = json.loads(stream.stdout.readline())
            taken = datetime.fromisoformat(snapshot["snapshot_time"])
        assert snapshot["rows"]["container_locality"] == 2
        assert stream.poll() is None
    finally:
        stream.terminate()
        stream.wait(60)
        reader.join(60)
    assert all(reported.tables.uri in line and "fix:" in line for line in of_snapshots(told))
    assert "Traceback" not in "".join(told)


def of_snapshots(told: list[str]) -> list[str]:
    return [line for line in told if "Warning" in line]
