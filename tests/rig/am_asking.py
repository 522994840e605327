"""Asks for what `tests.chaos.am_requests` has drawn, of a job on a real YARN, and says what it was told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid as uuid_module
from collections.abc import Callable
from contextlib import closing
from typing import Any

import dagster as dg

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.chaos.am_judge import LOOK_MS, Claim, Fault, Outcome, Process, Rest, Stream, Word
from tests.chaos.am_requests import (
    ABSENT_PROCESSOR,
    CLI,
    DAGSTER,
    FAULTS,
    KILL_AM,
    LOSE_NODE,
    Ask,
    command,
    config,
)
from tests.rig.am_rules import NAMESPACE, REQUEST, compact
from tests.rig.looking import Looking
from tests.rig.pace import PACE
from tests.rig.topic_records import records_of
from tests.rig.waiting import until
from tests.rig.yarn_job import Jobs, application_master, listed, master_host, places

HANGS_S = 330.0
_OVER = "over: deployment"


def now_ms() -> int:
    """By the one clock of this machine, which broker, hosts and tests have."""
    return time.time_ns() // 1_000_000


class Witness:
    """Looks at the containers' processes, by the kernel, until it is closed."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._seen: dict[str, Process] = {}
        self._looking = Looking(self._look, LOOK_MS / 3000)

    def close(self) -> None:
        """Ends the looks; raises what ended them before."""
        self._looking.close()

    def processes(self) -> list[Process]:
        """All that were seen by now."""
        return list(self._seen.values())

    def _look(self) -> None:
        at_ms = now_ms()
        for processor, each in self._sandbox.yarn.processors().items():
            execution = str(each["execution_id"])
            known = self._seen.get(execution)
            first_ms = known.first_ms if known else at_ms
            self._seen[execution] = Process(
                processor, str(each["host"]), execution, first_ms, at_ms
            )


class Asking:
    """Asks one after another, from any thread. `faults` are those that it has done itself."""

    def __init__(
        self, sandbox: Sandbox, connection: Connection, jobs: dict[bool, Jobs], actives: int
    ) -> None:
        self.faults: list[Fault] = []
        self._sandbox = sandbox
        self._connection = connection
        self._jobs = jobs
        self._actives = actives
        self._hosts = sorted(sandbox.status()["hosts"])
        self._yarn = str(sandbox.status()["resource_manager"])
        self._ended: list[dict[str, Any]] = []

    def ask(self, ask: Ask) -> Word:
        """What was said of it in the end; whatever goes wrong is a word as well."""
        began_ms = now_ms()
        print(f"  {ask} …", flush=True)
        try:
            word = self._form(ask)(ask, began_ms)
        except Exception as error:
            word = Word(ask, began_ms, now_ms(), Outcome.BROKEN, said=f"{type(error).__name__}: {error}")  # fmt: skip
        print(
            f"  {ask}: {word.outcome} after {(word.ended_ms - began_ms) / 1000:.1f} s", flush=True
        )
        return word

    def _form(self, ask: Ask) -> Callable[[Ask, int], Word]:
        if ask.kind in CLI:
            return self._by_command
        if ask.kind in DAGSTER:
            return self._by_job
        return self._by_fault if ask.kind in FAULTS else self._by_others

    def _by_command(self, ask: Ask, began_ms: int) -> Word:
        uuid = str(uuid_module.uuid4())
        ran = self._run(*command(ask, uuid), knows_yarn=ask.knows_yarn)
        told = json.loads(ran.stdout)
        response = told.get("response") or {}
        outcome = {0: Outcome.DONE, 1: Outcome.FAILED, 2: Outcome.REFUSED}.get(
            ran.returncode, Outcome.BROKEN
        )
        if outcome is Outcome.REFUSED and response:
            outcome = Outcome.FAILED  # by the AM: BAD_REQUEST
        if outcome is Outcome.FAILED and _OVER in ran.stdout:
            outcome = Outcome.OVER
        claims: tuple[Claim, ...] = ()
        if outcome is Outcome.DONE and ask.kind != "dry run":
            asked = told["request"]["destinationHost"]
            claims = (Claim(ask.processor, asked if asked in self._hosts else ""),)
            self._ended.append(told["request"])
        return Word(ask, began_ms, now_ms(), outcome, claims, uuid, ran.stdout + ran.stderr)

    def _run(self, *words: str, knows_yarn: bool = False) -> subprocess.CompletedProcess[str]:
        environment = demo_job.environment(
            self._connection.bootstrap_servers,
            yarn_resource_manager=self._yarn if knows_yarn else "",
        )
        return subprocess.run(
            [sys.executable, "-m", "samza_dagster.cli.main", *words],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=HANGS_S * PACE,
            check=False,
        )

    def _by_job(self, ask: Ask, began_ms: int) -> Word:
        given = config(ask)
        result = self._jobs[ask.knows_yarn].run(ask.kind, **given)
        outcome, claims, said = of_run(ask, result, actives=self._actives)
        return Word(ask, began_ms, now_ms(), outcome, claims, said=said)

    def _by_fault(self, ask: Ask, began_ms: int) -> Word:
        if ask.kind == KILL_AM:
            master = application_master(self._sandbox)
            assert master is not None
            self.faults.append(Fault(KILL_AM, now_ms()))
            os.kill(master, signal.SIGKILL)
            until("another AM runs", lambda: application_master(self._sandbox) not in (None, master), seconds=90)  # fmt: skip
        else:
            spared = master_host(self._sandbox)
            there = sorted(set(places(self._sandbox).values()) - {spared})
            lost = there[ask.detail % len(there)]
            self.faults.append(Fault(LOSE_NODE, now_ms(), lost))
            self._sandbox.yarn.lose(lost)
        all_of_them = 2 * self._actives
        until("all run again", lambda: len(places(self._sandbox)) == all_of_them, seconds=180)
        return Word(ask, began_ms, now_ms(), Outcome.DONE)

    def _by_others(self, ask: Ask, began_ms: int) -> Word:
        with closing(PlacementClient(self._connection)) as client:
            uuid = str(uuid_module.uuid4())
            request: dict[str, Any] = {
                "subType": REQUEST,
                "deploymentId": client.view().deployment_id,
                "processorId": ask.processor,
                "uuid": uuid,
                "destinationHost": "LAST_SEEN",
                "statusCode": "CREATED",
                "timestamp": now_ms(),
            }
            if ask.kind == "duplicate" and self._ended:
                request = {**self._ended[-1], "timestamp": now_ms()}
            elif ask.kind in ("duplicate", "stale deployment"):
                request["deploymentId"] = "0-of-nobody"
            elif ask.kind == "host of its standby":
                request["destinationHost"] = places(self._sandbox)[f"{ask.processor}-0"]
            elif ask.kind == "poison":
                request["processorId"] = ABSENT_PROCESSOR
            else:
                del request["processorId"]
            self._write(request)
            if ask.kind in ("garbage", "poison"):
                ran = self._run("gc", "--older-than", "1h", "--json")
                if ran.returncode != 0:
                    return Word(ask, began_ms, now_ms(), Outcome.BROKEN, said=ran.stdout)
            key = f"{request['uuid']}.{REQUEST}"
            until(f"{ask}: nobody waits for it", lambda: key not in left(self._connection), seconds=HANGS_S)  # fmt: skip
        return Word(ask, began_ms, now_ms(), Outcome.DONE, said=str(request))

    def _write(self, request: dict[str, Any]) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._connection.bootstrap_servers})
        key = compact([1, NAMESPACE, f"{request['uuid']}.{REQUEST}"])
        topic = self._connection.coordinator_stream_topic
        producer.produce(topic, key=key.encode(), value=compact(request).encode())
        assert producer.flush(20) == 0


def of_run(
    ask: Ask, result: dg.ExecuteInProcessResult, *, actives: int
) -> tuple[Outcome, tuple[Claim, ...], str]:
    """How a run has ended, what it says is so, and why it has failed."""
    if result.success:
        return Outcome.DONE, _claims(ask, result, actives), ""
    failures = [event for event in result.all_events if event.is_step_failure]
    reasons = [event.step_failure_data.user_failure_data for event in failures]
    if not reasons or None in reasons:  # no failure of ours, but a crash
        return Outcome.BROKEN, (), str([event.event_specific_data for event in failures])
    said = "; ".join(str(each.description) for each in reasons if each is not None)
    refused = any((event.step_key or "").startswith("plan_") for event in failures)
    over = Outcome.OVER if _OVER in said else Outcome.FAILED
    return Outcome.REFUSED if refused else over, (), said


def _claims(ask: Ask, result: dg.ExecuteInProcessResult, actives: int) -> tuple[Claim, ...]:
    if ask.kind == "drain_host":
        return (Claim(host=ask.host),)
    if ask.kind == "rolling_bounce":
        return tuple(Claim(p) for n in range(actives) for p in (str(n), f"{n}-0"))
    there = Claim(ask.processor, str(result.output_for_node("verify_placement")))
    if ask.kind == "move_with_standby":
        return (there, Claim(f"{ask.processor}-0"))
    return (there,)


def left(connection: Connection) -> set[str]:
    """Keys of the requests that stand in the coordinator stream, taken by nobody."""
    newest = dict(records_of(connection, connection.coordinator_stream_topic))
    keys = ((json.loads(key), value) for key, value in newest.items())
    return {
        name
        for (_, kind, name), value in keys
        if kind == NAMESPACE and value is not None and name.endswith(REQUEST)
    }


def read_stream(connection: Connection) -> Stream:
    """All of it, as one who only reads."""
    statuses: dict[str, list[tuple[str, str]]] = {}
    processors: dict[str, str] = {}
    for key, value in records_of(connection, connection.coordinator_stream_topic):
        _, kind, name = json.loads(key)
        if kind != NAMESPACE or value is None:
            continue
        told = json.loads(value)
        processors.setdefault(told["uuid"], told.get("processorId", ""))
        if not name.endswith(REQUEST):
            said = (told["statusCode"], told["responseMessage"])
            statuses.setdefault(told["uuid"], []).append(said)
    return Stream(statuses, processors, left(connection))


def attempts_of(sandbox: Sandbox) -> int:
    """How many Application Masters the job had by now, by the ResourceManager (see `at_rest`)."""
    attempts = listed(sandbox, f"apps/{sandbox.status()['application']}/appattempts")
    return len(attempts["appAttempts"]["appAttempt"])


def at_rest(sandbox: Sandbox, client: PlacementClient, *, earlier: int) -> Rest:
    """How the job is now. `earlier` Application Masters were there before the first request."""
    view = client.view()
    nodes = listed(sandbox, "nodes")["nodes"]["node"]
    return Rest(
        state=listed(sandbox, f"apps/{sandbox.status()['application']}")["app"]["state"],
        attempts=attempts_of(sandbox) - earlier,
        waits=[f"{a.uuid} of {a.processor_id}" for a in (*view.actions, *view.queued)],
        shown={p: each.host or "" for p, each in view.processors.items()},
        there=places(sandbox),
        per_node={n["nodeHostName"]: n["numContainers"] for n in nodes if n["state"] == "RUNNING"},
        master_on=master_host(sandbox),
    )
