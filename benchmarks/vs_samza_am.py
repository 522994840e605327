"""Our coordinator beside Samza's own Application Master: one YARN, one job, in turns.

`make bench-yarn`. The job is deployed by the one, measured, ended in order, deployed by the other on the same
nodes with the same state, and so on, `--turns` of each, until each has REPEATS of every scenario:

- `first response`: from a request's record to the first answer's, by the broker's timestamps;
- `planned move`: the active `0` onto its standby's host; under Samza's master the standby was moved away before;
- `failover`: `SIGKILL` of the active `0`;
- `host lost`: all that runs on the host of the active `0` is killed, its NodeManager too. Downtime counts
  from the moment at which whoever coordinates noticed (our agents' silence; a LOST node of YARN): what comes
  before is a setting of each;
- `lost without standby`: the same in a job that has none, on a YARN of its own.

Downtime is the longest silence of the moved tasks' outputs, by the broker's timestamps. An outsider counts
what is missing in the outputs. Exit status 0: all was measured, nothing is missing, and the bounds hold.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.downtime_moves import longest_of
from benchmarks.results_file import keep
from samza_dagster.client.audit_history import read_history
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.coordinator.fencing.principals import KAFKA_FACTORY, PROMPT_KAFKA_FACTORY
from samza_dagster.interrupts import interrupts_raise
from samza_dagster.metadata.connection import read_properties
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job, kafka_client, process
from samza_dagster.sandbox.coordinator_process import ROLE
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.launch import MAIN_CLASS
from samza_dagster.sandbox.lifecycle import OURS, SAMZAS, Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.readiness import near_copies
from samza_dagster.sandbox.yarn.job import YarnJob
from samza_dagster.sandbox.yarn.processes import java_processes
from tests.rig.job import kill
from tests.rig.replacement import partitions_of
from tests.rig.topic_records import timed_records_of
from tests.rig.waiting import until

RATE = 200.0
STATE_MB = 8.0
PATIENCE_S = 240.0
ALONE = "lost without standby"
BOUNDS = {
    "first response": 20.0,
    "planned move": 2.0,
    "failover": 1.0,
    "host lost": 2.0,
    ALONE: 2.0,
}
"""How many times faster ours has to be at the median."""
SETTINGS = {
    "metrics.reporter.snapshot.interval": "5",
    "samza.dagster.host.timeout.ms": "10000",
    "cluster-manager.container.retry.count": "-1",
}
_console = Console(stderr=True, highlight=False)


class Deployments:
    """The job on one YARN, led by `who` at a time; each active has so many `standbys`."""

    def __init__(self, box: Sandbox, standbys: int) -> None:
        self.box = box
        self.standbys = standbys
        self.nodes = box.own_yarn.nodes
        self.files = box.own_yarn.files
        self.servers = str(box.status()["bootstrap_servers"])
        self.connection = demo_job.connection(self.servers)
        self.judge = Judge(self.servers)
        self.who = OURS
        self.application = self.newest = self.lost = ""

    def switch(self, who: str) -> float:
        """Ends the one in order and deploys the other; seconds in which nobody ran."""
        if who == self.who:
            return 0.0
        began = time.monotonic()
        if who == SAMZAS:
            self._end_ours()
            self.application = self._samzas_job().submit()
        else:
            self._end_samzas()
            self._begin_ours()
        self.who = who
        until("all containers run", self.all_run, seconds=PATIENCE_S)
        took = time.monotonic() - began
        self.settle()
        return took

    def all_run(self) -> bool:
        """As many containers as the job has."""
        return len(self.containers()) == 2 * (1 + self.standbys)

    def containers(self) -> Mapping[str, Mapping[str, Any]]:
        """Processor → host and pid, by the kernel, whoever started it; a second process has a name of its own.

        Ours starts a container's next process before its last one has ended: that one waits for its JobModel.
        """
        found: dict[str, dict[str, Any]] = {}
        for pid, environment in java_processes(MAIN_CLASS):
            host = Path(environment.get("LOGGED_STORE_BASE_DIR", "/")).parent
            if host.parent == self.nodes.directory:
                processor = environment["SAMZA_CONTAINER_ID"]
                if processor in found:
                    processor = f"{processor} again"
                found[processor] = {"host": host.name, "pid": pid}
        return found

    def settle(self) -> None:
        """All run, every standby is near, and all inputs have their outputs."""
        directories = [host.state_directory for host in self.box.hosts]

        def near() -> bool:
            if not self.all_run():
                return False
            consumer = kafka_client.consumer(self.servers)
            try:
                ends = kafka_client.end_offsets(consumer, demo_job.CHANGELOG_TOPIC)
            finally:
                consumer.close()
            return all(n > self.standbys for n in near_copies(directories, ends, round(RATE * 10)))

        until("standbys are near", near, seconds=PATIENCE_S)
        verdict = self.judge.judge(deadline_s=PATIENCE_S)
        assert verdict.is_good, verdict

    def downtime_s(self, act: Callable[[], float]) -> float:
        """Of the tasks of `0` by `act`, which returns the time (ms) that doesn't count."""
        before = self.containers()["0"]["pid"]
        since_ms = int(time.time() * 1000)
        not_before_ms = act()
        until(
            "0 runs again",
            lambda: self.containers().get("0", {}).get("pid") not in (None, before),
            seconds=PATIENCE_S,
        )
        self.settle()
        window = (since_ms, int(time.time() * 1000))
        verdict = self.judge.judge(deadline_s=PATIENCE_S, window_ms=window)
        assert verdict.is_good, verdict
        gap = longest_of(verdict.gaps, partitions_of("0"), since_ms)
        return (gap.to_ms - max(gap.from_ms, not_before_ms)) / 1000

    def make_room(self) -> str:
        """Where `0` is to be placed to be on its standby's host: Samza's master moves no two at once."""
        if self.who == OURS:
            return "STANDBY"
        places = self.containers()
        taken = {each["host"] for name, each in places.items() if name.partition("-")[0] == "0"}
        free = next(host.name for host in self.box.hosts if host.name not in taken)
        self.place("0-0", free)
        self.settle()
        return str(places["0-0"]["host"])

    def place(self, processor: str, destination: str) -> float:
        """Returns once it has SUCCEEDED."""
        with PlacementClient(self.connection) as client:
            self.newest = client.place(processor, destination).uuid
            answer = client.wait(self.newest, timeout_s=PATIENCE_S)
        assert answer.status_code is StatusCode.SUCCEEDED, answer
        return 0.0

    def response_s(self) -> float:
        """From the newest move's record to its first answer's."""
        times: dict[bool, int] = {}
        for at_ms, key, value in timed_records_of(
            self.connection, self.connection.coordinator_stream_topic
        ):
            name = json.loads(key)[2]
            if name.startswith(self.newest) and value is not None:
                times.setdefault("Response" in name, at_ms)
        return max(0.001, (times[True] - times[False]) / 1000)

    def kill(self) -> float:
        """`SIGKILL` of the active `0`."""
        kill(self.containers()["0"]["pid"])
        return 0.0

    def lose(self) -> float:
        """Kills the host of `0`; when its loss was noticed, ms since the epoch."""
        host = self.containers()["0"]["host"]
        self.box.own_yarn.lose(host)
        self.lost = host
        return self._lost_by_yarn_ms(host) if self.who == SAMZAS else self._lost_by_ours_ms(host)

    def bring_back(self) -> None:
        """The host that was lost."""
        cluster = self.nodes.cluster
        assert cluster is not None
        cluster.start_node(self.lost)
        until("the node runs", lambda: self._node_state(self.lost) == "RUNNING", seconds=PATIENCE_S)

    def close(self) -> None:
        """Lets go of the broker."""
        self.judge.close()

    def _lost_by_yarn_ms(self, host: str) -> float:
        until("YARN says LOST", lambda: self._node_state(host) == "LOST", seconds=PATIENCE_S)
        return time.time() * 1000

    def _lost_by_ours_ms(self, host: str) -> float:
        began_ms = time.time() * 1000

        def declared() -> int | None:
            ends = [
                record.at_ms
                for record in read_history(self.connection).records
                if record.kind == "end" and record.how != "dead" and record.host == host
                if record.at_ms > began_ms
            ]
            return min(ends, default=None)

        return float(until("ours takes it for ended", declared, seconds=PATIENCE_S) or 0)

    def _node_state(self, host: str) -> str:
        nodes = self._ask("nodes")["nodes"]["node"]
        states = [each["state"] for each in nodes if each["nodeHostName"] == host]
        return "RUNNING" if "RUNNING" in states else states[0]

    def _ask(self, what: str) -> Any:
        url = f"{self.nodes.record['url']}/ws/v1/cluster/{what}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)

    def _samzas_job(self) -> YarnJob:
        cluster = self.nodes.cluster
        assert cluster is not None
        login = read_properties(self.files.logins.client_config, "a login")
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        jaas = f'{module} required username="{login["sasl.username"]}" password="{login["sasl.password"]}";'
        client = {
            "security.protocol": login["security.protocol"],
            "sasl.mechanism": login["sasl.mechanism"],
            "sasl.jaas.config": jaas,
        }
        own = {
            f"systems.kafka.{part}.{key}": value
            for part in ("consumer", "producer")
            for key, value in client.items()
        }
        plain = {
            # Containers of Samza's own master have Samza's own classes alone.
            key: KAFKA_FACTORY if value == PROMPT_KAFKA_FACTORY else value
            for key, value in read_properties(self.files.config, "the job's config").items()
            if not key.startswith("samza.dagster.")
        }
        return YarnJob(cluster, plain, {**SETTINGS, **own})

    def _coordinator(self, verb: str, *more: str) -> list[str]:
        command = [*self.files.command]
        at = command.index("run")
        return [*command[:at], verb, *command[at + 1 :], *more]

    def _end_ours(self) -> None:
        process.stop_all(self.box.registry.live(ROLE))
        subprocess.run(
            self._coordinator("end"), env=self.files.environment, check=True, timeout=PATIENCE_S
        )

    def _begin_ours(self) -> None:
        process.spawn(
            ROLE,
            self._coordinator("run", "--adopt"),
            log=self.files.log,
            environment=self.files.environment,
            on_spawn=self.box.registry.add,
        )

    def _end_samzas(self) -> None:
        request = urllib.request.Request(
            f"{self.nodes.record['url']}/ws/v1/cluster/apps/{self.application}/state",
            data=b'{"state": "KILLED"}',
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=10):
            pass
        until("its containers are dead", lambda: not self.containers(), seconds=PATIENCE_S)


def turn(deployments: Deployments, repeats: int, host_losses: int) -> dict[str, list[float]]:
    """Every scenario so often under whoever leads now; seconds."""
    found: dict[str, list[float]] = {name: [] for name in BOUNDS}

    def note(name: str, seconds: float) -> None:
        found[name].append(round(seconds, 3))
        _console.print(f"{deployments.who:5} {name}: {seconds:.3f} s")

    for _ in range(repeats if deployments.standbys else 0):
        destination = deployments.make_room()
        note("planned move", deployments.downtime_s(partial(deployments.place, "0", destination)))
        note("first response", deployments.response_s())
        note("failover", deployments.downtime_s(deployments.kill))
    for _ in range(host_losses):
        lost = deployments.downtime_s(deployments.lose)
        note("host lost" if deployments.standbys else ALONE, lost)
        deployments.bring_back()
        deployments.settle()
    return found


def measure(turns: int, repeats: int, host_losses: int) -> dict[str, Any]:
    """Both in turns, with a standby and without, and how they compare."""
    results: dict[str, dict[str, list[float]]] = {
        who: {name: [] for name in BOUNDS} for who in (OURS, SAMZAS)
    }
    gaps: dict[str, list[float]] = {OURS: [], SAMZAS: []}

    def take_turns(deployments: Deployments) -> None:
        for number in range(turns):
            for who in (OURS, SAMZAS) if number % 2 == 0 else (SAMZAS, OURS):
                gap = deployments.switch(who)
                if gap:
                    gaps[who].append(round(gap, 1))
                    _console.print(f"to {who}: nobody ran for {gap:.1f} s")
                for name, values in turn(deployments, repeats, host_losses).items():
                    results[who][name] += values

    for standbys in (1, 0):
        with tempfile.TemporaryDirectory(prefix="vs-samza-") as root:
            box = Sandbox("vs-samza", root=Path(root))
            options = Options(
                name="vs-samza", yarn=True, coordinator=OURS, standbys=standbys,
                state_mb=STATE_MB, rate=RATE, settings=SETTINGS,
            )  # fmt: skip
            box.up(options, Phases(_console.print))
            try:
                with closing(Deployments(box, standbys)) as deployments:
                    take_turns(deployments)
            finally:
                box.down()
    ratios = {
        name: round(statistics.median(results[SAMZAS][name]) / statistics.median(ours), 2)
        for name, ours in results[OURS].items()
        if ours and results[SAMZAS][name]
    }
    return {
        "what": "our coordinator beside Samza's Application Master on one YARN, seconds",
        "results": results,
        "switch_s": gaps,
        "ratio_p50": ratios,
        "good": all(ratios.get(name, 0.0) >= bound for name, bound in BOUNDS.items()),
    }


def main() -> int:
    """Prints a table to stderr and JSON to stdout; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2, help="of each deployment")
    parser.add_argument("--repeats", type=int, default=5, help="of each scenario in a turn")
    parser.add_argument("--host-losses", type=int, default=5, help="in a turn")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    given = parser.parse_args()
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    found = measure(given.turns, given.repeats, given.host_losses)
    table = Table(title=found["what"])
    for column in ("", "ours p50", "most", "Samza's p50", "most", "n", "times faster", "wanted"):
        table.add_column(column, justify="right" if column else "left")
    for name, ratio in found["ratio_p50"].items():
        ours, samzas = found["results"][OURS][name], found["results"][SAMZAS][name]
        seconds = (statistics.median(ours), max(ours), statistics.median(samzas), max(samzas))
        cells = [f"{each:.3f}" for each in seconds]
        table.add_row(name, *cells, str(len(ours)), f"{ratio:.1f}", f"{BOUNDS[name]:g}")
    _console.print(table)
    document = json.dumps(found)
    print(document)
    if given.json:
        keep(document, given.json)
    return 0 if found["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
