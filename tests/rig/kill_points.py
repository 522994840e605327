"""The kill matrix: what can be interrupted × where the coordinator is killed, and the judges.

A scenario is first run to its end without a kill, which tells every commit, effect and
acknowledgement that it has; each of them before or after which a coordinator can die is
a kill point. The job goes on from one point to the next: agents and containers stay, a
coordinator that waits takes over from each that was killed.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.rig.at_rest import unanswered, unsettled
from tests.rig.crashing_points import same_in_each_run
from tests.rig.history import read_verified
from tests.rig.job import alive
from tests.rig.running_job import Processors, RunningJob
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

CRASHING = "tests.rig.crashing_coordinator"
GONE = "gone"
SPARES = "-spare"


@dataclass(frozen=True)
class KillPoint:
    """The `number`th time, from 1, that a scenario comes to `point`; `what` happens there."""

    point: str
    number: int
    what: str = ""

    def is_met_by(self, other: KillPoint) -> bool:
        """The same happens there, or it has the same number where nothing is said of that."""
        same = other.what == self.what if self.what else other.number == self.number
        return other.point == self.point and same

    def __str__(self) -> str:
        return f"{self.point}:{self.number}" + (f" ({self.what})" if self.what else "")


@dataclass(frozen=True)
class Scenario:
    """What the coordinator is killed in.

    `happens` makes it happen and returns the UUID of its request, if it has one. `moved`
    says where each processor that may get another process is at the end, by where all
    were (None: anywhere legal, `GONE`: nowhere). Each of them starts once, all others keep their pid.
    `extra`: so many more processors than planned, before and after.
    """

    name: str
    happens: Callable[[Any, Processors], str | None]
    moved: Callable[[Any, Processors], Mapping[str, str | None]]
    prepare: Callable[[Any], None] = lambda _job: None
    restore: Callable[[Any, Processors], None] = lambda _job, _before: None
    extra: tuple[int, int] = (0, 0)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class KilledJob:
    """A job whose coordinators are killed; one that waits takes over from each."""

    job: RunningJob
    spare: Any = None
    patience_s: float = 60.0
    arms: int = 0
    deaths: list[KillPoint] = field(default_factory=list)
    """What each leader that was killed had reached."""
    deaths_of_spares: list[KillPoint] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    outsider: Callable[[], None] = lambda: None
    """Judges, after each run of a scenario, what containers have done; raises `AssertionError`."""

    def settle(
        self, extra: int = 0, *, seconds: float | None = None, asked: Callable[[], str] = lambda: ""
    ) -> Processors:
        """All at rest; fails with what isn't, and the end of the coordinators' log.

        `asked` tells what has to end before that, and is looked at first.
        """
        last = [""]

        def at_rest() -> bool:
            last[0] = asked() or unsettled(self.job, extra)
            return not last[0]

        try:
            until("at rest", at_rest, seconds=seconds or self.patience_s)
        except AssertionError as error:
            log = self.job.coordinator_log.read_text()[-2000:]
            raise AssertionError(f"{error}: {last[0]}\n{log}") from None
        return self.job.processors()

    def wait_beside(self) -> None:
        """A second coordinator, which leads when the first is dead."""
        leader = self.job.coordinator
        self.spare = self.job.start_coordinator()
        self.job.coordinator = leader

    def _arm(self, point: KillPoint | None, spares: KillPoint | None, *, by_what: bool) -> None:
        self.arms += 1
        armed = [
            {
                "pid": process.pid,
                "arm": f"{self.arms}{suffix}",
                "point": at.point if at else "",
                "number": at.number if at and not named else 0,
                "what": same_in_each_run(at.what) if at and named else "",
            }
            for process, suffix, at, named in (
                (self.job.coordinator, "", point, by_what),
                *([(self.spare, SPARES, spares, bool(spares.what))] if spares else []),
            )
        ]
        beside = self.job.kill_file.with_suffix(".new")
        beside.write_text(json.dumps(armed))
        beside.replace(self.job.kill_file)

    def _reached(self, suffix: str = "") -> list[KillPoint]:
        """Since the last arming, in order: a process that was killed died at the last of them."""
        trace = self.job.kill_file.with_suffix(".trace").read_text().splitlines()
        lines = [line for line in map(json.loads, trace) if line["arm"] == f"{self.arms}{suffix}"]
        return [KillPoint(line["point"], line["number"], line["what"]) for line in lines]

    def points_of(self, scenario: Scenario) -> list[KillPoint]:
        """Runs it undisturbed; every point that it came to, in order."""
        assert self.run(scenario, None) is False
        return self._reached()

    def run(
        self,
        scenario: Scenario,
        point: KillPoint | None,
        *,
        by_what: bool = False,
        spares: KillPoint | None = None,
    ) -> bool:
        """Once, with a kill at `point`; whether it was reached. Raises what isn't as it has to be.

        `by_what`: at the first of its kind where the same happens, whichever number it has.
        `spares`: where the spare is killed, too, if it comes to it as a leader: by what it says
        happens there, or by its number.
        """
        job, coordinator = self.job, self.job.coordinator
        assert coordinator is not None
        self.settle(scenario.extra[0])
        scenario.prepare(job)
        before = self.settle(scenario.extra[0])
        journalled = len(job.journal())
        moved = scenario.moved(job, before)
        self._arm(point, spares, by_what=by_what)
        uuid = scenario.happens(job, before)
        client = job.client()
        asked = partial(unanswered, client, uuid) if uuid else lambda: ""
        killed = self._dies(coordinator, point, asked, scenario.extra[1])
        others = {name: p["pid"] for name, p in before.items() if name not in moved}
        if killed:
            assert not [name for name, pid in others.items() if not alive(pid)]
            self.deaths.append(self._reached()[-1])
            job.coordinator = self.spare or job.start_coordinator()
            if spares and self._dies(self.spare, spares, asked, scenario.extra[1]):
                self.deaths_of_spares.append(self._reached(SPARES)[-1])
                job.coordinator = job.start_coordinator()
        job.kill_file.unlink()
        after = self.settle(scenario.extra[1], asked=asked)
        client.close()
        if killed:  # not before: of two that find nobody leading, the later ends the other
            self.wait_beside()
        if uuid is not None:
            self.asked.append((uuid, str(point)))
        found = {name: after[name]["pid"] for name in others}
        assert found == others, f"pids {found}, they were {others}; {after}"
        for name, host in moved.items():
            if host == GONE:
                assert name not in after, after
                assert not alive(before[name]["pid"])
                continue
            assert name in after, name
            assert host in (None, after[name]["host"]), (name, host, after[name])
        for group in {name.split("-")[0] for name in after}:
            places = [p["host"] for name, p in after.items() if name.split("-")[0] == group]
            assert len(set(places)) == len(places), after
        new = job.journal()[journalled:]
        starts = Counter(line["processor"] for line in new if line["what"] == "started")
        assert starts == {name: 1 for name, host in moved.items() if host != GONE}, starts
        scenario.restore(job, before)
        self.outsider()
        return killed

    def _dies(
        self, coordinator: Any, point: KillPoint | None, asked: Callable[[], str], extra: int
    ) -> bool:
        """Waits for its death at the point, or until all is over without it."""
        rest_since: list[float] = []

        def dead_or_over() -> bool:
            if coordinator.poll() is not None:
                return True
            if asked() or unsettled(self.job, extra):
                rest_since.clear()
                return False
            rest_since.append(time.monotonic())
            return rest_since[-1] - rest_since[0] > 0.5

        until(f"death at {point}, or the end", dead_or_over, seconds=self.patience_s)
        if coordinator.poll() is None:
            return False
        assert coordinator.returncode == -signal.SIGKILL, coordinator.returncode
        return True

    def judge(self) -> None:
        """What is on record at the end, read by a consumer that knows nothing of ours."""
        job = self.job
        responses: dict[str, list[dict[str, Any]]] = {}
        requests: dict[str, bytes | None] = {}
        stream = job.connection.coordinator_stream_topic
        for key, value in records_of(job.connection, stream):
            uuid, _, kind = json.loads(key)[2].partition(".")
            if kind == "ContainerPlacementResponseMessage" and value is not None:
                responses.setdefault(uuid, []).append(json.loads(value))
            elif kind == "ContainerPlacementRequestMessage":
                requests[uuid] = value
        for key, value in records_of(job.connection, job.connection.state_topic):
            kind, _, uuid = key.decode().partition("/")
            if kind == "response" and value is not None:
                responses.setdefault(uuid, []).append(json.loads(value))
            elif kind == "request":
                requests[uuid] = value
        for uuid, point in self.asked:
            said = [(r["statusCode"], r["responseMessage"]) for r in responses[uuid]]
            ends = [each for each in said if each[0] in ("SUCCEEDED", "FAILED", "BAD_REQUEST")]
            assert len(set(ends)) == 1, (point, said)
            assert said[-len(ends) :] == ends, (point, said)
            assert ends[0][0] == "SUCCEEDED", (point, said)
            assert requests[uuid] is None, point
        history, wrong = read_verified(job.connection)
        assert not wrong, wrong
        recorded = Counter(r.execution_id for r in history if r.kind == "start")
        assert set(recorded.values()) == {1}
        assert {line["execution"] for line in job.journal()} <= recorded.keys()
