"""A sandbox from nothing to a running job with warm standbys, and back to nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from samza_dagster.agent.files import write_json
from samza_dagster.errors import DeadlineExceeded, MissingPrerequisite, Refused, Unreachable
from samza_dagster.interrupts import interrupts_deferred
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.placement.state import Fencing
from samza_dagster.sandbox import demo_job, load, process
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.broker import BROKER, keep_archive
from samza_dagster.sandbox.brokers import Brokers, directories
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.dagster_stack import DagsterStack
from samza_dagster.sandbox.hosts import HOST_CORES, HOST_MEMORY_MB, SimulatedHost, host_names
from samza_dagster.sandbox.java_check import find_java, require_prerequisites
from samza_dagster.sandbox.launch import CONTAINER_MEMORY_MB
from samza_dagster.sandbox.load_plan import RATE, LoadPlan
from samza_dagster.sandbox.ports import is_taken
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.readiness import Readiness
from samza_dagster.sandbox.registry import Registry, wait_until
from samza_dagster.sandbox.runner import OwnRunner
from samza_dagster.sandbox.standalone import StandaloneRunner
from samza_dagster.sandbox.warm_up import build_archive_beside
from samza_dagster.sandbox.yarn.runner import OwnYarnRunner, YarnRunner
from samza_dagster.sandbox.zookeeper import ZOOKEEPER

OURS = "ours"
SAMZAS = "samza"
COORDINATORS = (SAMZAS, OURS)
"""The coordinators on YARN: Samza's own Application Master, or ours."""
PROCESSORS = 3
"""The default of a standalone sandbox."""
_DEFINITIONS = """import pathlib

import dagster as dg

from samza_dagster import SamzaJobComponent

file = pathlib.Path(__file__).with_name("samza_job.yaml")
defs = dg.build_defs_for_component(SamzaJobComponent.from_file(file))
"""


@dataclass(frozen=True)
class Options:
    """The options of a sandbox."""

    name: str = "default"
    actives: int = 2
    standbys: int = 1
    hosts: int = 4  # also the number of NodeManagers, or of standalone processors
    state_mb: float = 50.0  # live state per active
    rate: float = RATE  # records a second
    seed: int = 1
    host_memory_mb: int = HOST_MEMORY_MB  # each host's memory for containers, MiB
    # `samza.dagster.fencing`; with `broker` each container has its own login.
    fencing: str = Fencing.BROKER.value
    # `host:port` of a forwarder to the broker's listener for coordinator and containers; one for
    # each of `brokers`, separated by commas.
    job_address: str = ""
    brokers: int = 1
    yarn: bool = False  # containers run on NodeManagers
    coordinator: str = SAMZAS  # one of `COORDINATORS`; Samza's own Application Master has no logins
    standalone: bool = False  # standalone processors over a ZooKeeper run the containers
    # Settings of the job, above the default ones. YARN gets those that begin with `yarn.` too.
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    deadline_s: float = 900.0

    def __post_init__(self) -> None:
        if self.yarn and self.standalone:
            raise Refused(
                "one of YARN and standalone processors runs the containers",
                seen="both",
                fix="--yarn or --standalone",
            )
        if self.coordinator == OURS and not self.yarn:
            raise Refused(
                "a choice of the coordinator, which is one on YARN alone",
                seen=f"coordinator {OURS} without YARN",
                fix="--yarn --coordinator ours; without either the coordinator is ours, too",
            )
        if self.hosts < self.standbys + 1:
            raise Refused(
                "an active and its standbys never share a host",
                seen=f"{self.hosts} hosts for {self.standbys + 1} copies of each task",
                fix=f"--hosts {self.standbys + 1} or more",
            )
        room = self.hosts * min(self.host_memory_mb // CONTAINER_MEMORY_MB, HOST_CORES)
        if room < self.processors:
            raise Refused(
                "every container finds a host with enough memory and cores",
                seen=f"{self.hosts} hosts have room for {room} containers, {self.processors} are wanted",
                fix=f"more --hosts, or --host-memory-mb {-(-self.processors // self.hosts) * CONTAINER_MEMORY_MB}",
            )

    @property
    def replicas(self) -> int:
        """Return the replication of the job's topics: three, or one per broker if fewer."""
        return min(3, self.brokers)

    @property
    def is_fenced(self) -> bool:
        """Return whether the broker can refuse one incarnation alone."""
        return self.fencing == Fencing.BROKER.value and not self.is_under_samza

    @property
    def is_under_samza(self) -> bool:
        """Return whether Samza's own Application Master runs the containers."""
        return self.yarn and self.coordinator == SAMZAS

    @property
    def processors(self) -> int:
        """Return the number of containers, or of standalone processors (two containers each)."""
        return self.hosts if self.standalone else self.actives * (1 + self.standbys)


class Sandbox:
    """A sandbox by name; its files are all below `registry.directory`."""

    def __init__(self, name: str = "default", *, root: Path | None = None) -> None:
        self.registry = Registry(name, root=root)
        self.directory = self.registry.directory
        self.own = OwnRunner(self.registry)
        self.yarn = YarnRunner(self.registry)
        self.own_yarn = OwnYarnRunner(self.registry)
        self.standalone = StandaloneRunner(self.registry, self.own.files.logins)
        self.brokers: Brokers | None = None
        """Set when this process brought the sandbox up."""

    @property
    def runner(self) -> OwnRunner | YarnRunner | StandaloneRunner:
        """Return the runner of its job, by its record."""
        options = self.registry.read().get("options", {})
        if options.get("standalone", False):
            return self.standalone
        if not options.get("yarn", False):
            return self.own
        return self.own_yarn if options.get("coordinator", SAMZAS) == OURS else self.yarn

    @property
    def files(self) -> CoordinatorFiles:
        """Return the files of our own coordinator."""
        runner = self.runner
        return runner.files if isinstance(runner, OwnRunner) else self.own.files

    @property
    def dagster_home(self) -> Path:
        """Return the DAGSTER_HOME of this sandbox."""
        return self.directory / "dagster"

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """Return the simulated hosts on record."""
        return self.runner.hosts

    def up(
        self,
        options: Options,
        phases: Phases,
        *,
        on_broker: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Bring the sandbox up and return its status; a failure leaves nothing running.

        The logs of a failed start stay, as those after `down`; an interrupt leaves none.
        `on_broker` gets the bootstrap servers as soon as they answer and their topics exist.
        Raises `Refused` while it's up already, `DeadlineExceeded` that names the phase,
        `MissingPrerequisite` elsewhere than on Linux or without the extra, and the errors of the
        parts.
        """
        require_prerequisites()
        with self.registry.exclusive():
            # A sandbox with state "starting" was killed, since its `up` would hold the lock.
            if self.registry.live() and self.registry.read().get("state") == "up":
                raise Refused(
                    f"one sandbox named {self.registry.name!r}",
                    seen=f"it is {self.status()['state']}",
                    fix=f"samza-dagster sandbox down --name {self.registry.name}, or another --name",
                )
            try:
                with phases.phase("remains of an earlier sandbox"):
                    self._clean()
                self._start(options, phases, on_broker)
            except BaseException as error:
                with interrupts_deferred():
                    self._clean(keep_logs=isinstance(error, Exception))
                raise
        return self.status()

    def dagster(self, port: int) -> DagsterStack:
        """Return a Dagster for its job at a port of loopback, not started yet.

        Raises `Refused` while its broker doesn't answer, `MissingPrerequisite` for a taken port.
        """
        name, facts = self.registry.name, self.status()
        if facts["bootstrap_servers"] is None:
            up = f"samza-dagster sandbox up --name {name} --detach"
            raise Refused(f"Dagster on sandbox {name!r}", seen=f"it is {facts['state']}", fix=up)
        if is_taken(port):
            raise MissingPrerequisite(
                f"port {port} for Dagster",
                seen="another process listens there",
                fix="another --port",
            )
        self.dagster_home.mkdir(parents=True, exist_ok=True)
        attributes = {
            "bootstrap_servers": facts["bootstrap_servers"],
            "app_name": facts["job"]["name"],
            "app_id": facts["job"]["id"],
            "hosts": sorted(facts["hosts"]),
        }
        if asked := resource_manager_of(facts):
            attributes["yarn_resource_manager"] = asked
        if facts["zookeeper"]:
            attributes |= {"deployment": "standalone", "zookeeper": facts["zookeeper"]}
        write_json(
            self.dagster_home / "samza_job.yaml",
            {"type": "samza_dagster.SamzaJobComponent", "attributes": attributes},
        )
        definitions = self.dagster_home / "definitions.py"
        definitions.write_text(_DEFINITIONS, encoding="utf-8")
        return DagsterStack(self.dagster_home, definitions, port=port)

    def down(self) -> int:
        """End every process of the sandbox, confirm that, and return how many were running.

        Data goes; logs and Dagster's instance stay until the next `up`. Raises `ActionFailed`
        that names the processes which survive.
        """
        if not self.directory.is_dir():
            return 0
        with self.registry.exclusive():
            running = len(self.registry.live())
            with interrupts_deferred():
                self._clean(keep_logs=True)
        return running

    def close(self) -> None:
        """Call `down` if this process brought the sandbox up: another one's stays up."""
        if self.brokers is not None:
            self.down()

    def status(self) -> dict[str, Any]:
        """Return the status; `state` is `down`, `starting`, `up` or `broken` (a part is gone).

        An address is None while it doesn't answer.
        """
        record = self.registry.read()
        facts: dict[str, Any] = {
            "name": self.registry.name,
            "state": "down",
            "bootstrap_servers": None,
            "zookeeper": None,
            "coordinator_url": None,
            "job": {"name": demo_job.JOB_NAME, "id": demo_job.JOB_ID},
            "deployment_id": None,
            "hosts": {},
            "processors": {},
            "dagster_url": None,
            "data_dir": str(self.directory),
        }
        live = {each.role for each in self.registry.live()}
        if not live:
            return facts
        brokers = set(record.get("brokers", [BROKER]))
        facts["bootstrap_servers"] = record.get("bootstrap_servers") if brokers & live else None
        facts["dagster_url"] = record.get("dagster_url")
        wanted = {*brokers, load.ROLE, *self.runner.roles}
        state = record.get("state", "starting")
        is_starting = state == "starting" and self.registry.is_held
        facts["gone"] = [] if is_starting else sorted(wanted - live)
        facts["state"] = "broken" if facts["gone"] else state
        return facts | self.runner.facts(live)

    def _start(
        self,
        options: Options,
        phases: Phases,
        on_broker: Callable[[str], None] | None,
    ) -> None:
        self.registry.update(
            state="starting", options=asdict(options), hosts=list(host_names(options.hosts))
        )
        runner = self.runner
        with phases.phase("Java and jars") as tell:
            find_java()
            for name in ("kafka", "samza", *runner.jars):
                jar_paths(name, tell=tell, verify=True)
        with phases.phase("broker" if options.brokers == 1 else f"{options.brokers} brokers"):
            broker = self.brokers = Brokers(
                self.directory / "broker",
                options.brokers,
                authorizer=options.is_fenced,
                job_address=options.job_address,
                on_spawn=self.registry.add,
            ).start()
            servers = broker.bootstrap_servers
            self.registry.update(
                bootstrap_servers=servers, brokers=[node.role for node in broker.nodes]
            )
        with phases.phase("topics"):
            streams = demo_job.streams(actives=options.actives, replicas=options.replicas)
            ensure_topics(KafkaCluster(servers), streams)
        if on_broker is not None:
            on_broker(servers)
        plan = LoadPlan.for_state(
            options.state_mb, actives=options.actives, rate=options.rate, seed=options.seed
        )
        with (
            build_archive_beside(self.directory / "warm-up", self.registry.add, phases),
            phases.phase("fill") as tell,
        ):
            load.fill(
                servers,
                plan,
                lambda sent, total: tell(f"{sent:,} of {total:,} records"),
                broker.require_running,
            )
        logins = None
        if options.is_fenced:
            logins = self.files.logins.create(broker)
        config = demo_job.job_config(
            broker.job_servers,
            actives=options.actives,
            standbys=options.standbys,
            replicas=options.replicas,
            logins=logins,
        )
        runner.start(config, options.settings, options.host_memory_mb, phases)
        load.start(servers, plan, self.directory, on_spawn=self.registry.add)
        deadline = time.monotonic() + options.deadline_s
        ready = Readiness(
            runner.processors,
            [host.state_directory for host in runner.hosts],
            servers,
            wanted=options.processors,
            standbys=options.standbys,
        )
        try:
            with phases.phase("containers"):
                self._wait(ready.are_all_running, ready.explain, deadline)
            with phases.phase("state processed"):
                self._wait(lambda: ready.outputs() >= plan.keys, ready.explain, deadline)
            if options.standbys:
                with phases.phase("standbys caught up"):
                    self._wait(
                        lambda: ready.are_standbys_ready(options.rate), ready.explain, deadline
                    )
        finally:
            ready.close()
        self.registry.update(state="up")

    def _wait(
        self, condition: Callable[[], bool], explain: Callable[[], str], deadline: float
    ) -> None:
        unread = ""

        def is_so() -> bool:
            nonlocal unread
            if self.brokers is not None:
                self.brokers.require_running()
            try:
                return condition()
            except Unreachable as error:  # the parts run, and are too busy to answer
                unread = f"; {error}"
                return False

        if not wait_until(is_so, deadline):
            raise DeadlineExceeded(
                "bring the sandbox up", seen=explain() + unread, fix=f"see {self.directory}"
            )

    def _clean(self, *, keep_logs: bool = False) -> None:
        """End everything on record, containers first, the broker last, and drop the data."""
        DagsterStack.stop_recorded(self.dagster_home)
        runner = self.runner
        hosts = runner.hosts
        process.stop_all(self.registry.live(load.ROLE))
        runner.stop()
        killed = process.stop_all(self.registry.live())
        broker_killed = any(record.role.startswith(BROKER) for record in killed)
        for each in directories(self.directory / "broker"):
            if not broker_killed:
                keep_archive(each)
            shutil.rmtree(each / "data", ignore_errors=True)
        for each in (
            *(self.directory / "warm-up", self.directory / ZOOKEEPER / "data"),
            *(host.state_directory for host in hosts),
        ):
            shutil.rmtree(each, ignore_errors=True)
        if not keep_logs:
            for name in ("broker", "hosts", "coordinator", "yarn", "processors", ZOOKEEPER):
                shutil.rmtree(self.directory / name, ignore_errors=True)
            shutil.rmtree(self.dagster_home, ignore_errors=True)  # its runs belong to that job
            (self.directory / "load.log").unlink(missing_ok=True)
        (self.directory / "load.json").unlink(missing_ok=True)
        self.registry.forget()


def resource_manager_of(facts: Mapping[str, Any]) -> str:
    """Return the ResourceManager that clients query under Samza's own Application Master."""
    return facts["resource_manager"] or "" if "application" in facts else ""
