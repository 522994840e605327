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
from samza_dagster.sandbox.java_check import find_java, need_prerequisites
from samza_dagster.sandbox.launch import CONTAINER_MEMORY_MB
from samza_dagster.sandbox.load_plan import RATE, LoadPlan
from samza_dagster.sandbox.ports import is_taken
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.readiness import Readiness
from samza_dagster.sandbox.registry import Registry, wait_until
from samza_dagster.sandbox.runner import OwnRunner
from samza_dagster.sandbox.standalone import StandaloneRunner
from samza_dagster.sandbox.warm_up import archive_built_beside
from samza_dagster.sandbox.yarn.runner import OwnYarnRunner, YarnRunner
from samza_dagster.sandbox.zookeeper import ZOOKEEPER

OURS = "ours"
SAMZAS = "samza"
COORDINATORS = (SAMZAS, OURS)
"""Which coordinator runs the containers on YARN: Samza's own Application Master, or ours."""
PROCESSORS = 3
"""Of a standalone sandbox, where nobody says another number."""
_DEFINITIONS = """import pathlib

import dagster as dg

from samza_dagster import SamzaJobComponent

file = pathlib.Path(__file__).with_name("samza_job.yaml")
defs = dg.build_defs_for_component(SamzaJobComponent.from_file(file))
"""


@dataclass(frozen=True)
class Options:
    """What a sandbox is made of. `state_mb` is live state per active, `rate` records a second,
    `host_memory_mb` what each host has for containers, MiB. `fencing` is
    `samza.dagster.fencing`: with `broker` containers log in, each as itself. `job_address`:
    `host:port` of what forwards coordinator and containers to the broker's listener for them,
    one for each of `brokers`, separated by commas. `yarn`: containers run on as many NodeManagers,
    by `coordinator` (one of `COORDINATORS`); under Samza's own Application Master nobody logs in.
    `standalone`: as many processors run them, over a ZooKeeper. `settings` are the job's, over
    those that it has otherwise; what begins with `yarn.` is YARN's own as well.
    """

    name: str = "default"
    actives: int = 2
    standbys: int = 1
    hosts: int = 4
    state_mb: float = 50.0
    rate: float = RATE
    seed: int = 1
    host_memory_mb: int = HOST_MEMORY_MB
    fencing: str = Fencing.BROKER.value
    job_address: str = ""
    brokers: int = 1
    yarn: bool = False
    coordinator: str = SAMZAS
    standalone: bool = False
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
        """Of each topic of the job: three, or as many as there are brokers."""
        return min(3, self.brokers)

    @property
    def is_fenced(self) -> bool:
        """The broker tells one incarnation from another."""
        return self.fencing == Fencing.BROKER.value and not self.is_under_samza

    @property
    def is_under_samza(self) -> bool:
        """Samza's own Application Master runs the containers."""
        return self.yarn and self.coordinator == SAMZAS

    @property
    def processors(self) -> int:
        """What runs in the end: all containers, or the standalone processors, with two containers each."""
        return self.hosts if self.standalone else self.actives * (1 + self.standbys)


class Sandbox:
    """One sandbox by name; its files are all below `registry.directory`."""

    def __init__(self, name: str = "default", *, root: Path | None = None) -> None:
        self.registry = Registry(name, root=root)
        self.directory = self.registry.directory
        self.own = OwnRunner(self.registry)
        self.yarn = YarnRunner(self.registry)
        self.own_yarn = OwnYarnRunner(self.registry)
        self.standalone = StandaloneRunner(self.registry, self.own.files.logins)
        self.brokers: Brokers | None = None
        """Once it was brought up in this process."""

    @property
    def runner(self) -> OwnRunner | YarnRunner | StandaloneRunner:
        """What runs its job, by its record."""
        options = self.registry.read().get("options", {})
        if options.get("standalone", False):
            return self.standalone
        if not options.get("yarn", False):
            return self.own
        return self.own_yarn if options.get("coordinator", SAMZAS) == OURS else self.yarn

    @property
    def files(self) -> CoordinatorFiles:
        """Of our own coordinator."""
        runner = self.runner
        return runner.files if isinstance(runner, OwnRunner) else self.own.files

    @property
    def dagster_home(self) -> Path:
        """DAGSTER_HOME of a Dagster that belongs to this sandbox."""
        return self.directory / "dagster"

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """The simulated hosts on record."""
        return self.runner.hosts

    def up(
        self,
        options: Options,
        phases: Phases,
        *,
        on_broker: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Brings it up and returns its status; whatever ends it early leaves nothing running.

        The logs of one that failed stay, as those of a `down` do; an interrupt leaves none.

        `on_broker` is told the bootstrap servers as soon as they answer and their topics exist.

        Raises `Refused` while it's up already, `DeadlineExceeded` that names the phase,
        `MissingPrerequisite` elsewhere than on Linux or without the extra, and what the parts raise.
        """
        need_prerequisites()
        with self.registry.exclusive():
            # One that only began to start: who started it was killed, or would hold the lock.
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
        """A Dagster for its job, not started yet, at that port of loopback.

        Raises `Refused` while no broker of it answers, `MissingPrerequisite` for a port that is taken.
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
        if asked := asked_resource_manager(facts):
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
        """Ends every process of it, confirms that, and returns how many were running.

        Data goes; logs and Dagster's instance stay until the next `up`. Raises `ActionFailed` that names what
        lives on.
        """
        if not self.directory.is_dir():
            return 0
        with self.registry.exclusive():
            running = len(self.registry.live())
            with interrupts_deferred():
                self._clean(keep_logs=True)
        return running

    def close(self) -> None:
        """`down`, if this process brought it up: another's of the same name stays up."""
        if self.brokers is not None:
            self.down()

    def status(self) -> dict[str, Any]:
        """What is up now; `state` is `down`, `starting`, `up` or `broken` (a part is gone).

        An address is None while nobody answers there.
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
            archive_built_beside(self.directory / "warm-up", self.registry.add, phases),
            phases.phase("fill") as tell,
        ):
            load.fill(
                servers,
                plan,
                lambda sent, total: tell(f"{sent:,} of {total:,} records"),
                broker.need,
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
                self._wait(ready.all_running, ready.explain, deadline)
            with phases.phase("state processed"):
                self._wait(lambda: ready.outputs() >= plan.keys, ready.explain, deadline)
            if options.standbys:
                with phases.phase("standbys caught up"):
                    self._wait(lambda: ready.standbys_ready(options.rate), ready.explain, deadline)
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
                self.brokers.need()
            try:
                return condition()
            except Unreachable as error:  # they are there, and too busy to answer
                unread = f"; {error}"
                return False

        if not wait_until(is_so, deadline):
            raise DeadlineExceeded(
                "bring the sandbox up", seen=explain() + unread, fix=f"see {self.directory}"
            )

    def _clean(self, *, keep_logs: bool = False) -> None:
        """Ends all that is on record, containers first, the broker last, and drops the data."""
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
            shutil.rmtree(self.dagster_home, ignore_errors=True)  # its runs are of that job
            (self.directory / "load.log").unlink(missing_ok=True)
        (self.directory / "load.json").unlink(missing_ok=True)
        self.registry.forget()


def asked_resource_manager(facts: Mapping[str, Any]) -> str:
    """The ResourceManager that clients of a sandbox ask, by its status: for a job of Samza's own Application Master."""
    return facts["resource_manager"] or "" if "application" in facts else ""
