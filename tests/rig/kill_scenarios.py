"""What the coordinator is killed in, and what each has to end with."""

from __future__ import annotations

from typing import Any

from tests.rig.job import Job, kill
from tests.rig.kill_points import GONE, Scenario
from tests.rig.pace import PACE
from tests.rig.running_job import Processors, RunningJob
from tests.rig.waiting import until


def free_host(job: RunningJob, processors: Processors, group: str = "0") -> str:
    """A host without a member of the group."""
    return free_hosts(job, processors, group)[0]


def free_hosts(job: RunningJob, processors: Processors, group: str = "0") -> list[str]:
    """All such hosts."""
    taken = {p["host"] for name, p in processors.items() if name.split("-")[0] == group}
    return [host for host in job.host_names if host not in taken]


def _ask(job: RunningJob, how: str, *arguments: str, **more: Any) -> str:
    with job.client() as client:
        return getattr(client, how)(*arguments, **more).uuid


def _done(job: RunningJob, uuid: str) -> None:
    with job.client() as client:
        assert client.wait(uuid, timeout_s=60 * PACE).status_code == "SUCCEEDED"


def _kill_active(_job: RunningJob, before: Processors) -> None:
    kill(before["0"]["pid"])


def swapped(_job: RunningJob, before: Processors) -> dict[str, str | None]:
    """The active in its standby's place, the standby anywhere legal."""
    return {"0": before["0-0"]["host"], "0-0": None}


def _fill_up(job: RunningJob, before: Processors) -> None:
    """The active's host has no room but for what runs there, and then the active dies."""
    host = before["0"]["host"]
    _resize(job, host, 1)
    _kill_active(job, before)


def _resize(job: RunningJob, host: str, memory_mb: int) -> None:
    job.kill_agent(host)
    job.start_agent(host, memory_mb=memory_mb)

    def known() -> bool:
        status = job.status()
        return status is not None and status["hosts"][host].get("memory_mb") == memory_mb

    until(f"{host} with {memory_mb} MiB", known)


def _refuse(job: Job, before: Processors) -> None:
    (job.state_dir(before["0"]["host"]) / "refuse-starts-0").touch()
    _kill_active(job, before)


def set_apart(job: Job) -> None:
    """Nobody but the active is on its host: how much there is to do is the same each time."""
    for name in ("1", "1-0"):
        processors = job.processors()
        lost = processors["0"]["host"]
        if processors[name]["host"] == lost:
            taken = {lost, *(processors[member]["host"] for member in ("1", "1-0"))}
            host = next(host for host in job.host_names if host not in taken)
            _done(job, _ask(job, "place", name, host, request_expiry_s=60 * PACE))


MOVE = Scenario(
    "move",
    lambda job, before: _ask(job, "place", "0", free_host(job, before), request_expiry_s=60 * PACE),
    lambda job, before: {"0": free_host(job, before)},
)
SWAP = Scenario(
    "swap",
    lambda job, _: _ask(job, "place", "0", "STANDBY", request_expiry_s=60 * PACE),
    swapped,
)
SPIN_UP = Scenario(
    "spin-up",
    lambda job, before: _ask(job, "start_standby", "0", free_host(job, before)),
    lambda job, before: {"0-1": free_host(job, before)},
    extra=(0, 1),
)
STOP_STANDBY = Scenario(
    "stop-standby",
    lambda job, _: _ask(job, "stop_standby", "0-1"),
    lambda _job, _before: {"0-1": GONE},
    extra=(1, 0),
)
FAILOVER = Scenario(
    "failover-full",
    _fill_up,
    swapped,
    restore=lambda job, before: _resize(job, before["0"]["host"], job.memory_mb),
)
REFUSED = Scenario(
    "failover-refused",
    _refuse,
    swapped,
    restore=lambda job, before: (job.state_dir(before["0"]["host"]) / "refuse-starts-0").unlink(),
)
HOST_LOST = Scenario(
    "host-lost",
    lambda job, before: job.kill_host(before["0"]["host"]),
    swapped,
    prepare=set_apart,
    restore=lambda job, before: job.start_agent(before["0"]["host"]),
    options={"lease_ms": 9_000, "host_timeout_ms": 4_000},
)

SETTINGS = {
    # Long enough for hosts to register with a new leader, short enough to be waited for.
    "cluster-manager.container.request.timeout.ms": str(round(4_000 * PACE)),
    "cluster-manager.container.retry.count": "-1",
}
