"""SIGKILL of the coordinator at every commit and every command of a move.

For each point: containers that aren't moved keep their processes, the move ends
exactly once with one true outcome, and no store ever had two owners.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.job import Job, alive, until

pytestmark = pytest.mark.contract

POINTS = [
    *(f"before-commit:{n}" for n in range(1, 5)),
    *(f"after-commit:{n}" for n in range(1, 5)),
    *(f"after-effect:{n}" for n in range(1, 6)),
]


def test_a_coordinator_killed_at_any_point_of_a_move_ends_it_once(
    job_of: Callable[..., Job],
) -> None:
    """Each successor recovers what its predecessor left, and is then killed itself."""
    job = job_of("killed")
    client = job.client()
    reached: list[str] = []
    before = job.processors()
    moves = 0
    try:
        job.kill_coordinator()
        job.start_coordinator(kill_at=POINTS[0])
        job.wait_until_running()
        for point, following in zip(POINTS, [*POINTS[1:], "never:1"], strict=True):
            group = (before["0"]["host"], before["0-0"]["host"])
            destination = next(host for host in job.host_names if host not in group)
            job.arm()
            request = client.place("0", destination)
            moves += 1

            def dead_or_done(uuid: str = request.uuid) -> bool:
                assert job.coordinator is not None
                answer = client.response(uuid)
                ended = answer is not None and answer.status_code.is_terminal
                return job.coordinator.poll() is not None or ended

            until(f"death at {point}, or the end of the move", dead_or_done)
            assert job.coordinator is not None
            if job.coordinator.poll() is not None:
                reached.append(point)
                others = [p["pid"] for name, p in before.items() if name != "0"]
                assert all(alive(pid) for pid in others), point
            else:
                job.kill_coordinator()
            job.disarm()
            job.start_coordinator(kill_at=following)
            after = job.wait_until_running()
            answer = client.wait(request.uuid, timeout_s=20)
            assert answer.status_code == "SUCCEEDED", (point, answer)
            assert after["0"]["host"] == destination, point
            for processor in ("0-0", "1", "1-0"):
                assert after[processor]["pid"] == before[processor]["pid"], (point, processor)
            journal = job.journal()
            starts = [e for e in journal if e["processor"] == "0" and e["what"] == "started"]
            assert len(starts) == moves + 1, (point, starts)
            assert not [e for e in journal if e["what"] == "VIOLATION"], point
            before = after
        assert reached == POINTS
    finally:
        client.close()
