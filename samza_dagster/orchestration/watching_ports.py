"""What the sensors read of a client beyond what the jobs need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from samza_dagster.model import LocalityModel
from samza_dagster.orchestration import ports, views
from samza_dagster.orchestration.resource import SamzaClientResource

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.client.asked import Asked
    from samza_dagster.client.legal_hosts import SeenGhost


class ProcessorView(views.ProcessorView, Protocol):
    """One processor, and whether it fails again and again."""

    @property
    def flapping(self) -> bool:
        """It is started at longer and longer intervals."""
        ...


class ActionView(views.ActionView, Protocol):
    """An action in flight, or one that waits."""

    @property
    def kind(self) -> str:
        """`place`, `fail-over`, …"""
        ...

    @property
    def since_ms(self) -> int:
        """When it was asked, in ms since the epoch."""
        ...

    @property
    def expiry_ms(self) -> int | None:
        """The time-out that it was asked with; None: the job's."""
        ...


class FailoverView(views.FailoverView, Protocol):
    """A failover, and why."""

    @property
    def why(self) -> str:
        """What began it."""
        ...


class LeaderView(Protocol):
    """The coordinator that leads, by its last sign of life."""

    @property
    def epoch(self) -> int:
        """Which leader."""
        ...

    @property
    def host(self) -> str:
        """Where it runs."""
        ...

    @property
    def beat_ms(self) -> int | None:
        """Its last sign of life, ms since the epoch, by its clock."""
        ...

    @property
    def beat_every_ms(self) -> int | None:
        """How often it shows one."""
        ...

    @property
    def ended(self) -> bool:
        """It stopped in order."""
        ...


class JobView(views.JobView, Protocol):
    """A job as it stands, with what the coordinator is at."""

    @property
    def processors(self) -> Mapping[str, ProcessorView]:
        """Processor id → processor."""
        ...

    @property
    def actions(self) -> Sequence[ActionView]:
        """Actions in flight."""
        ...

    @property
    def queued(self) -> Sequence[ActionView]:
        """Actions that wait."""
        ...

    @property
    def failovers(self) -> Sequence[FailoverView]:
        """Failovers in flight."""
        ...

    @property
    def ghosts(self) -> Sequence[SeenGhost]:
        """Incarnations whose host fell silent."""
        ...

    @property
    def leader(self) -> LeaderView | None:
        """Who leads; None under Samza's AM."""
        ...

    @property
    def report_every_s(self) -> int | None:
        """How often its containers report their metrics; None: they don't."""
        ...

    @property
    def application(self) -> Application | None:
        """The job by the word of YARN's ResourceManager; None: it isn't known."""
        ...

    @property
    def yarn_unread(self) -> str | None:
        """Why YARN's ResourceManager couldn't be asked; None: it was, or its address isn't given."""
        ...

    @property
    def dead(self) -> str | None:
        """By whose word nothing of the job runs any more; None: by nobody's."""
        ...


class Application(Protocol):
    """A YARN application."""

    @property
    def state(self) -> str:
        """YARN's word: `RUNNING` while it has an Application Master."""
        ...


class ReplicaLag(views.ReplicaLag, Protocol):
    """How far one replica is behind, and when it said so."""

    @property
    def task_name(self) -> str:
        """The replica's task."""
        ...

    @property
    def store(self) -> str:
        """The store."""
        ...

    @property
    def host(self) -> str | None:
        """Where the replica is."""
        ...

    @property
    def partition(self) -> int:
        """The changelog's partition."""
        ...

    @property
    def end_offset(self) -> int | None:
        """Of the next record to be written; None: it can't be read."""
        ...

    @property
    def applied_offset(self) -> int | None:
        """Of the last record that it has."""
        ...

    @property
    def observed_at_ms(self) -> int | None:
        """When it reported, by its host's clock."""
        ...


class InputLag(Protocol):
    """How far an active is behind one input partition, by its newest commit."""

    @property
    def processor_id(self) -> str:
        """Whose."""
        ...

    @property
    def committed_offset(self) -> int:
        """The last record that the commit covers."""
        ...

    @property
    def lag(self) -> int | None:
        """Records after it; None: where they end can't be read."""
        ...

    @property
    def reason(self) -> str | None:
        """Why their end couldn't be read; None: it was."""
        ...


class Look(Protocol):
    """A job and its lags, from one reading."""

    @property
    def job(self) -> JobView:
        """The job as it stands."""
        ...

    @property
    def lags(self) -> Sequence[ReplicaLag]:
        """Lag of every replica of every store partition."""
        ...

    @property
    def input_lags(self) -> Sequence[InputLag]:
        """Lag of every active on its input."""
        ...

    @property
    def unread(self) -> str | None:
        """Why the lags of all replicas or of all inputs couldn't be read; None: they were."""
        ...

    @property
    def host_words(self) -> Mapping[str, int]:
        """Host → ms since its agent's last word."""
        ...


class WatchedClient(ports.Placement, Protocol):
    """A client as the sensors use it."""

    def view(self) -> JobView:
        """The job as it stands."""
        ...

    def lag(self) -> Sequence[ReplicaLag]:
        """Lag of every replica of every store partition."""
        ...

    def look(self) -> Look:
        """The job with its lags and its hosts' last words."""
        ...

    def asked_before(self, uuids: Collection[str]) -> frozenset[str]:
        """Those of these requests that were asked, be they answered or not; one reading for all."""
        ...

    def locality(self) -> LocalityModel:
        """The host that each container reported last."""
        ...

    def fail_over(
        self, processor_id: str, *, uuid: str | None = None, execution_id: str | None = None
    ) -> Asked:
        """Moves an active onto its standby's host, while it is that incarnation."""
        ...


def open_watch(samza: SamzaClientResource) -> WatchedClient:
    """A new client for one tick; whoever calls this closes it. Raises `Unreachable`."""
    return cast("WatchedClient", samza.open_client())


if TYPE_CHECKING:

    def the_client_fits(client: PlacementClient) -> WatchedClient:
        """What `open_watch` gives is what it says."""
        return client
