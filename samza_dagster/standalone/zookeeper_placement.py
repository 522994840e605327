"""Requests to a group in ZooKeeper: requests, responses, pins and restarts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kazoo.exceptions import NoNodeError

from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.unreadable import Unreadable
from samza_dagster.metadata.zookeeper import Nodes
from samza_dagster.metadata.zookeeper_store import ZooKeeperMetadataStore, key_of, node_name
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
    PlacementRequest,
    PlacementResponse,
)
from samza_dagster.standalone import layout
from samza_dagster.standalone.group import Member, Pin, Running
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.requests import Command, Forget, Respond, SetPin, SetRestart

_Read = TypeVar("_Read")


def placement_store(zookeeper: Nodes, paths: GroupPaths) -> ZooKeeperMetadataStore:
    """Return the store of a group's placement messages, for clients and its leader alike.

    `ContainerPlacementMetadataStore` over it writes requests and reads responses; their deployment
    is `STANDALONE_DEPLOYMENT`.
    """
    return ZooKeeperMetadataStore(zookeeper, paths.placement)


class GroupPlacement:
    """A reader of a group's requests and their outcomes.

    A response that ends its request is read once.
    """

    def __init__(self, zookeeper: Nodes, paths: GroupPaths, unreadable: Unreadable) -> None:
        self._unreadable = unreadable
        self._zookeeper = zookeeper
        self._paths = paths
        self._messages = ContainerPlacementMetadataStore(placement_store(zookeeper, paths))
        self._ended: dict[str, PlacementResponse] = {}

    def requests_and_responses(
        self, watch: Callable[[Any], None]
    ) -> tuple[tuple[PlacementRequest, ...], dict[str, PlacementResponse]]:
        """Return open requests, oldest first, and by uuid each request's newest response."""
        path = f"{self._paths.placement}/{PLACEMENT_NAMESPACE}"
        uuids: dict[str, set[str]] = {REQUEST: set(), RESPONSE: set()}
        for key in self._names(path, watch):
            uuid, _, kind = key.partition(".")
            uuids.get(kind, set()).add(uuid)
        self._ended = {uuid: self._ended[uuid] for uuid in self._ended if uuid in uuids[RESPONSE]}
        responses = dict(self._ended)
        for uuid in uuids[RESPONSE] - responses.keys():
            response = self._unreadable.unless(uuid, partial(self._messages.read_response, uuid))
            if response is not None:
                responses[uuid] = response
        self._ended |= {u: each for u, each in responses.items() if each.status_code.is_terminal}
        requests: list[PlacementRequest] = []
        for uuid in uuids[REQUEST] - responses.keys():
            request = self._unreadable.unless(uuid, partial(self._messages.read_request, uuid))
            if request is not None:
                requests.append(request)
            elif uuid not in self._unreadable.seen and self._names(
                f"{path}/{uuid}.{REQUEST}", watch
            ):
                watch(None)  # its value was written meanwhile
        return tuple(sorted(requests, key=lambda each: (each.timestamp, each.uuid))), responses

    def pins(self) -> dict[str, Pin]:
        """Return the pin of each pinned task."""
        return self._documents(self._paths.pins, layout.pin_of)

    def restarts(self) -> dict[str, str]:
        """Return processor → the request that restarts it."""
        return self._documents(self._paths.restarts, layout.restart_of)

    def own(
        self, member: Member, watch: Callable[[Any], None]
    ) -> tuple[dict[str, str], dict[str, Running]]:
        """Return a processor's restart, which it watches, and its report, which may be overwritten."""
        path, said = f"{self._paths.restarts}/{node_name(member.processor_id)}", self._paths.running
        is_told = self._zookeeper.exists(path, watch=watch) is not None
        return (
            self._document(path, member.processor_id, layout.restart_of) if is_told else {},
            self._document(f"{said}/{member.sequence}", member.sequence, layout.running_of),
        )

    def running(self, watch: Callable[[Any], None]) -> dict[str, Running]:
        """Return each processor's report of what it runs, by its sequence."""
        return self._documents(self._paths.running, layout.running_of, watch)

    def carry_out(self, command: Command) -> None:
        """Carry out a leader's command about a request."""
        match command:
            case SetPin():
                data = None if command.pin is None else layout.document_data(command.pin._asdict())
                self._set(f"{self._paths.pins}/{node_name(command.task)}", data)
            case SetRestart():
                data = (
                    None if command.uuid is None else layout.document_data({"uuid": command.uuid})
                )
                self._set(f"{self._paths.restarts}/{node_name(command.processor_id)}", data)
            case Respond():
                self._messages.write_response(command.response)
                self._messages.delete_request(command.response.uuid)
            case Forget():
                self._messages.delete_request(command.uuid)
                self._messages.delete_response(command.uuid)

    def _set(self, path: str, data: bytes | None) -> None:
        if data is None:
            with suppress(NoNodeError):
                self._zookeeper.delete(path)
            return
        try:
            self._zookeeper.set(path, data)
        except NoNodeError:
            self._zookeeper.create(path, data)

    def _documents(
        self,
        path: str,
        read: Callable[[str, bytes | None], _Read],
        watch: Callable[[Any], None] | None = None,
    ) -> dict[str, _Read]:
        found: dict[str, _Read] = {}
        for key in self._names(path, watch):
            found |= self._document(f"{path}/{node_name(key)}", key, read, watch)
        return found

    def _document(
        self,
        path: str,
        key: str,
        read: Callable[[str, bytes | None], _Read],
        watch: Callable[[Any], None] | None = None,
    ) -> dict[str, _Read]:
        with suppress(NoNodeError):
            data = self._zookeeper.get(path, watch=watch)[0]
            document = self._unreadable.unless(path, partial(read, key, data))
            return {} if document is None else {key: document}
        return {}

    def _names(self, path: str, watch: Callable[[Any], None] | None = None) -> list[str]:
        with suppress(NoNodeError):
            return [key_of(name) for name in self._zookeeper.get_children(path, watch=watch)]
        return []
