"""A group in ZooKeeper: one reading of it, and the writes that `processor.step` commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.unreadable import Unreadable
from samza_dagster.metadata.zookeeper import ZooKeeper, make_path, reached
from samza_dagster.metadata.zookeeper_guard import Create, Delete, GuardedSession, SetData
from samza_dagster.metadata.zookeeper_store import ZooKeeperMetadataStore, node_name, segments_of
from samza_dagster.model import JobModel, TaskMode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.standalone import layout, requests
from samza_dagster.standalone.commands import (
    EndBarrier,
    JoinBarrier,
    Publish,
    ReportRunning,
    StartWork,
)
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, LocalStores, Member
from samza_dagster.standalone.layout import PROTOCOL_VERSION, GroupPaths
from samza_dagster.standalone.processor import VERSIONS_KEPT
from samza_dagster.standalone.zookeeper_placement import GroupPlacement

_MODELS = "jobModels"
_NOT_REGISTERED = "none"
"""No node has this name: an unregistered processor writes nothing."""


class ZooKeeperGroup:
    """A job's group, in a session that its creator stops.

    `on_change` is called, from kazoo's thread, when what the last `view` read has changed. Every
    method raises `Unreachable` when ZooKeeper doesn't answer; one that writes for a registered
    processor raises `Fenced` when its node is gone.
    """

    def __init__(
        self, zookeeper: ZooKeeper, paths: GroupPaths, on_change: Callable[[], None]
    ) -> None:
        self._zookeeper = zookeeper
        self._paths = paths
        self._on_change = on_change
        self._models = ZooKeeperMetadataStore(zookeeper, paths.models.rpartition("/")[0])
        self._born_ms = 0
        self._read_models: dict[int, JobModel | None] = {}
        self._processors_by: dict[int, dict[str, str]] = {}
        self._unreadable = Unreadable()
        self._placement = GroupPlacement(zookeeper, paths, self._unreadable)
        self._own = GuardedSession(zookeeper, f"{paths.processors}/{_NOT_REGISTERED}")

    def prepare(self) -> None:
        """Make the group's missing nodes.

        Raises `InvalidInput` for a group of another protocol version.
        """
        paths = self._paths
        with reached(f"the group at {paths.root}"):
            make_path(self._zookeeper, paths.root)
            found, stat = self._zookeeper.get(paths.root)
            if found is None:
                with suppress(BadVersionError):
                    self._zookeeper.set(paths.root, PROTOCOL_VERSION.encode(), stat.version)
                found, stat = self._zookeeper.get(paths.root)
            self._born_ms = stat.ctime
            if found != PROTOCOL_VERSION.encode():
                raise InvalidInput(
                    f"join the group at {paths.root}",
                    seen=f"protocol version {found!r}",
                    fix=f"processors that speak {PROTOCOL_VERSION}",
                )
            self._make_nodes()
            make_path(self._zookeeper, f"{paths.placement}/{PLACEMENT_NAMESPACE}")

    def _make_nodes(self, there: Set[str] = frozenset()) -> None:
        """Create missing nodes by their names: a deleted node stops no processor."""
        paths = self._paths
        for path in (
            *(paths.processors, paths.version, paths.agreed_version),
            *(paths.models, paths.barriers, paths.task_locality, paths.standby_locality),
            *(paths.placement, paths.pins, paths.restarts, paths.running, paths.standby_processors),
        ):
            if path.rpartition("/")[2] not in there:
                make_path(self._zookeeper, path)

    def view(self, sequence: str | None, *, is_whole: bool = True) -> GroupView:
        """Read the group for the processor of node `sequence`, and watch what it needs.

        `None` reads as an observer: it gets everything that the leader gets. The leader watches all
        members and the barrier. Every other member watches only the one before it, so that no end
        wakes all (`on_change`). The reading is one pass after a `sync`: locations are read last, so
        a version that all report as running has those of its tasks. `is_whole`: a leader also gets
        where tasks ran.
        """
        zookeeper, paths = self._zookeeper, self._paths
        self._unreadable.begin()
        with reached(f"read the group at {paths.root}"):
            zookeeper.sync(paths.root)
            if sequence is not None:
                above = (path.rpartition("/")[0] for path in (paths.version, paths.barriers))
                self._make_nodes({n for path in (paths.root, *above) for n in self._names(path)})
            barriers = self._numbers(paths.barriers)
            newest, revision, agreed, said = self._newest(barriers)
            numbers = {*self._numbers(paths.models), *barriers}
            barrier = self._barrier(newest)
            members = self._members()
            own = next((member for member in members if member.sequence == sequence), None)
            self._watch(sequence, members, newest)
            view = GroupView(
                members,
                newest,
                revision,
                agreed,
                max(numbers | {agreed, said}),
                self._model_of(newest, numbers),
                barrier,
                read_ms=time.time_ns() // 1_000_000,
                is_whole=False,
            )
            if sequence is None or (own is not None and own == view.leader):
                requests, responses = self._placement.requests_and_responses(self._changed)
                view = replace(
                    view,
                    requests=requests,
                    responses=responses,
                    pins=self._placement.pins(),
                    restarts=self._placement.restarts(),
                    running=self._placement.running(self._changed),
                )
                if is_whole:
                    view = replace(view, locality=self.locality(), is_whole=True)
                if is_whole and sequence is not None:
                    view = self._with_past(view, numbers)
            elif own is not None:
                restarts, running = self._placement.own(own, self._changed)
                view = replace(view, restarts=restarts, running=running)
            return replace(view, unreadable=tuple(self._unreadable.seen.values()))

    def _newest(self, barriers: Set[int]) -> tuple[int, int, int, int]:
        """Return the newest version, its node's revision, the agreed one, and the version in the node.

        Each published version has a barrier. If the node has an impossible value, as after an
        overwrite, the newest barrier counts: no processor goes back to an older version.
        """
        paths, read = self._paths, self._unreadable.unless
        try:
            data, stat = self._zookeeper.get(paths.version, watch=self._changed)
            agreed_data = self._zookeeper.get(paths.agreed_version)[0]
        except NoNodeError:  # an empty group
            return 0, 0, 0, 0
        agreed = read(paths.agreed_version, lambda: layout.version_of(agreed_data)) or 0
        newest = said = read(paths.version, lambda: layout.version_of(data))
        if newest is None or newest < agreed or (barriers and newest not in barriers):
            if newest is not None:
                self._unreadable.note(
                    paths.version,
                    f"{paths.version} says {newest}, but the newest barrier is of version "
                    f"{max(barriers, default=0)}, and {agreed} is agreed on: the next version mends it",
                )
            newest = max(barriers, default=0)
        return newest, stat.version, agreed, said or 0

    def _with_past(self, view: GroupView, numbers: Set[int]) -> GroupView:
        """Return the view with where tasks ran formerly; unreadable versions are left out."""
        older = sorted((each for each in numbers if each < view.version), reverse=True)
        self._processors_by = {each: self._processors_of(each) for each in older}
        read, named = self._unreadable.unless, filter(self._processors_by.get, older)
        models = (read(f"version {each}", partial(self._read_model, each)) for each in named)
        before = next(filter(None, models), None) if view.model is None else None
        return replace(view, before=before, history=tuple(self._processors_by.values()))

    def _processors_of(self, version: int) -> dict[str, str]:
        """Return task → its processor by a version, which doesn't change."""
        if version in self._processors_by:
            return self._processors_by[version]
        with suppress(InvalidInput):
            model = self._read_model(version)
            containers = {} if model is None else model.containers
            return {name: pid for pid, each in containers.items() for name in each.tasks}
        return {}

    def register(self, processor_id: str, location: str, stores: LocalStores) -> str:
        """Announce the processor, then make its ephemeral node; return its sequence.

        An earlier node of this session with a lost answer is used again.
        """
        data = layout.member_data(processor_id, location)
        announced = layout.announcement_data(processor_id, stores)
        with reached(f"register {processor_id}"):
            self._numbered(self._paths.standby_processors, announced)
            sequence = self._numbered(self._paths.processors, data)
        self._own = GuardedSession(self._zookeeper, f"{self._paths.processors}/{sequence}")
        return sequence

    def registration(self, sequence: str) -> str:
        """Return a registration's lasting name: sequences restart with a group's nodes."""
        if not self._born_ms and (stat := self._zookeeper.exists(self._paths.root)) is not None:
            self._born_ms = stat.ctime
        return f"{self._born_ms}-{sequence}"

    def registered(self) -> Set[str]:
        """Return the present registrations."""
        with reached("read the registrations"):
            self._zookeeper.sync(self._paths.processors)
            return set(map(self.registration, self._zookeeper.get_children(self._paths.processors)))

    def leave(self, sequence: str) -> None:
        """Delete the processor's node: the others needn't wait for its session's end."""
        with reached(f"delete the processor {sequence}"):
            for path in (self._paths.running, self._paths.processors):
                with suppress(NoNodeError):
                    self._zookeeper.delete(f"{path}/{sequence}")

    def publish(self, command: Publish) -> None:
        """Publish a version; silent when another processor has published meanwhile."""
        own, paths, version = self._own, self._paths, command.version
        with reached(f"publish version {version}"), suppress(NodeExistsError, BadVersionError):
            model = f"{paths.models}/{version}"
            own.create(model, None)
            for number, segment in enumerate(segments_of(layout.model_data(command.model))):
                own.create(f"{model}/{number}", segment)
            own.commit(
                Create(f"{paths.barriers}/barrier_{version}"),
                Create(paths.barrier_participants(version)),
                Create(paths.barrier_state(version), BarrierState.NEW.value.encode()),
                SetData(paths.version, str(version).encode(), command.revision),
            )

    def join(self, command: JoinBarrier, processor_id: str) -> None:
        """Make the processor's node among the participants of the barrier."""
        path = f"{self._paths.barrier_participants(command.version)}/{node_name(processor_id)}"
        with reached(f"join version {command.version}"), suppress(NodeExistsError, NoNodeError):
            self._own.create(path, None)

    def end_barrier(self, command: EndBarrier) -> None:
        """End a barrier; silent when it had ended before."""
        own, path = self._own, self._paths.barrier_state(command.version)
        with reached(f"end the barrier of version {command.version}"):
            try:
                state, stat = own.get(path)
                if state != BarrierState.NEW.value.encode():
                    return
                ended = SetData(path, command.state.value.encode(), stat.version)
                if command.state is not BarrierState.DONE:
                    own.commit(ended)
                    return
                agreed = SetData(self._paths.agreed_version, str(command.version).encode())
                own.commit(ended, agreed)
            except (BadVersionError, NoNodeError):
                return
            self._delete_old()

    def locality(self) -> dict[str, str]:
        """Return where each task ran last, standbys among them."""
        found: dict[str, str] = {}
        with reached("read where the tasks ran"):
            for path in (self._paths.task_locality, self._paths.standby_locality):
                read = self._children(path)
                found |= {
                    name: data.decode(errors="replace") for name, data in read.items() if data
                }
        return found

    def write_locality(self, command: StartWork, location: str) -> None:
        """Write where the tasks run from now on, standbys into a node that Samza doesn't read."""
        nodes = {
            TaskMode.ACTIVE: self._paths.task_locality,
            TaskMode.STANDBY: self._paths.standby_locality,
        }
        with reached("write where the tasks run"):
            tasks = (each.tasks for each in command.containers)
            for name, task in chain.from_iterable(each.items() for each in tasks):
                path = f"{nodes[task.task_mode]}/{name}"
                make_path(self._own, path)
                self._own.set(path, location.encode())

    def report(self, command: ReportRunning, sequence: str) -> None:
        """Write what the processor runs into an ephemeral node, which goes with its own."""
        path = f"{self._paths.running}/{sequence}"
        data = layout.document_data(command.running._asdict())
        with reached(f"report what the processor {sequence} runs"):
            try:
                self._own.set(path, data)
            except NoNodeError:
                self._own.create(path, data, ephemeral=True)

    def place(self, command: requests.Command) -> None:
        """Carry out a leader's command about a request."""
        with reached("write what was asked of the group"):
            GroupPlacement(self._own, self._paths, self._unreadable).carry_out(command)

    def _changed(self, _: Any) -> None:
        self._on_change()

    def _watch(self, sequence: str | None, members: tuple[Member, ...], version: int) -> None:
        before = [
            member for member in members if sequence is not None and member.sequence < sequence
        ]
        watched = [*before[-1:], *(member for member in members if member.sequence == sequence)]
        for member in watched:
            path = f"{self._paths.processors}/{member.sequence}"
            if self._zookeeper.exists(path, watch=self._changed) is None:
                self._on_change()
        if before:
            return
        with suppress(NoNodeError):
            self._zookeeper.get_children(self._paths.processors, watch=self._changed)
            path = self._paths.barrier_participants(version)
            self._zookeeper.get_children(path, watch=self._changed)

    def _members(self) -> tuple[Member, ...]:
        """Return the members; Samza's own aren't announced.

        Changes meanwhile may or may not show.
        """
        announced = self._announced()
        found = self._children(self._paths.processors)
        read = self._unreadable.unless
        asked = (read(n, partial(layout.member_of, n, found[n])) for n in sorted(found))
        members = [member for member in asked if member is not None]
        if any(member.processor_id not in announced for member in members):
            announced |= self._announced()
        none = LocalStores()
        return tuple(
            member._replace(
                holds_standbys=member.processor_id in announced,
                stores=announced.get(member.processor_id, none),
            )
            for member in members
        )

    def _announced(self) -> dict[str, LocalStores]:
        found = self._children(self._paths.standby_processors).items()
        read = self._unreadable.unless
        asked = (read(f"{n} of ours", partial(layout.announcement_of, data)) for n, data in found)
        return dict(each for each in asked if each is not None)

    def _numbered(self, parent: str, data: bytes) -> str:
        """Make an ephemeral node that ZooKeeper numbers, unless this session has one with these data."""
        self._zookeeper.sync(parent)
        session, _ = self._zookeeper.client_id or (0, b"")
        for name in sorted(self._names(parent)):
            with suppress(NoNodeError):
                found, stat = self._zookeeper.get(f"{parent}/{name}")
                if (found, stat.ephemeralOwner) == (data, session):
                    return name
        made: str = self._zookeeper.create(f"{parent}/", data, ephemeral=True, sequence=True)
        return made.rpartition("/")[2]

    def _names(self, path: str) -> list[str]:
        """Return the nodes below a path.

        None where it doesn't exist, as in a group of Samza's alone.
        """
        try:
            return self._zookeeper.get_children(path)
        except NoNodeError:
            return []

    def _children(self, path: str) -> dict[str, bytes]:
        """Return the nodes below a path and their data, without those deleted meanwhile."""
        asked = [(name, self._zookeeper.get_async(f"{path}/{name}")) for name in self._names(path)]
        found: dict[str, bytes] = {}
        for name, reading in asked:
            with suppress(NoNodeError):
                found[name] = reading.get()[0] or b""
        return found

    def _barrier(self, version: int) -> Barrier | None:
        try:
            path = self._paths.barrier_state(version)
            state, _ = self._zookeeper.get(path, watch=self._changed)
            joined = self._zookeeper.get_children(self._paths.barrier_participants(version))
            return Barrier(BarrierState((state or b"").decode(errors="replace")), frozenset(joined))
        except NoNodeError:
            return None
        except ValueError as error:
            self._unreadable.note(self._paths.barrier_state(version), f"{error} of a barrier")
            return None

    def _model_of(self, version: int, numbers: Set[int]) -> JobModel | None:
        """Return the model of a version, read once.

        None where it can't be: the next version repairs it.
        """
        for old in self._read_models.keys() - {version}:
            del self._read_models[old]
        if version in numbers and version not in self._read_models:
            found = self._unreadable.unless(
                f"version {version}", partial(self._read_model, version)
            )
            self._read_models[version] = found
        model = self._read_models.get(version)
        if model is None and version:
            self._unreadable.note(f"version {version}", f"the JobModel of version {version}")
        return model

    def _read_model(self, version: int) -> JobModel | None:
        stored = self._models.get(_MODELS, str(version))
        return None if stored is None else layout.model_of(stored)

    def _numbers(self, path: str) -> set[int]:
        """Return the versions that have a node there."""
        numbers = (name.rpartition("_")[2] for name in self._names(path))
        return {int(number) for number in numbers if number.isascii() and number.isdigit()}

    def _delete_old(self) -> None:
        versions = self._numbers(self._paths.models) | self._numbers(self._paths.barriers)
        for version in sorted(versions)[:-VERSIONS_KEPT]:
            for path in (
                f"{self._paths.models}/{version}",
                f"{self._paths.barriers}/barrier_{version}",
            ):
                with suppress(NoNodeError, NotEmptyError):
                    self._own.commit(*map(Delete, self._whole(path)))

    def _whole(self, path: str) -> Iterator[str]:
        """Yield a node and all below it, the lowest first."""
        for name in self._names(path):
            yield from self._whole(f"{path}/{name}")
        yield path
