"""The interface between the coordinator and a cluster.

A cluster decides nothing: it reserves, launches and stops as commanded, and reports what
it saw. Every call is idempotent by its id and returns at once; every outcome comes
as a callback, at least once, so a coordinator that was away may see one again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"


@dataclass(frozen=True)
class HostResources:
    """A host that can run containers; memory in MiB. `fault_domain` "" is unknown.

    `yarn_state` is YARN's word on its node, "" where none is known. `journal` is the id of the
    record by which the host says what it has, `boot_id` of its machine's boot, "" where a cluster
    doesn't know them: what one journal lacks says nothing of what was started by another.
    """

    host: str
    memory_mb: int
    cores: int
    free_memory_mb: int
    free_cores: int
    fault_domain: str = ""
    journal: str = ""
    boot_id: str = ""
    yarn_state: str = ""


@dataclass(frozen=True)
class ContainerLaunch:
    """All that a host needs to start one incarnation of a container.

    `command` and `environment` are literal (no shell). `job_model_json` is served to
    the container by its host alone; `store_directories` are the paths, below the
    host's state directory, that must be free before it is. `files` (name, text) are laid
    into its work directory, which it starts in; they may hold secrets.
    One that goes with a reservation has no JobModel: that comes with the start.
    """

    execution_id: str
    processor_id: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    job_model_json: str = field(repr=False)
    store_directories: tuple[str, ...]
    stop_grace_s: float = 20.0
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ResourceAsk:
    """Memory (MiB) and cores on `host`, or with None on the freest host not excluded.

    With `launch` its process may be launched where the resource is held, and kept waiting for its
    start, which alone brings the JobModel; `ahead` says that there is time to wait for it, so that
    `on_resource_allocated` comes once it is ready, or can't be soon. An `urgent` one is asked of
    `host` at once, whatever it seems to have free, and its refusal is the request's end.
    """

    request_id: str
    host: str | None
    excluded_hosts: tuple[str, ...]
    memory_mb: int
    cores: int
    expires_in_s: float
    launch: ContainerLaunch | None = field(default=None, repr=False)
    ahead: bool = False
    urgent: bool = False


@dataclass(frozen=True)
class ObservedContainer:
    """A container of a host, as it is when the host registers."""

    execution_id: str
    processor_id: str
    state: str
    pid: int | None
    checked_in: bool
    exit_status: int | None


class ClusterCallbacks(Protocol):
    """Where a cluster reports; called from its threads, one call at a time per host."""

    def on_host_registered(
        self, host: HostResources, containers: tuple[ObservedContainer, ...]
    ) -> None:
        """Report that a host is usable from now on, with all that it has."""
        ...

    def on_host_told(self, host: str) -> None:
        """Report that a registration's callbacks are complete: the host may be admitted."""
        ...

    def on_host_lost(self, host: str, granted_ago_s: float) -> None:
        """Report that the host is silent: whether its containers live is unknown.

        What the cluster let them live on for by themselves, if it does, it granted at least
        `granted_ago_s` ago; 0 where it grants nothing.
        """
        ...

    def on_resource_allocated(self, request_id: str, host: str) -> None:
        """Report that the resource is reserved on `host` until it is used or released."""
        ...

    def on_request_expired(self, request_id: str, why: str) -> None:
        """Report that no host had room in time; `why` names each candidate and what was seen."""
        ...

    def on_container_launched(self, execution_id: str, host: str, pid: int) -> None:
        """Report that the process exists; it hasn't read its JobModel yet."""
        ...

    def on_container_checked_in(self, execution_id: str, host: str) -> None:
        """Report that the container has read its JobModel and sent its first heartbeat."""
        ...

    def on_start_failed(self, execution_id: str, host: str, why: str) -> None:
        """Report that no process of this incarnation exists, nor will one."""
        ...

    def on_container_stopped(self, execution_id: str, host: str, exit_status: int | None) -> None:
        """Report that its warden or agent saw the process dead; the store is free."""
        ...

    def on_rival(self, why: str) -> None:
        """Report that another coordinator acts for this job; the brokers know which one leads."""
        ...

    def on_stop_failed(self, execution_id: str, host: str, why: str) -> None:
        """Report that the process lives on after SIGTERM, grace and SIGKILL."""
        ...


class ClusterResourceManager(Protocol):
    """Requests resources, starts and stops containers on hosts, for one term of leadership."""

    @property
    def url(self) -> str:
        """The address of the pages, at which agents call this coordinator."""
        ...

    def add_page(self, path: str, content_type: str, page: Callable[[], bytes]) -> None:
        """Serve `GET path` at `url` with what `page` returns at that time.

        The page must not be secret.
        """
        ...

    def higher_epochs(self) -> Mapping[str, int]:
        """Return host → the higher epoch that it has reported since the last call.

        Those reports were refused. A report proves no other leader: the brokers know.
        """
        ...

    def start(self, callbacks: ClusterCallbacks) -> None:
        """Start the callbacks, also for earlier requests."""
        ...

    def request_resource(self, ask: ResourceAsk) -> None:
        """Reserve a resource.

        A repeated open request takes the newest form, with the shorter of both times.
        """
        ...

    def release_resource(self, request_id: str) -> None:
        """Give back what `request_id` holds, or ends the request; unknown ids are no error."""
        ...

    def start_container(self, request_id: str, host: str, launch: ContainerLaunch) -> None:
        """Start one incarnation on the resource that `request_id` holds on `host`.

        Dropped while the host isn't registered: `on_host_registered` then shows that the host
        lacks the incarnation, and the coordinator repeats the start if it is still wanted.
        """
        ...

    def stop_container(self, execution_id: str, host: str) -> None:
        """Stop by SIGTERM, grace, SIGKILL; `on_container_stopped` follows once it was seen dead."""
        ...

    def forget_container(self, execution_id: str, host: str) -> None:
        """Allow the host to drop the record of a dead incarnation."""
        ...

    def admit_host(self, host: str) -> None:
        """Note that a registration of `host` has been handled: its containers may live on.

        Until then leases end when those end that it had before.
        """
        ...

    def report_again(self) -> None:
        """Report every registered host once more, with the state of each container."""
        ...

    def hosts(self) -> tuple[HostResources, ...]:
        """Return every registered host without the lost ones."""
        ...

    def finish(self) -> None:
        """Give back what the cluster keeps for the job, once no container of it runs."""
        ...

    def close(self) -> None:
        """Stop the callbacks. Containers run on."""
        ...


@dataclass(frozen=True)
class ClusterTerm:
    """The term of leadership for which a cluster is opened.

    Hosts refuse an `epoch` lower than one that they have seen. `lease_source` gives the seconds
    that containers may live on from now without this coordinator, at most `granted_s`; leases of
    `lease_s` may run of a term before. A host is lost after `host_timeout_s` without a word.
    Requests for any host wait until no host has registered for `gather_s`.
    """

    epoch: int
    lease_s: float
    granted_s: float
    host_timeout_s: float
    lease_source: Callable[[], float]
    gather_s: float
    clock: Callable[[], float]


class ClusterFactory(Protocol):
    """Opens the cluster of each term of one coordinator."""

    def require(self, *, beside: tuple[str, str] | None = None) -> None:
        """Return if a cluster could be opened; disturb no other process.

        `beside` are host and URL of the leader that is waited for: what it occupies is free by
        then. Raises `InvalidInput` or `MissingPrerequisite` that says what to change.
        """
        ...

    def advice(self, lease_s: float) -> Sequence[str]:
        """Return a line for each setting of the cluster that hinders a job.

        `require` has returned.
        """
        ...

    def describe(self) -> Mapping[str, str]:
        """Return host → its state by the cluster, for a person; empty where only agents know."""
        ...

    def prepare(
        self, within_s: float = 0.0
    ) -> AbstractContextManager[Callable[[ClusterTerm], ClusterResourceManager]]:
        """Occupy what a cluster needs; yield a function that opens it for a term.

        What a former leader still occupies is waited for up to `within_s`. Raises as `require`.
        """
        ...
