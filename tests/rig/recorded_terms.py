"""A virtual job whose leaders record what they take, as a coordinator does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from samza_dagster.coordinator.durable import Record, changed, host_record
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import JobState, Limits, Phase
from tests.simulation.event_log import LogReplayed, replay_log
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.moves import Move
from tests.simulation.world import World
from tests.unit.placement.scenes import GROUPS, HOSTS, PLACES, QUICK, Scene, ask

JOB = "demo"


class Recorded:
    """A world whose leaders keep a state topic and record what they take, as `Term` does."""

    def __init__(self, world: World, log: Path) -> None:
        self.world, self.log = world, log
        self.topic: dict[str, Any] = {}
        self.stored = JobState(world.job)
        self.term = 0
        world.heard = self._heard

    def begin(self, limits: Limits | None = None) -> None:
        """The leader reads the topic, under its own config's limits."""
        self.term = self.world.leader.epoch
        self.stored = restore(self.topic, self.world.job)
        state = self.stored if limits is None else replace(self.stored, limits=limits)
        self.recorder = JsonLinesRecorder(self.log)
        self.recorder.begin(self.term, self.topic, state)

    def take_over(self, log: Path | None = None) -> None:
        """The leader is killed; the next one appends to the same file, or to its own."""
        self.log = log or self.log
        assert self.world.do(Move("kill-leader"))
        assert self.world.do(Move("take-over"))

    def _heard(self, event: ev.Event, taken: Step) -> None:
        if self.term != self.world.leader.epoch:
            self.begin(taken.state.limits)  # a take-over leaves those of its leader
        self.recorder.record(event, taken.state)
        self.commit(taken.state)

    def commit(self, state: JobState) -> None:
        """Every record that the step changed, as text and back."""
        records: list[Record] = changed(self.stored, state, leader_epoch=self.term)
        records += [host_record(host, None) for host in state.hosts.values()]
        for key, value in records:
            if value is None:
                self.topic.pop(key, None)
            else:
                self.topic[key] = json.loads(json.dumps(value))
        self.stored = state


def recorded(path: Path) -> tuple[Scene, Recorded]:
    """A job that runs, recorded from its deployment on."""
    scene = Scene.of(HOSTS, slots=4, job=JOB, judge=InvariantJudge())
    assert isinstance(scene, Scene)
    scene.steps_told = []
    kept = Recorded(scene, path)
    scene.deploy(GROUPS, last_seen=PLACES, limits=QUICK)
    for host in HOSTS:
        scene.register(host)
    scene.until_all_run()
    return scene, kept


def record_two_terms(directory: Path) -> tuple[Path, int]:
    """A log of two terms, the first killed in a move; and the number of the second's first line."""
    path = directory / "events.jsonl"
    scene, kept = recorded(path)
    scene.submit(ask("0", "host-3"))
    scene.until_phase("0", Phase.STOPPING)
    kept.take_over()
    scene.until_all_run()
    return path, starts(path)[1]


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def starts(path: Path) -> list[int]:
    """Numbers of the lines that a term begins with."""
    return [n for n, line in enumerate(lines_of(path), 1) if "records" in json.loads(line)]


def edited(lines: list[str], number: int, edit: Callable[[dict[str, Any]], None]) -> LogReplayed:
    """The replay of a log one line of which was changed."""
    line = json.loads(lines[number - 1])
    edit(line)
    return replay_log([*lines[: number - 1], json.dumps(line), *lines[number:]])
