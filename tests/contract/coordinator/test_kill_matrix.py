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
    *(f"before-commit:{n}" for n in range(1, 7)),
    *(f"after-commit:{n}" for n in range(1, 7)),
    *(f"after-effect:{n}" for n in range(1, 7)),
]


def test_a_coordinator_killed_at_any_point_of_a_move_ends_it_once(
    job_of: Callable[..., Job],
) -> None:
    """The next coordinator is started with the next point, so each costs one start."""
    job = job_of("killed")
    client = job.client()
    reached: list[str] = []
    try:
        job.kill_coordinator()
        for number, point in enumerate(POINTS):
            job.disarm()
            job.start_coordinator(kill_at=point)
            before = job.wait_until_running()
            destination = next(
                host
                for host in job.host_names
                if host not in (before["0"]["host"], before["0-0"]["host"])
            )
            job.arm()
            request = client.place("0", destination)
            assert job.coordinator is not None
            process = job.coordinator

            def died_or_done(
                process: object = process, request_uuid: str = request.uuid
            ) -> bool | None:
                answer = client.response(request_uuid)
                finished = answer is not None and answer.status_code.is_terminal
                return job.coordinator is not None and (
                    job.coordinator.poll() is not None or finished
                )

            until(f"death at {point}, or the end of the move", died_or_done)
            if process.poll() is not None:
                reached.append(point)
                untouched = {p: v for p, v in before.items() if p != "0"}
                assert all(alive(v["pid"]) for v in untouched.values()), point
            else:
                job.kill_coordinator()
            job.disarm()
            job.start_coordinator()
            after = job.wait_until_running()
            answer = client.wait(request.uuid, timeout_s=20)
            assert answer.status_code == "SUCCEEDED", (number, point, answer)
            assert after["0"]["host"] == destination, point
            for processor in ("0-0", "1", "1-0"):
                assert after[processor]["pid"] == before[processor]["pid"], (point, processor)
            starts = [
                line
                for line in job.journal()
                if line["processor"] == "0" and line["what"] == "started"
            ]
            assert len(starts) == number + 2, (point, starts)
            assert not [line for line in job.journal() if line["what"] == "VIOLATION"], point
            job.kill_coordinator()
        assert len(reached) >= 14, reached
    finally:
        client.close()
