"""One chaos run: a sandbox, one fault after another, and the outsiders' judgement."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from samza_dagster.client.audit_history import read_history
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.placement.audit_codec import audit_from_json
from samza_dagster.placement.verification import verify
from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.judge import Judge
from tests.chaos.acts import Acts
from tests.chaos.broker_log import batches, overlaps, unjudged
from tests.chaos.report import CarriedOut, Report, befell, same_host
from tests.chaos.schedule import Fault
from tests.rig.job import alive
from tests.rig.kill_points import Processors
from tests.rig.load_watch import LoadWatch, load_lives
from tests.rig.replacement import partitions_of
from tests.rig.sandbox_job import SandboxJob
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

REST_S = 240.0
"""Lease, a cold start of everything, and a machine that does all of it at once."""
JUDGED_S = 240.0
_LOOK_S = 0.3
_WHOLE_MS = 7 * 24 * 3600 * 1000


class ChaosRun:
    """`say` is told each fault as it happens."""

    def __init__(self, job: SandboxJob, report: Report, say: Callable[[str], None]) -> None:
        self._job = job
        self._report = report
        self._say = say
        self._acts = Acts(job)
        self._judge = Judge(job.connection.bootstrap_servers)
        self._owners: dict[str, set[str]] = {}
        self._doubt = ""

    def go(self, faults: Iterable[Fault]) -> Report:
        """All of them, then the judgement; whatever happens everything is let go."""
        began = time.monotonic()
        wanted = self._job.actives * (1 + self._job.standbys)
        until("all that run are seen", lambda: len(self._job.journal()) >= wanted)
        _keep_whole(self._job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC)
        self._note_owners(self._job.processors())
        try:
            group: list[CarriedOut] = []
            for fault in faults:
                at, known = time.time(), len(self._job.journal())
                victim, undo = self._acts.carry_out(fault)
                self._say(f"{fault}: {victim}")
                time.sleep(fault.hold_s)  # the fault's own length: nothing is waited for
                undo()
                group.append(CarriedOut(fault, victim, at, known))
                if fault.joined:
                    continue
                self._rest(group)
                group = []
            self._rest(group)
        finally:
            self._acts.heal()
        self._end()
        self._report.seconds = round(time.monotonic() - began, 1)
        self._judge.close()
        return self._report

    def _rest(self, group: list[CarriedOut]) -> None:
        if not group:
            return
        since = time.monotonic()
        deadline, rest_s = since + REST_S, None
        watch = LoadWatch(self._load_lives)
        while rest_s is None and time.monotonic() < deadline and self._load_lives():
            if self._is_at_rest(watch):
                rest_s = round(time.monotonic() - since, 1)
            else:
                time.sleep(_LOOK_S)
        if rest_s is None:
            status = json.dumps(self._job.status())[:2000]
            waited_s = time.monotonic() - since
            self._say(f"not at rest after {waited_s:.0f} s: {self._doubt or status}")
        else:
            self._note_owners(self._job.processors())
        told = befell(group, self._job.journal(), self._silences(group[0].at_s), rest_s)
        self._report.faults += told
        for each in told:
            if each.replaced:
                self._say(f"   {', '.join(each.replaced)} replaced, silent {each.downtime_ms} ms")

    def _load_lives(self) -> bool:
        return load_lives(self._job.sandbox)

    def _note_owners(self, processors: Processors) -> None:
        """Who runs at rest has worked: nothing is missing."""
        for name, found in processors.items():
            if name.isdigit():
                self._owners.setdefault(name, set()).add(found["execution_id"])

    def _is_at_rest(self, watch: LoadWatch) -> bool:
        self._doubt = ""
        status = self._job.status()
        if status is None or status["actions"] or status["failovers"]:
            return False
        found = status["processors"].values()
        hosts = {name for name, host in status["hosts"].items() if "free_memory_mb" in host}
        return (
            len(found) == self._job.actives * (1 + self._job.standbys)
            and all(p["state"] == "running" and p["pid"] and alive(p["pid"]) for p in found)
            and hosts == set(self._job.host_names)
            and all(ghost["ended"] is not None for ghost in status["ghosts"])
            and self._nothing_missing(watch)
        )

    def _nothing_missing(self, watch: LoadWatch) -> bool:
        try:
            verdict = self._judge.judge(deadline_s=20)
        except SamzaDagsterError as error:
            self._doubt = str(error)
            return False
        self._doubt = f"{verdict.missing} missing" if verdict.missing else watch.why_not(verdict)
        return not self._doubt

    def _silences(self, since_s: float) -> dict[str, int]:
        """Of each active whose silence the judge can tell, ms."""
        window = (int(since_s * 1000), int(time.time() * 1000))
        try:
            gaps = self._judge.judge(deadline_s=30, window_ms=window).gaps
        except SamzaDagsterError:
            gaps = ()
        found = {gap.partition: gap.gap_ms for gap in gaps}
        silent = {
            str(active): [
                found[p] for p in partitions_of(str(active), self._job.actives) if p in found
            ]
            for active in range(self._job.actives)
        }
        return {active: max(each) for active, each in silent.items() if each}

    def _end(self) -> None:
        """What is missing, who wrote in turns, and whether the history holds."""
        verdict = self._judge.judge(deadline_s=JUDGED_S)
        report = self._report
        report.inputs, report.completed = verdict.inputs, verdict.completed
        report.missing, report.unexplained = verdict.missing, verdict.unexplained
        report.duplicates = verdict.duplicates
        if not self._load_lives():
            report.load = "dead at the end"
        report.same_host = same_host(self._job.journal())
        self._judge_logs(self._job.sandbox.directory / "broker" / "data")
        connection = self._job.connection
        history = [
            audit_from_json(json.loads(value), f"record {number}")
            for number, (_, value) in enumerate(records_of(connection, connection.audit_topic))
            if value is not None
        ]
        verified = verify(history, read_history(connection).head)
        if not (verified.ok and verified.complete):
            report.history = str(verified.violation or "incomplete")

    def _judge_logs(self, data: Path) -> None:
        topic = demo_job.CHANGELOG_TOPIC
        for active in range(self._job.actives):
            owners = max(1, len(self._owners.get(str(active), ())))
            for partition in partitions_of(str(active), self._job.actives):
                log = batches(data, topic, partition)
                self._report.overlaps += overlaps(topic, partition, log)
                if why := unjudged(topic, partition, log, owners):
                    self._report.unjudged.append(why)


def _keep_whole(servers: str, topic: str) -> None:
    """Who wrote in turns is read from it at the end: until then nothing is compacted."""
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    lag = ConfigEntry(
        "min.compaction.lag.ms", str(_WHOLE_MS), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[lag])
    with kafka_client.admin(servers) as admin:
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(timeout=20)
