"""What a fleet's containers write into their metrics topic: recorded snapshots, with their own facts.

Each interval a container writes four records, as Samza 1.8.0 did: its producer's, one of each task,
its own. The texts are the recorded ones, so sizes and gauges are real; what a reader needs is put in.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from tests.rig.fleets.courses import Restore
from tests.rig.fleets.fleet import BEGAN_MS, Fault, Fleet, Group, Process, Standby

_WIRE = Path(__file__).resolve().parents[2] / "data" / "wire" / "metrics-samples.jsonl"
_HOLE = re.compile(r"\x00(\w+)\x00")
_RECORDED_JOB = "yw"
Values = Mapping[str, str]


class Report(NamedTuple):
    """A record: `host` decides on its partition, as with Samza's reporter; `at_ms` is the broker's time."""

    host: str
    at_ms: int
    value: bytes

    def partition(self, partitions: int) -> int:
        """A host writes all of its own into one."""
        return crc32(self.host.encode()) % partitions


class Said(NamedTuple):
    """What one report says of a standby's task, and where its changelog began and ended when it came.

    `host_ms` is the time by the clock of its host, `at_ms` by the broker's; both since the fleet began.
    """

    at_ms: int
    host_ms: int
    host: str
    process: str
    applied: int | None
    beginning: int
    end: int


class _Template:
    """A recorded value with holes."""

    def __init__(self, text: str) -> None:
        self._pieces = [
            piece if index % 2 else piece.encode() for index, piece in enumerate(_HOLE.split(text))
        ]

    def filled(self, values: Values) -> bytes:
        return b"".join(
            piece if isinstance(piece, bytes) else values[piece].encode() for piece in self._pieces
        )


def reports(fleet: Fleet, until_ms: int) -> Iterator[Report]:
    """All records before that time of the fleet, in the order of their times."""
    yield from heapq.merge(
        *(_of_group(group, until_ms) for group in fleet.groups), key=lambda report: report.at_ms
    )


def said(group: Group, standby: Standby, until_ms: int) -> Iterator[Said]:
    """What the reports of a standby's task say, in order, without their JSON."""
    changelog = standby.changelog
    for process, restore in standby.restores:
        for at_ms in report_times(process, group, until_ms):
            yield Said(
                at_ms,
                at_ms + process.skew_ms,
                process.host,
                f"{process.container}@{process.began_ms}",
                restore.applied_at(at_ms),
                changelog.beginning_at(at_ms),
                changelog.end_at(at_ms),
            )


def report_times(process: Process, group: Group, until_ms: int) -> Iterator[int]:
    """When an incarnation reports: at its group's phase in each interval that it lives in."""
    first = -(-(process.began_ms - group.phase_ms) // group.interval_ms)
    ends = until_ms if process.ends_ms is None else min(until_ms, process.ends_ms)
    start = group.phase_ms + max(first, 0) * group.interval_ms
    yield from range(start, ends, group.interval_ms)


def _of_group(group: Group, until_ms: int) -> Iterator[Report]:
    """Of a group's processes, each reporting on its own."""
    processes = [group.active, *dict.fromkeys(p for s in group.standbys for p, _ in s.restores)]
    times = [
        (at, process) for process in processes for at in report_times(process, group, until_ms)
    ]
    for at_ms, process in sorted(times, key=lambda one: (one[0], one[1].container)):
        for value in _snapshots(group, process, at_ms):
            yield Report(process.host, BEGAN_MS + at_ms, value)


def _snapshots(group: Group, process: Process, at_ms: int) -> Iterator[bytes]:
    """The records that a process writes at once."""
    mode = "active" if process == group.active else "standby"
    about = {
        "job": group.job,
        "host": process.host,
        "container": process.container,
        "execution": f"{process.container}@{process.began_ms}",
        "began": str(BEGAN_MS + process.began_ms + process.skew_ms),
        "time": str(BEGAN_MS + at_ms + process.skew_ms),
    }
    yield _templates()[f"{mode} producer"].filled(about)
    tasks = [
        {"task": task, "partition": str(partition)}
        for task, partition in (group.tasks if process == group.active else ())
    ]
    tasks += [
        _of_standby(standby, restore, at_ms)
        for standby in group.standbys
        for life, restore in standby.restores
        if life == process
    ]
    for task in tasks:
        if group.fault is Fault.NO_CHANGELOG and mode == "standby":
            continue
        yield _templates()[f"{mode} task"].filled(about | task)
    yield _templates()[f"{mode} container"].filled(about)


def _of_standby(standby: Standby, restore: Restore, at_ms: int) -> dict[str, str]:
    applied = restore.applied_at(at_ms)
    return {
        "task": standby.task,
        "partition": str(standby.partition),
        "offset": "null" if applied is None else f'"{applied}"',
    }


@cache
def _templates() -> dict[str, _Template]:
    found: dict[str, _Template] = {}
    for line in _WIRE.read_text().splitlines():
        text: str = json.loads(line)["value"]
        header = json.loads(text)["header"]
        container, source = header["container-name"], header["source"]
        if container == "ApplicationMaster":
            continue
        mode = "standby" if container.count("-") == 3 else "active"
        kind = {"TaskName": "task", "MetricsSnapshotReporterFactory": "producer"}.get(
            source.partition("-")[0], "container"
        )
        found.setdefault(f"{mode} {kind}", _Template(_with_holes(text, header, source)))
    return found


def _with_holes(text: str, header: Mapping[str, object], source: str) -> str:
    """A snapshot of the recorded job without what it says of job, host, task and offsets."""
    text = re.sub(r'("kafka-yw-lab-changelog-\d+-offset"|"side-inputs-kafka-yw-lab-changelog-\d+-offset"):"\d+"', "\\1:\0offset\0", text)  # fmt: skip
    if source.startswith("TaskName-"):
        text = text.replace(source, "TaskName-\0task\0")
        text = re.sub(rf"\b{_RECORDED_JOB}-(lab-changelog|input)-\d+", "\0job\0-\\1-\0partition\0", text)  # fmt: skip
    text = text.replace(f'"job-name":"{_RECORDED_JOB}"', '"job-name":"\0job\0"')
    text = re.sub(rf"\b{_RECORDED_JOB}-(lab|input|1)", "\0job\0-\\1", text)
    for name, hole in (("host", "host"), ("exec-env-container-id", "execution")):
        text = text.replace(f'"{name}":"{header[name]}"', f'"{name}":"\0{hole}\0"')
    for name, hole in (("time", "time"), ("reset-time", "began")):
        text = text.replace(f'"{name}":{header[name]}', f'"{name}":\0{hole}\0')
    return text.replace(str(header["container-name"]), "samza-container-\0container\0")
