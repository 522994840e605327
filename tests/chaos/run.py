"""One chaos run: a sandbox, faults after and beside each other, and the outsiders' judgement."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable, Sequence

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from tests.chaos.acts import Acts
from tests.chaos.in_force import CarriedOut, InForce
from tests.chaos.owners import Log, batches_of_leader, judged, reigns, uncertified
from tests.chaos.report import Report, befell, outcome, same_host
from tests.chaos.schedule import Fault
from tests.rig.at_rest import Processors
from tests.rig.broker_cluster import leaders, set_config
from tests.rig.history import read_verified
from tests.rig.job import runs
from tests.rig.load_watch import LoadWatch, load_lives
from tests.rig.replacement import partitions_of
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

REST_S = 240.0
"""Lease, a cold start of everything, and a machine that does all of it at once."""
JUDGED_S = 240.0
_LOOK_S = 0.3
_WHOLE_MS = 7 * 24 * 3600 * 1000


class ChaosRun:
    """`say` is told each fault as it happens."""

    def __init__(
        self,
        job: SandboxJob,
        acts: Acts,
        report: Report,
        say: Callable[[str], None],
    ) -> None:
        self._job = job
        self._report = report
        self._say = say
        self._acts = acts
        self._judge = Judge(job.connection.bootstrap_servers)
        self._owners: dict[str, set[str]] = {}
        self._doubt = ""
        self._known = 0

    def go(self, faults: Iterable[Fault]) -> Report:
        """All of them, then the judgement; whatever happens everything is let go.

        What raises leaves in the report what was seen by then, and why that isn't all.
        """
        began = time.monotonic()
        try:
            try:
                self._befall(faults)
            except Exception as error:
                self._report.cut_short.append(outcome(error))
                self._say(traceback.format_exc())
            self._end()
        finally:
            self._report.seconds = round(time.monotonic() - began, 1)
            self._judge.close()
            self._acts.close()
        return self._report

    def _befall(self, faults: Iterable[Fault]) -> None:
        wanted = self._job.actives * (1 + self._job.standbys)
        until("all that run are seen", lambda: len(self._job.journal()) >= wanted)
        self._known = len(self._job.journal())
        # Who wrote when is read from it at the end: until then nothing is compacted.
        servers, changelog = self._job.connection.bootstrap_servers, demo_job.CHANGELOG_TOPIC
        set_config(servers, changelog, "min.compaction.lag.ms", str(_WHOLE_MS))
        self._acts.brokers.must_keep_what_they_acknowledge()
        self._note_owners(self._job.processors())
        in_force = InForce(self._acts.carry_out, time.time, time.sleep)
        group: list[tuple[CarriedOut, int]] = []
        try:
            for fault in faults:
                known = len(self._job.journal())
                began = in_force.begin(fault)
                beside = f", beside {began.beside}" if began.beside else ""
                self._say(f"{fault}: {began.victim}{beside}")
                group.append((began, known))
                if fault.next_after_s is not None:
                    in_force.wait(fault.next_after_s)
                    continue
                self._over(group, in_force)
                group = []
                if self._report.expects_overlaps and self._report.never_rested:
                    break  # Harm is done, as is to be shown, and each further fault waits for it.
            self._over(group, in_force)
            group = []
        finally:
            try:
                in_force.end_all()
            finally:
                self._acts.heal()
                told = {each.number for each in self._report.faults}
                left = [each for each in group if each[0].fault.number not in told]
                if left:
                    self._report.faults += befell(left, self._job.journal(), {}, None)

    def _over(self, group: Sequence[tuple[CarriedOut, int]], in_force: InForce) -> None:
        in_force.wait_for_all()
        self._rest(group)

    def _rest(self, group: Sequence[tuple[CarriedOut, int]]) -> None:
        if not group:
            return
        since = time.monotonic()
        deadline, rest_s = since + REST_S, None
        watch = LoadWatch(self._load_lives)
        while rest_s is None and time.monotonic() < deadline and self._load_lives():
            if ended := self._acts.keep_up():
                self._say(f"   started again, having ended: {', '.join(ended)}")
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
        told = befell(group, self._job.journal(), self._silences(group[0][0].at_s), rest_s)
        self._report.faults += told
        for each in told:
            if ": " in each.victim:
                self._say(f"   {each.victim}")
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
            and all(map(runs, found))
            and hosts == set(self._job.host_names)
            and all(orphan["ended"] is not None for orphan in status["orphans"])
            and self._brokers_are_whole()
            and self._nothing_missing(watch)
        )

    def _brokers_are_whole(self) -> bool:
        self._doubt = self._acts.brokers.why_not_whole()
        return not self._doubt

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
        """What is missing, who wrote in turns, and whether the history holds, each by itself."""
        history: list[AuditRecord] = []
        parts: dict[str, Callable[[], None]] = {
            "outputs": self._judge_outputs,
            "history": lambda: history.extend(self._history()),
            "logs": lambda: self._judge_logs(history),
        }
        for name, judge in parts.items():
            try:
                judge()
            except Exception as error:
                self._report.cut_short.append(f"{name}: {outcome(error)}")
            else:
                self._report.judged.append(name)

    def _judge_outputs(self) -> None:
        verdict = self._judge.judge(deadline_s=JUDGED_S)
        report = self._report
        report.inputs, report.completed = verdict.inputs, verdict.completed
        report.missing, report.unexplained = verdict.missing, verdict.unexplained
        report.missing_in = list(verdict.missing_in)
        report.duplicates = verdict.duplicates
        if not self._load_lives():
            report.load = "dead at the end"
        report.same_host = same_host(self._job.journal())

    def _history(self) -> list[AuditRecord]:
        history, wrong = read_verified(self._job.connection)
        unknown = uncertified(history, self._job.journal())
        self._report.history = wrong or "; ".join(unknown)
        return history

    def _judge_logs(self, history: Sequence[AuditRecord]) -> None:
        assert history, "without a history nobody is known to have reigned"
        actives = [str(number) for number in range(self._job.actives)]
        partitions = range(self._job.actives * demo_job.TASKS_PER_CONTAINER)
        data = {each.node_id: each.directory / "data" for each in self._acts.brokers.brokers}
        led = {
            topic: leaders(self._job.connection.bootstrap_servers, topic)
            for topic in (demo_job.OUTPUT_TOPIC, demo_job.CHANGELOG_TOPIC)
        }

        def log(topic: str, partition: int) -> Log:
            return Log(topic, partition, batches_of_leader(data, led[topic], topic, partition))

        # Outputs first: whoever has one there by then is in a changelog, too.
        outputs = [log(demo_job.OUTPUT_TOPIC, partition) for partition in partitions]
        changelogs = {
            active: [
                log(demo_job.CHANGELOG_TOPIC, partition)
                for partition in partitions_of(active, self._job.actives)
            ]
            for active in actives
        }
        reigned = reigns(history, self._job.journal(), self._known)
        owners = {active: max(1, len(self._owners.get(active, ()))) for active in actives}
        overlaps, reasons = judged(changelogs, outputs, reigned, owners)
        self._report.overlaps += overlaps
        self._report.unjudged += reasons
