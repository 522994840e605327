"""Access of a client to one job: its stores, its topics, its clocks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from samza_dagster.client.beside_stream import with_cluster, with_dead, with_named_hosts
from samza_dagster.client.group import GroupReader, GroupSession
from samza_dagster.client.group_view import by_processor
from samza_dagster.client.job_view import with_state
from samza_dagster.client.seen_reports import SeenReports
from samza_dagster.client.state_source import CoordinatorState, TopicStateSource
from samza_dagster.client.stream_reader import StreamReader
from samza_dagster.client.views import JobView
from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import MetadataStore, wall_clock_ms
from samza_dagster.metadata.job_topics import ANSWER_S, JobTopics, KafkaJobTopics
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.own_requests import OwnRequestStore
from samza_dagster.metadata.resource_manager import ResourceManager, resource_manager

_Part = TypeVar("_Part")
_SEEN: defaultdict[tuple[str, str, str], SeenReports] = defaultdict(SeenReports)
"""By brokers, name and id of a job: a sensor's client lasts for a tick, what it has seen for more."""


def _key(connection: Connection) -> tuple[str, str, str]:
    return connection.bootstrap_servers, connection.job_name, connection.job_id


def needed(part: _Part | None, what: str, name: str) -> _Part:
    """Return `part` of a `JobAccess`; raises `MissingPrerequisite` with `what` if it is absent."""
    if part is None:
        raise MissingPrerequisite(
            what,
            seen="a client over metadata stores alone",
            fix=f"PlacementClient(connection), or over(…, {name}=…)",
        )
    return part


@dataclass(frozen=True)
class JobAccess:
    """The parts of a job that a client reads; absent ones are None.

    `state` None: our coordinator never led this job. `topics` None: no lag, no progress. `mailbox`
    None: only requests of Samza's own protocol are possible. `yarn` None: YARN isn't asked.
    `named_hosts` are hosts of the cluster that a person named. The last two count under Samza's own
    Application Master.

    `group`: the job is a standalone group, and the store has only its placement messages. None: the
    store is a coordinator stream. `whole_processors` shows a group's processors that can be restarted,
    in place of its tasks.

    `bad_keys` fills as the store reads: each record with a key that isn't Samza's, once.
    """

    store: MetadataStore
    job_name: str
    job_id: str = "1"
    state: TopicStateSource | None = None
    topics: JobTopics | None = None
    now_ms: Callable[[], int] = wall_clock_ms
    monotonic: Callable[[], float] = time.monotonic
    bad_keys: list[str] = field(default_factory=list[str])
    mailbox: OwnRequestStore | None = None
    seen: SeenReports = field(default_factory=SeenReports)
    yarn: ResourceManager | None = None
    named_hosts: tuple[str, ...] = ()
    group: GroupSession | None = None
    whole_processors: bool = False

    @classmethod
    def of(cls, connection: Connection, named_hosts: Sequence[str] = ()) -> Self:
        """Open the access over Kafka, which connects at the first call, and ZooKeeper, which connects now."""
        if connection.zookeeper:
            return cls._of_group(connection)
        bad_keys: list[str] = []
        return cls(
            store=KafkaMetadataStore.of(
                connection,
                timeout_s=ANSWER_S,
                on_malformed=lambda error: bad_keys.append(error.seen),
            ),
            job_name=connection.job_name,
            job_id=connection.job_id,
            state=TopicStateSource(connection),
            topics=KafkaJobTopics(KafkaCluster.of(connection)),
            bad_keys=bad_keys,
            mailbox=OwnRequestStore(connection, timeout_s=ANSWER_S),
            seen=_SEEN[_key(connection)],
            yarn=resource_manager(found) if (found := connection.resource_managers) else None,
            named_hosts=tuple(named_hosts),
        )

    @classmethod
    def _of_group(cls, connection: Connection) -> Self:
        group = GroupSession(connection)
        return cls(
            store=group.store,
            job_name=connection.job_name,
            job_id=connection.job_id,
            topics=KafkaJobTopics(KafkaCluster.of(connection)),
            seen=_SEEN[_key(connection)],
            group=group,
        )

    def read(self) -> tuple[JobView, CoordinatorState | None]:
        """The job now, and our coordinator's state where it leads: its word counts then."""
        return self._over(self._read_metadata())

    def known_view(self) -> JobView:
        """The job as far as it can be read; see `PlacementClient.known_view`."""
        base = self._read_metadata()
        try:
            return self._over(base)[0]
        except Unreachable as error:
            return replace(base, unread=error.seen)

    def reader(self) -> StreamReader | GroupReader:
        """A new reading of the job's metadata."""
        return StreamReader(self.store) if self.group is None else self.group.reader()

    def _read_metadata(self) -> JobView:
        base = self.reader().view(self.job_name, self.job_id, self.now_ms())
        if self.whole_processors:
            base = by_processor(base)
        return replace(base, fatal=tuple(dict.fromkeys(self.bad_keys)))

    def _over(self, base: JobView) -> tuple[JobView, CoordinatorState | None]:
        state = self.state.read() if self.state is not None else None
        if state is None or base.deployment_id not in (None, state.deployment_id):
            # Another coordinator deployed the job since.
            return self._under_an_am(base), None
        return with_state(base, state, self.now_ms()), state

    def _under_an_am(self, view: JobView) -> JobView:
        """Return `view` with facts from outside the coordinator stream, where Samza's AM writes little.

        YARN's ResourceManager ranks above hosts that a person named, and above silence. A coordinator
        that shows its own signs of life needs none of this.
        """
        if view.capabilities.shows_its_life:
            return view
        unread: str | None = None
        if self.yarn is not None:
            try:
                known = with_cluster(view, self.yarn.cluster(self.job_name, self.job_id))
            except Unreachable as error:
                unread = error.seen
            else:
                return known if known.application is not None else self._silent(known)
        return self._silent(replace(with_named_hosts(view, self.named_hosts), yarn_unread=unread))

    def _silent(self, view: JobView) -> JobView:
        """`view`, dead where all that reported has been silent for too long."""
        return with_dead(view, self.seen.silence(view.deployment_id, now_s=self.monotonic()))

    def close(self) -> None:
        """Ends watches and releases connections."""
        self.store.close()
        if self.state is not None:
            self.state.close()
        if self.topics is not None:
            self.topics.close()
        if self.mailbox is not None:
            self.mailbox.close()
        if self.group is not None:
            self.group.close()
