"""A job that is run in a world, and the only right end of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from served_placement import AnyWorld, PlacementServer

from samza_dagster.model.naming import group_of, is_standby
from samza_dagster.orchestration.requests.step_request import request_uuid
from tests.rig.bounce_world import BounceWorld, Restarted
from tests.rig.stepped_job import SUCCEEDED, SteppedJob

WRITES = frozenset({"place", "reserve", "commit", "fail_over", "start_standby", "stop_standby"})


@dataclass(frozen=True)
class JudgedRun:
    """A job, what it is told, and what there is to see of it in the end.

    `requests` are step → kind; `starts` is how often each container was started, `at` where
    everybody is.
    """

    job: str
    config: Mapping[str, object]
    world: Callable[[], AnyWorld]
    requests: Mapping[str, str]
    starts: Mapping[str, int]
    at: Mapping[str, str]
    name: str = ""
    planned_by: str = ""

    def __str__(self) -> str:
        """For a test's name."""
        return self.name or self.job

    @property
    def run_config(self) -> dict[str, Any]:
        """Of its launch."""
        return {"ops": {self.planned_by or f"plan_{self.job}": {"config": dict(self.config)}}}

    def asked_by(self, root: str) -> dict[str, str]:
        """What a chain of runs asks, by id."""
        return {request_uuid(root, step, 0): kind for step, kind in self.requests.items()}

    def is_done(self, world: AnyWorld) -> bool:
        """Whether everybody was started and is where it belongs."""
        return _starts(world) == self.starts and world.at == self.at

    def judge(self, world: AnyWorld, root: str) -> None:
        """Each request asked once, by the id of its step; each container started once, where it belongs."""
        asked = self.asked_by(root)
        assert set(world.requests) == set(asked)
        assert _starts(world) == self.starts
        assert world.at == self.at
        assert not world.released
        if isinstance(world, SteppedJob):
            assert world.kinds == asked
            _judge_answers(world, root, self.requests)
        else:
            _judge_bounce(world, root, at_once=int(str(self.config["at_once"])))


def commit_of(root: str, step: str) -> str:
    """The uuid of the commit of a step's first request."""
    work, _, rest = step.partition("/")
    return request_uuid(root, f"{work}-commit/{rest}" if rest else "commit", 0)


def _judge_answers(world: SteppedJob, root: str, requests: Iterable[str]) -> None:
    holds = [uuid for uuid, kind in world.kinds.items() if kind == "hold"]
    steps = {request_uuid(root, step, 0): step for step in requests}
    assert world.committed == {uuid: commit_of(root, steps[uuid]) for uuid in holds}
    assert {answers[-1].status_code for answers in world.answers.values()} == {SUCCEEDED}
    assert not world.cancelled
    for together in world.together:
        assert len({group_of(p) for p in together}) == len(together)


def _judge_bounce(world: BounceWorld, root: str, at_once: int) -> None:
    done = list(world.requests.values())
    asked = [r.processor for r in done]
    assert [is_standby(p) for p in asked] == sorted(map(is_standby, asked), reverse=True)
    for r in done:
        assert r.statuses[-1].status_code is SUCCEEDED
        assert r.committed_by == request_uuid(root, f"bounce-commit/{r.processor}", 0)
        beside = [other for other in done if _overlap(r, other)]
        assert not [o for o in beside if group_of(o.processor) == group_of(r.processor)]
        assert len(beside) < at_once


def _overlap(one: Restarted, other: Restarted) -> bool:
    if one is other:
        return False
    return one.asked_ms < _end_ms(other) and other.asked_ms < _end_ms(one)


def _end_ms(request: Restarted) -> int:
    return request.statuses[-1].timestamp


def _starts(world: AnyWorld) -> Mapping[str, int]:
    return world.starts if isinstance(world, SteppedJob) else world.restarts()


def written(server: PlacementServer, row: str) -> Counter[str]:
    """What was written in a row's world, and how often: an id that comes twice counts twice."""
    return Counter(
        {
            what: times
            for (of, what), times in server.calls.items()
            if of == row and what.split()[0] in WRITES
        }
    )
