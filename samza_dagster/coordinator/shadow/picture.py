"""A job's public state at one moment, and how it is read. Nothing is ever written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from samza_dagster.client.access import JobAccess
from samza_dagster.client.observations import read_lag
from samza_dagster.client.responses import details_of
from samza_dagster.client.stream_reader import StreamReader
from samza_dagster.client.views import JobView, ReplicaLag
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.coordinator_stream import SET_CONTAINER_HOST
from samza_dagster.metadata.interface import wall_clock_ms
from samza_dagster.metadata.placement_store import request_key, response_key
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.naming import active_task_of
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE

LAGS_EVERY_S = 5.0
"""A reading of all reports costs more than one of the coordinator stream."""
PAGE_AGAIN_S = 60.0
"""The Application Master's page, of a random port of a node, can't be reached from everywhere."""


@dataclass(frozen=True)
class Start:
    """A container's own record of its start: where it stands in the stream, when it was written, the host."""

    position: int
    at_ms: int
    host: str


@dataclass(frozen=True)
class Asked:
    """A placement request and its newest answer.

    `asked_ms` and `answered_ms` are the times of the stream's records; `status` is empty without an
    answer. `stopped`: the answer says that its container was stopped.
    """

    uuid: str
    processor_id: str
    destination: str
    deployment: str
    asked_ms: int
    expiry_ms: int | None = None
    status: str = ""
    message: str = ""
    answered_ms: int = 0
    stopped: bool = False
    ended: bool = False


@dataclass(frozen=True)
class Report:
    """A container's newest report: the incarnation that wrote it, and how far a standby was."""

    execution_id: str
    lag: int | None = None


@dataclass(frozen=True)
class Picture:
    """A job at one moment. `at_ms` is by the shadow's clock, the times of records are their topics'.

    `executions` is processor → YARN container and host by YARN's word; None where that can't be
    asked. `partitions` is processor → the changelog partitions of its tasks, by task.
    """

    at_ms: int
    view: JobView
    starts: Mapping[str, Start] = field(default_factory=dict[str, Start])
    executions: Mapping[str, tuple[str, str]] | None = None
    reports: Mapping[str, Report] = field(default_factory=dict[str, Report])
    requests: Mapping[str, Asked] = field(default_factory=dict[str, Asked])
    partitions: Mapping[str, Mapping[str, tuple[tuple[str, int], ...]]] = field(
        default_factory=dict[str, Mapping[str, tuple[tuple[str, int], ...]]]
    )

    @property
    def deployment(self) -> str:
        """The running deployment; empty before the first."""
        return self.view.deployment_id or ""

    @property
    def application(self) -> str:
        """YARN's id of the application; empty where YARN isn't asked."""
        return self.view.application.id if self.view.application is not None else ""

    def host_of(self, processor_id: str) -> str:
        """Return where a container runs, or ran last; empty where nothing tells it."""
        known = (self.executions or {}).get(processor_id)
        if known is not None:
            return known[1]
        processor = self.view.processors.get(processor_id)
        return (processor.host if processor is not None else None) or ""


class PictureReader:
    """A reader of one job's pictures.

    Reports are read at most every `LAGS_EVERY_S`, the stream each time.
    """

    def __init__(
        self,
        access: JobAccess,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._lags_due_s = monotonic()
        self._reports: Mapping[str, Report] = {}
        self._page_due_s = monotonic()

    def read(self) -> Picture:
        """Read the job now. Raises `Unreachable`, and `InvalidInput` where there is no such job."""
        view, reader = self._access.read()[0], self._access.reader()
        assert isinstance(reader, StreamReader)
        self._read_reports(view)
        config, partitions = reader.config(), reader.changelog_partitions()
        topics = [store.topic for store in store_changelogs(config)]
        return Picture(
            self._now_ms(),
            view,
            starts=self._starts(view),
            executions=self._executions(view),
            reports=self._reports,
            requests=self._requests(reader),
            partitions={
                pid: {
                    task: ()
                    if (number := partitions.get(active_task_of(task))) is None
                    else tuple((topic, number) for topic in topics)
                    for task in processor.tasks
                }
                for pid, processor in view.processors.items()
            },
        )

    def _starts(self, view: JobView) -> dict[str, Start]:
        store = self._access.store
        kept = store.whole().get(SET_CONTAINER_HOST, {})
        written = store.written_ms(SET_CONTAINER_HOST, kept)
        return {
            pid: Start(kept[pid].position, written.get(pid, 0), processor.last_seen_host or "")
            for pid, processor in view.processors.items()
            if pid in kept
        }

    def _executions(self, view: JobView) -> dict[str, tuple[str, str]] | None:
        """Ask the Application Master's page; where that can't be reached, the ResourceManager.

        The ResourceManager knows no processors: the reports assign a container to one by its id.
        """
        yarn, application = self._access.yarn, view.application
        if yarn is None or application is None:
            return None
        now_s = self._monotonic()
        if now_s >= self._page_due_s:
            with suppress(Unreachable):
                return yarn.containers(application)
            self._page_due_s = now_s + PAGE_AGAIN_S
        named = {pid: report.execution_id for pid, report in self._reports.items()}
        with suppress(Unreachable):
            running = yarn.running(application)
            found = {pid: (it, running[it]) for pid, it in named.items() if it in running}
            return found or None
        return None

    def _requests(self, reader: StreamReader) -> dict[str, Asked]:
        requests, responses = reader.placement()
        store = self._access.store
        keys = [
            make(uuid) for uuid in {*requests, *responses} for make in (request_key, response_key)
        ]
        written = store.written_ms(PLACEMENT_NAMESPACE, keys)
        found: dict[str, Asked] = {}
        for uuid in (*requests, *responses):
            answer = responses.get(uuid)
            about: PlacementRequest | PlacementResponse = answer or requests[uuid]
            asked = Asked(
                uuid,
                about.processor_id,
                about.destination_host,
                about.deployment_id,
                written.get(request_key(uuid), about.timestamp),
                about.request_expiry,
            )
            if answer is not None:
                asked = replace(
                    asked,
                    status=answer.status_code.value,
                    message=answer.response_message,
                    answered_ms=written.get(response_key(uuid), answer.timestamp),
                    stopped=bool(details_of(answer).stopped),
                    ended=answer.status_code.is_terminal,
                )
            found[uuid] = asked
        return found

    def _read_reports(self, view: JobView) -> None:
        """Read all reports where they are due; what can't be read leaves the last ones."""
        now_s = self._monotonic()
        if self._access.topics is None or now_s < self._lags_due_s:
            return
        self._lags_due_s = now_s + LAGS_EVERY_S
        with suppress(Unreachable):
            lags, _ = read_lag(view, self._access.reader(), self._access.topics)
            found = _reports(self._access.seen.bounded(lags))
            is_partial = any(lag.reason and not lag.is_changelog_lost for lag in lags)
            self._reports = {**self._reports, **found} if is_partial else found


def _reports(lags: tuple[ReplicaLag, ...]) -> dict[str, Report]:
    """Return each container's newest report; its lag is that of all of its stores."""
    of: dict[str, list[ReplicaLag]] = {}
    for lag in lags:
        if lag.came_ms is not None:
            of.setdefault(lag.processor_id, []).append(lag)
    found: dict[str, Report] = {}
    for pid, mine in of.items():
        newest = max(mine, key=lambda lag: lag.came_ms or 0)
        known = [lag.lag for lag in mine]
        found[pid] = Report(
            newest.execution_id, None if None in known else sum(it or 0 for it in known)
        )
    return found
