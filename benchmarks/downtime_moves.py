"""One sandbox of `benchmarks.failover`, whose active is taken down and back over and over."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from benchmarks.client_quota import limit_consumers
from benchmarks.downtime_judgement import COLD, HOST_LOST, Move
from samza_dagster.client.audit_history import read_history
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.ledger import Gap
from tests.rig.at_rest import Processors
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.job import kill
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import FAILOVER, free_host
from tests.rig.kill_scenarios import HOST_LOST as LOSS
from tests.rig.replacement import offsets, partitions_of, replaced, replacement_works, works
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

PATIENCE_S = 240.0
UP_S = 1_800.0
"""For a sandbox's containers with the largest state on a slow machine."""
RECORD_BYTES = 1_100  # of an input, and of what it changes in the changelog
QUOTA_WINDOW_S = 11.0
"""Kafka's default: what consumers got so long ago counts against their quota still."""
OF_ITS_OWN_MS = 2_000
"""A silence that began so long before a move isn't its own."""
CLIENT_ID = f"kafka_consumer-{demo_job.JOB_NAME.replace('-', '_')}-{demo_job.JOB_ID}"
"""As `KafkaConsumerConfig.createClientId` of Samza makes it."""
SETTINGS = {
    "cluster-manager.container.retry.count": "-1",
    "samza.dagster.host.timeout.ms": "10000",
}


class Quota:
    """Of each container's consumers; in force from the making on. `restores` is its part for restores, bytes/s.

    Containers log in as themselves, and each has a quota of its own, as each host has a network
    card. If they shared one, a displaced standby's restore would keep its active from its inputs.
    """

    def __init__(self, servers: str, steady: int, restores: int) -> None:
        self._servers = servers
        self._bytes_s = steady + restores
        self._restores = restores
        limit_consumers(servers, CLIENT_ID, self._bytes_s)
        self.was_overdrawn()

    def is_worth_lifting(self, state_mb: float) -> bool:
        """For a whole restore of so much: what is saved is more than the window that is waited for."""
        return state_mb * 1e6 / self._restores > 2 * QUOTA_WINDOW_S

    @contextmanager
    def lifted(self) -> Generator[None]:
        """Within the block."""
        limit_consumers(self._servers, CLIENT_ID, None)
        try:
            yield
        finally:
            limit_consumers(self._servers, CLIENT_ID, self._bytes_s)
            self.was_overdrawn()

    def was_overdrawn(self) -> None:
        """A client may have got more than its quota until now.

        A new one gets that of a whole window at once, and stands still for it some seconds later.
        """
        self._counts_from = time.monotonic() + QUOTA_WINDOW_S

    def wait_until_it_counts(self) -> None:
        """Nothing that was read without it counts any more."""
        time.sleep(max(0.0, self._counts_from - time.monotonic()))


class Moves:
    """`move` takes the active `0` down and back; all is at rest before and after."""

    def __init__(self, job: SandboxJob, quota: Quota, state_mb: float) -> None:
        self.job = job
        self.rest = KilledJob(job, patience_s=PATIENCE_S)
        self.partitions = partitions_of("0", job.actives)
        self.servers = job.connection.bootstrap_servers
        self.judge = Judge(self.servers)
        self.quota = quota
        self.lifts = quota.is_worth_lifting(state_mb)
        self.restores = {"failover": FAILOVER.restore, HOST_LOST: LOSS.restore}
        self.kinds: dict[str, Callable[[Processors], set[str]]] = {
            "planned move": self._planned,
            "failover": self._failover,
            "same host": self._same_host,
            COLD: self._cold,
            HOST_LOST: self._lost,
        }
        self.at_rest = self.rest.settle()
        self._nothing_missing((0, 1))

    def move(self, kind: str) -> Move:
        """Once. Raises `AssertionError` when it doesn't come to rest, or something is missing."""
        before = self.at_rest
        self.quota.wait_until_it_counts()
        self._wait_until_steady()
        since_ms = int(time.time() * 1000)
        names = self.kinds[kind](before)
        if self.lifts and "0-0" in names:
            replacement_works(self.job, before, "0", PATIENCE_S)
            self._nothing_missing((0, 1))  # its outputs are back: what comes now isn't measured
            with self.quota.lifted():
                self._replaced(before, names)
        else:
            self._replaced(before, names)
        if kind in self.restores:
            self.restores[kind](self.job, before)
        self.at_rest = self.rest.settle()
        window = (since_ms, int(time.time() * 1000))
        longest = longest_of(self._nothing_missing(window), self.partitions, since_ms)
        downtime_ms = self._since_declared(before, longest) if kind == HOST_LOST else longest.gap_ms
        return Move(downtime_ms, slowest_rate(self.servers, self.partitions, window))

    def _wait_until_steady(self) -> None:
        """What the move before left behind is over: the backlog is committed, the standby has applied it.

        Samza's `Joiner` deletes a key before it writes it anew. Killed between the two it has
        lost that key, and throws at each start that takes up again the last part of its epoch and
        the first of the next. At a steady rate a commit comes between them, in a backlog not.
        """
        ends = offsets(self.servers, demo_job.CHANGELOG_TOPIC)
        with self.job.client() as client:
            since = client.checkpoints_end()
            until(
                "its input is committed",
                lambda: client.processing("0", since).processing,
                seconds=PATIENCE_S,
            )
        until(
            "the standby has applied it",
            lambda: works(self.job, "0-0", self.at_rest, ends),
            seconds=PATIENCE_S,
        )

    def _replaced(self, before: Processors, names: set[str]) -> None:
        replaced(self.job, before, names, PATIENCE_S)

    def _nothing_missing(self, window_ms: tuple[int, int]) -> tuple[Gap, ...]:
        """Waits for the outputs of all that was put in by now; the silences of that time."""
        verdict = self.judge.judge(deadline_s=PATIENCE_S, window_ms=window_ms)
        assert verdict.is_good, verdict
        return verdict.gaps

    def _since_declared(self, before: Processors, gap: Gap) -> int:
        """Of a silence: what is left of it when the coordinator took the active for ended."""
        (end,) = [
            record
            for record in read_history(self.job.connection).records
            if record.kind == "end" and record.how != "dead"
            if record.execution_id == before["0"]["execution_id"]
        ]
        return gap.to_ms - end.at_ms

    def _place(self, destination: str) -> None:
        with self.job.client() as client:
            uuid = client.place("0", destination, request_expiry_s=60).uuid
            answer = client.wait(uuid, timeout_s=PATIENCE_S)
        assert answer.status_code is StatusCode.SUCCEEDED, f"placing 0 on {destination}: {answer}"

    def _planned(self, _: Processors) -> set[str]:
        self._place("STANDBY")
        return {"0", "0-0"}

    def _failover(self, before: Processors) -> set[str]:
        FAILOVER.happens(self.job, before)
        return {"0", "0-0"}

    def _lost(self, before: Processors) -> set[str]:
        LOSS.happens(self.job, before)
        return {"0", "0-0"}

    def _same_host(self, before: Processors) -> set[str]:
        kill(before["0"]["pid"])
        return {"0"}

    def _cold(self, before: Processors) -> set[str]:
        host = free_host(self.job, before)
        state = self.job.simulated(host).state_directory
        for number in self.partitions:
            for store in state.glob(f"**/{demo_job.STORE}/Partition_{number}"):
                shutil.rmtree(store)
        self._place(host)
        self.quota.was_overdrawn()
        return {"0"}


def longest_of(gaps: Iterable[Gap], partitions: Collection[int], since_ms: int) -> Gap:
    """The longest silence in these partitions. Raises `AssertionError` for one from before the move."""
    longest = max((gap for gap in gaps if gap.partition in partitions), key=lambda gap: gap.gap_ms)
    before_ms = since_ms - longest.from_ms
    assert before_ms < OF_ITS_OWN_MS, f"it stood still {before_ms} ms before the move: {longest}"
    return longest


def slowest_rate(servers: str, partitions: list[int], window_ms: tuple[int, int]) -> float:
    """Inputs a second of that time in the partition that had the fewest, by the broker's timestamps."""

    def offsets_at(at_ms: int) -> list[int]:
        asked = [kafka_client.partition(demo_job.INPUT_TOPIC, n, at_ms) for n in partitions]
        return [found.offset for found in consumer.offsets_for_times(asked, timeout=30)]

    consumer = kafka_client.consumer(servers)
    try:
        first, last = map(offsets_at, window_ms)
        ends = kafka_client.end_offsets(consumer, demo_job.INPUT_TOPIC)
    finally:
        consumer.close()
    seconds = (window_ms[1] - window_ms[0]) / 1000
    # No offset is named for a time after the last record's.
    came = [
        (end if end >= 0 else ends[number]) - (begin if begin >= 0 else ends[number])
        for number, begin, end in zip(partitions, first, last, strict=True)
    ]
    return min(came) / seconds


@contextmanager
def sandbox_of(
    state_mb: float, rate: float, quota: int, actives: int, say: Callable[[str], None]
) -> Generator[Callable[[str], Move]]:
    """A sandbox with so much state per active, and how one of its moves is made.

    `rate` is of one partition; `quota` what is left for restores, bytes a second. `say` is told each move.
    """
    partitions = actives * demo_job.TASKS_PER_CONTAINER
    with (
        tempfile.TemporaryDirectory(prefix="downtime-") as root,
        demo_sandbox(
            *(Path(root), SETTINGS),
            state_mb=state_mb,
            rate=rate * partitions,
            actives=actives,
            deadline_s=UP_S,
        ) as sandbox,
    ):
        # What an active reads, or its standby.
        steady = round(rate * demo_job.TASKS_PER_CONTAINER * RECORD_BYTES)
        limit = Quota(str(sandbox.status()["bootstrap_servers"]), steady, quota)
        # The broker's timestamps tell all: nobody watches the processes.
        job = SandboxJob(sandbox, actives=actives, watched=False)
        made: Moves | None = None
        try:
            made = Moves(job, limit, state_mb)
            moves = made

            def move(kind: str) -> Move:
                began = time.monotonic()
                taken = moves.move(kind)
                whole_s = time.monotonic() - began
                say(
                    f"{state_mb:g} MB, {kind}: {taken.downtime_ms} ms at {taken.rate:.0f}/s, {whole_s:.0f} s"
                )
                return taken

            yield move
        finally:
            if made is not None:
                made.judge.close()
            job.close()
