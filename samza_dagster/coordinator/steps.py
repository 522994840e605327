"""The steps of a term: the reducer decides, the log commits, the cluster acts.

Each step of the reducer that changes anything is one transaction (state, responses,
localities, tombstones of taken requests); its effects leave only after the commit.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from samza_dagster.agent.logs import about
from samza_dagster.cluster.interface import ClusterResourceManager
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.candidacy import Leader
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.deployment import Deployment
from samza_dagster.coordinator.effects import EffectRunner, response_of
from samza_dagster.coordinator.extra_standbys import assignment_records, extra_standbys
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.inbox import Inbox
from samza_dagster.coordinator.kafka import KafkaLog, author
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.coordinator.leases import LeaseTerms
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.model.naming import group_of
from samza_dagster.placement import commands, events
from samza_dagster.placement.ownership import is_starting
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState

LONG_COMMIT_MS = 5_000
"""A commit that took longer: what was waited for meanwhile may have come without being heard."""
_START_AGAIN_MS = 1_000
log = logging.getLogger(__name__)


@dataclass
class Steps:
    """The steps of a leader and the state that they have led to; made anew for every term.

    Findings on the way, such as a failed start, go to the `inbox`.
    `stored` is the state as the topic holds it, `state` the one to go on with: they may
    differ in the limits, which are the present config's.
    """

    log: KafkaLog
    cluster: ClusterResourceManager
    deployment: Deployment
    launcher: Launcher
    stored: JobState
    state: JobState
    leader: Leader
    leases: LeaseTerms
    clock: LeaderClock
    recorder: JsonLinesRecorder | None = None
    fence: BrokerFence | None = None
    counters: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.clock)
        self.looked_at_ms = 0
        """When time alone was last a step."""
        self.was_held_up = False
        """A commit took long since deadlines last counted anew."""
        self._hosts = durable.HostRecords()
        self._sent_counters: Counter[str] = Counter()
        self._start_again_ms = 0
        self._effects = EffectRunner(
            self.cluster,
            self.launcher_with_extras,
            self.counters,
            on_start_failed=lambda execution_id, host, why: self.inbox.put(
                events.StartFailed(self.clock.now_ms(), execution_id, host, why)
            ),
            fence=self.fence,
        )

    def launcher_with_extras(self) -> Launcher:
        """Return the deployment's launcher with the standbys that requests have spun up."""
        return self.launcher.with_extras(extra_standbys(self.state.groups.values()))

    def take(
        self,
        event: events.Event,
        also: tuple[Sequence[durable.Record], Sequence[StreamRecord]] = ((), ()),
    ) -> None:
        """Take one step: decide, commit, then act. The event happens now, by the leader's clock.

        `also` are records for state topic and coordinator stream in the same commit.
        Raises `Fenced` or `Unreachable`.
        """
        now = self.clock.now_ms()
        if isinstance(event, events.TimePassed):
            self.looked_at_ms = now
        event = replace(event, at_ms=now)
        result = step(self.state, event)
        touched = durable.touched_groups(self.stored, result.state)
        records = durable.changed(
            self.stored, result.state, leader_epoch=self.leader.epoch, touched=touched
        )
        records += [*also[0], *self._hosts.changed(result.state, self.cluster.hosts())]
        projections = [c for c in result.commands if isinstance(c, commands.Projection)]
        assignments = assignment_records(
            self.deployment.job_model,
            extra_standbys(g for n in touched if (g := self.state.groups.get(n)) is not None),
            extra_standbys(g for n in touched if (g := result.state.groups.get(n)) is not None),
            author(now),
        )
        stream_records = [*assignments, *also[1]]
        if (records or projections or stream_records) and now >= self.next_beat_ms:
            records.append(self._leader_record(now))
        if self.recorder is not None:
            # Before the commit: wherever this process dies, the log has every step of the records.
            self.recorder.record(event, result.state)
        if records or projections or stream_records:
            self._commit(records, projections, stream_records)
        self.stored = self.state = result.state
        for command in result.commands:
            if isinstance(command, commands.WriteResponse):
                answer = response_of(command)
                identity = (answer.uuid, answer.processor_id, answer.status_code)
                with about(
                    request=answer.uuid,
                    processor=answer.processor_id,
                    group=group_of(answer.processor_id),
                ):
                    log.info("%s %s %s: %s", *identity, answer.response_message)
        self._act(c for c in result.commands if not isinstance(c, commands.Projection))

    def commit_alone(
        self, records: Sequence[durable.Record], stream_records: Sequence[StreamRecord] = ()
    ) -> None:
        """Commit records without a step of the reducer; raises as `take` does."""
        self._commit(records, stream_records=stream_records)

    def beat(self, now_ms: int) -> None:
        """Show the brokers and the topic's readers that this leader still leads."""
        hosts = self._hosts.changed(self.state, self.cluster.hosts())
        self.commit_alone([self._leader_record(now_ms), *hosts])

    def end_in_order(self) -> None:
        """Write that this leader has ended, for the candidates."""
        try:
            self._commit([self._leader_record(self.clock.now_ms(), ended=True)])
        except Unreachable as error:
            log.warning("the end of this term isn't written: %s", error)

    @property
    def next_beat_ms(self) -> int:
        """Return when the leader's record is due: by its age, sooner after a change of counters.

        Clients see the counters and the leader's life by this record alone.
        """
        counted = self.counters != self._sent_counters
        return self.leases.next_count_ms if counted else self.leases.next_beat_ms

    @property
    def start_again_ms(self) -> int | None:
        """Return when the starts that brokers delayed are tried again; None without any."""
        return self._start_again_ms if self._effects.has_unadmitted else None

    def count_anew(self) -> None:
        """Restart every deadline after a long commit, and have hosts report again.

        It is as after a restart, since nothing was heard meanwhile. Events that have arrived are
        handled before anything counts as late, and before deadlines restart once more, so that
        each event has its turn even if every commit takes long. Raises as `take` does.
        """
        self.was_held_up = False
        self.take(events.CoordinatorRestarted(0))
        self.cluster.report_again()
        self.inbox.hear_first()

    def start_again(self) -> None:
        """Try the starts again that brokers delayed, where they are still wanted."""
        with self.inbox.away():
            self._effects.start_again(lambda eid: is_starting(self.state, eid))
        self._start_again_ms = self.clock.now_ms() + _START_AGAIN_MS

    def _act(self, effects: Iterable[commands.Effect]) -> None:
        waited = self._effects.has_unadmitted
        with self.inbox.away():
            for effect in effects:
                with about(**self._ids_of(effect)):
                    self._effects.run(effect)
        if self._effects.has_unadmitted and not waited:
            self._start_again_ms = self.clock.now_ms() + _START_AGAIN_MS

    def _ids_of(self, effect: commands.Effect) -> dict[str, str | None]:
        """Return the ids that log lines about it have, here and at the agent."""
        execution = getattr(effect, "execution_id", None)
        group = self.state.groups.get(self.state.index.by_id.get(execution or "", ""))
        action = group.action if group is not None else None
        return {
            "execution": execution,
            "group": group.group_id if group is not None else None,
            "request": action.ask.uuid if action is not None else None,
        }

    def _commit(
        self,
        records: Sequence[durable.Record],
        projections: Sequence[commands.Projection] = (),
        stream_records: Sequence[StreamRecord] = (),
    ) -> None:
        sent_ms = self.clock.now_ms()
        self.log.commit(records, projections, stream_records)
        leaders = [value for key, value in records if key == durable.LEADER and value is not None]
        self.leases.committed(sent_ms, with_leader=bool(leaders))
        if leaders:
            self._sent_counters = Counter[str](leaders[-1].get("counters"))
        took_ms = self.clock.now_ms() - sent_ms
        if took_ms > LONG_COMMIT_MS:
            log.warning("a commit took %.1f s: deadlines count anew", took_ms / 1000)
            self.was_held_up = True

    def _leader_record(self, now_ms: int, *, ended: bool = False) -> durable.Record:
        leader = replace(self.leader, lease_ms=self.leases.longest_ms(now_ms), ended=ended)
        beat = {
            "since_ms": self.leases.began_ms,
            "beat_ms": now_ms,
            "counters": dict(self.counters),
        }
        return (durable.LEADER, {**leader.to_json(), **beat})
