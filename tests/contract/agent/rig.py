"""Real agents on a real LocalCluster, judged by the kernel."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from samza_dagster.agent import main as agent_main
from samza_dagster.cluster import (
    ContainerLaunch,
    LocalCluster,
    ResourceAsk,
)
from samza_dagster.cluster.agent_gateway import listening
from samza_dagster.cluster.interface import ClusterTerm
from tests.rig import waiting
from tests.rig.pace import PACE

STUB = Path(__file__).with_name("stub_container.py")
TOKEN = "a token of the job"
PACKAGED = (sys.executable, "-I", agent_main.__file__)
"""The agent as this package has it; see `Agent.program`."""
DEADLINE_S = 15.0
T = TypeVar("T")


def until(what: str, condition: Callable[[], T | None], *, seconds: float = DEADLINE_S) -> T:
    """Looks often: leases are judged to a tenth of a second."""
    return waiting.until(what, condition, seconds=seconds, every=0.01)


def lease_asked_s(agent: Agent) -> float:
    """When the agent asked for its grant, by CLOCK_BOOTTIME."""
    return json.loads((agent.directory / "grant.json").read_text())["asked_boottime_s"]


def lease_end_s(agent: Agent) -> float:
    """When the agent's grant ends, by CLOCK_BOOTTIME."""
    grant = json.loads((agent.directory / "grant.json").read_text())
    return grant["asked_boottime_s"] + grant["lease_s"]


def boottime_s() -> float:
    """The kernel's clock that leases are counted by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def lives(pid: int) -> bool:
    """The kernel has the process, and it is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


@dataclass
class Recorder:
    """Keeps every callback, as (name, arguments)."""

    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    admit: Callable[[str], None] = lambda _host: None

    def on_host_told(self, host: str) -> None:
        """Admits at once: a coordinator that has nothing to stop."""
        self.calls.append(("on_host_told", (host,)))
        self.admit(host)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *arguments: self.calls.append((name, arguments))

    def named(self, name: str, first: object = None) -> list[tuple[Any, ...]]:
        return [a for n, a in list(self.calls) if n == name and (first is None or a[0] == first)]

    def wait(
        self, name: str, first: object = None, within_s: float = DEADLINE_S
    ) -> tuple[Any, ...]:
        def seen() -> list[tuple[Any, ...]]:
            return self.named(name, first)

        try:
            return until(f"{name}({first})", seen, seconds=within_s)[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; calls: {self.calls}") from None


class Agent:
    """One agent process of one host."""

    def __init__(
        self,
        root: Path,
        host: str,
        memory_mb: int,
        cores: int,
        *more: str,
        program: tuple[str, ...] = (),
    ) -> None:
        self.host = host
        self.root = root
        self.directory = root / "agents" / host
        self.arguments = ["--host", host, "--memory-mb", str(memory_mb), "--cores", str(cores)]
        self.arguments += [
            "--coordinator-url-file",
            str(root / "url"),
            "--token-file",
            str(root / "token"),
        ]
        self.arguments += more
        self.program = program or PACKAGED
        self.process = self.spawn()

    def spawn(self) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "agent.log").open("ab") as log:
            return subprocess.Popen(
                [*self.program, "--directory", str(self.directory), *self.arguments],
                stdout=log,
                stderr=log,
            )

    def kill_9(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.process = self.spawn()

    def incarnation(self, execution_id: str) -> Path:
        return self.directory / "incarnations" / execution_id

    def grandchild(self, execution_id: str) -> int:
        """What a container `forks`; it runs beside the check-in, and may tell its id after it."""
        told = self.incarnation(execution_id) / "work" / "grandchild"
        return int(until("a grandchild", lambda: told.exists() and told.read_text()))

    def warden_pid(self, execution_id: str) -> int:
        return json.loads((self.incarnation(execution_id) / "warden.json").read_text())["warden"][
            "pid"
        ]

    def stop_all(self) -> dict[str, Any]:
        done = subprocess.run(
            [*self.program, "--directory", str(self.directory), "--stop-all"],
            capture_output=True,
            check=False,
        )
        self.process.poll()
        return {"exit": done.returncode, **json.loads(done.stdout)}

    def log(self) -> str:
        return (self.directory / "agent.log").read_text()


class Rig:
    """A job with its hosts; at the end nothing of it lives."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "token").write_text(TOKEN)
        self.agents: list[Agent] = []
        self.clusters: list[LocalCluster] = []

    def cluster(
        self,
        epoch: int = 1,
        lease_s: float = 30.0,
        host_timeout_s: float | None = None,
        url_file: Path | None = None,
        granted_s: float | None = None,
    ) -> tuple[LocalCluster, Recorder]:
        term = ClusterTerm(
            epoch=epoch,
            lease_s=lease_s,
            granted_s=lease_s if granted_s is None else granted_s,
            host_timeout_s=lease_s if host_timeout_s is None else host_timeout_s,
            lease_source=lambda: lease_s,
            gather_s=0.0,
            clock=time.monotonic,
        )
        listen = listening(("127.0.0.1", 0))
        url_file = url_file or self.root / "url"
        cluster = LocalCluster(term, listen=listen, token=TOKEN, url_file=url_file)
        recorder = Recorder(admit=cluster.admit_host)
        self.clusters.append(cluster)
        cluster.start(recorder)  # pyright: ignore[reportArgumentType]
        return cluster, recorder

    def agent(
        self,
        host: str,
        memory_mb: int = 1000,
        cores: int = 4,
        *more: str,
        program: tuple[str, ...] = (),
    ) -> Agent:
        agent = Agent(self.root, host, memory_mb, cores, *more, program=program)
        self.agents.append(agent)
        return agent

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.close()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Agent.stop_all, self.agents))
        for agent in self.agents:
            agent.process.wait(timeout=10 * PACE)


Scenario = Callable[[Rig], None]
Waiting = dict[Scenario, "Future[None]"]


@contextmanager
def rig(root: Path) -> Iterator[Rig]:
    made = Rig(root)
    try:
        yield made
    finally:
        made.close()


def launch(
    execution_id: str,
    variant: str = "plain",
    *,
    processor_id: str = "0",
    stores: tuple[str, ...] = (),
    grace_s: float = 5.0,
    command: tuple[str, ...] | None = None,
) -> ContainerLaunch:
    return ContainerLaunch(
        execution_id=execution_id,
        processor_id=processor_id,
        command=command
        or (
            sys.executable,
            "-I",
            str(STUB),
            variant,
            "{host}",
            "{agent_dir}",
            "{work_dir}",
            "{state_dir}",
        ),
        environment=(
            ("EXECUTION_ENV_CONTAINER_ID", execution_id),
            ("SAMZA_CONTAINER_ID", processor_id),
        ),
        job_model_json='{"config":{"a":"é"},"containers":{}}',
        store_directories=stores,
        stop_grace_s=grace_s,
    )


def ask(
    cluster: LocalCluster,
    request_id: str,
    host: str = "host-1",
    *,
    memory_mb: int = 1,
    expires_in_s: float = 10 * PACE,
    launch: ContainerLaunch | None = None,
    ahead: bool = False,
) -> None:
    """Asks for a resource on `host`, if need be with the launch of what will start on it."""
    cluster.request_resource(
        ResourceAsk(request_id, host, (), memory_mb, 1, expires_in_s, launch, ahead)
    )


def reserve(
    cluster: LocalCluster,
    seen: Recorder,
    request_id: str,
    host: str = "host-1",
    *,
    memory_mb: int = 1,
    expires_in_s: float = 10 * PACE,
) -> None:
    """Asks for a resource on `host` and waits until it is held there."""
    ask(cluster, request_id, host, memory_mb=memory_mb, expires_in_s=expires_in_s)
    assert seen.wait("on_resource_allocated", request_id) == (request_id, host)


def start(
    cluster: LocalCluster, seen: Recorder, host: str, wanted: ContainerLaunch, memory_mb: int = 100
) -> int:
    """Reserves and starts on `host`; the pid once the process exists."""
    request_id = f"r-{wanted.execution_id}"
    reserve(cluster, seen, request_id, host, memory_mb=memory_mb)
    cluster.start_container(request_id, host, wanted)
    return int(seen.wait("on_container_launched", wanted.execution_id)[2])
