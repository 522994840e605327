"""A session with ZooKeeper: the part of kazoo that is used here, with its types.

kazoo's own say little. What it raises becomes one of this package's errors at the border (`reached`).
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.exceptions import (
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler
from kazoo.recipe.cache import TreeCache
from kazoo.retry import RetryFailedError

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.zookeeper_settings import (
    LOGIN_SETTINGS,
    check_settings,
    kazoo_options,
)

SESSION_S = 30.0
"""`job.coordinator.zk.session.timeout.ms` of Samza, by default."""
CONNECT_S = 15.0
_ANSWER_OF_SESSION = 1 / 6
"""After this part of a session's time a call has failed: kazoo alone waits for a connection without end."""


class NodeStat(Protocol):
    """A node's statistics: when it was made, and number (zxid) and time of its newest change; in ms."""

    ctime: int
    mzxid: int
    mtime: int
    version: int
    ephemeralOwner: int  # noqa: N815 - ZooKeeper's word


class TreeNode(Protocol):
    """A node as a `Tree` holds it."""

    data: bytes | None
    stat: NodeStat


class Reading(Protocol):
    """A reading of a node that is under way."""

    get: Callable[[], tuple[bytes | None, NodeStat]]


class Nodes(Protocol):
    """Reads and writes of nodes. The methods raise kazoo's `NoNodeError`, `NodeExistsError`, `BadVersionError`, ….

    `last_zxid` is the newest transaction that the server had seen when it last answered.
    """

    @property
    def last_zxid(self) -> int: ...  # noqa: D102

    get: Callable[..., tuple[bytes | None, NodeStat]]
    get_async: Callable[[str], Reading]
    get_children: Callable[..., list[str]]
    exists: Callable[..., NodeStat | None]
    sync: Callable[[str], object]

    @property
    def create(self) -> Callable[..., Any]: ...  # noqa: D102
    @property
    def set(self) -> Callable[..., NodeStat]: ...  # noqa: D102
    @property
    def delete(self) -> Callable[..., object]: ...  # noqa: D102


class ZooKeeper(Nodes, Protocol):
    """A session, by `client_id` its number and password; below `chroot`, with `default_acl` for what it makes."""

    client_id: tuple[int, bytes] | None
    chroot: str
    default_acl: list[Any] | None
    transaction: Callable[[], Any]
    add_listener: Callable[[Callable[[str], object]], None]
    stop: Callable[[], None]
    close: Callable[[], None]


class Tree(Protocol):
    """kazoo's `TreeCache`: a copy of all below a node, which follows what changes there."""

    start: Callable[[], None]
    close: Callable[[], None]
    listen: Callable[[Callable[[Any], None]], object]
    get_data: Callable[[str], TreeNode | None]
    get_children: Callable[[str, tuple[str, ...]], Iterable[str]]


@dataclass(frozen=True)
class ZooKeeperAddress:
    """Where ZooKeeper is: `host:port`, several separated by commas, with a chroot (`…/samza`) or without.

    `settings` say how to log in and encrypt there (`zookeeper_settings`). None of their values appears in `repr`.
    """

    hosts: str
    session_s: float = SESSION_S
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        if not self.hosts.strip() or self.hosts.startswith("/"):
            raise InvalidInput(
                "zookeeper of a connection", seen=repr(self.hosts), fix="host:2181, or several"
            )
        check_settings(self.settings)


def connect(address: ZooKeeperAddress, within_s: float = CONNECT_S) -> ZooKeeper:
    """A session that lives until `stop`, over lost connections, and is renewed when it expires.

    A call that has no answer within a sixth of the session's time fails. Raises `Unreachable` when no
    server answers in time, `InvalidInput` for a login that is refused.
    """
    asked, attempts = f"a session with ZooKeeper at {address.hosts}", _Attempts()
    client = KazooClient(
        hosts=address.hosts,
        timeout=address.session_s,
        handler=_bounded(address.session_s * _ANSWER_OF_SESSION),
        logger=cast("Any", attempts),
        **kazoo_options(address.settings),
    )
    try:
        with reached(asked):
            _start(client, attempts, within_s)
    except BaseException:
        _end(client)
        raise
    return cast("ZooKeeper", client)


@contextmanager
def connected(address: ZooKeeperAddress, within_s: float = CONNECT_S) -> Generator[ZooKeeper]:
    """A session as `connect` makes it, which ends with the block."""
    session = connect(address, within_s)
    try:
        yield session
    finally:
        session.stop()
        session.close()


def make_path(zookeeper: Nodes, path: str) -> None:
    """Makes the node and those above it where they are missing, with null as their data.

    kazoo's `ensure_path` writes the empty string, which Samza's leader takes for a version and dies of.
    """
    if zookeeper.exists(path) is not None:
        return
    try:
        zookeeper.create(path, None)
    except NoNodeError:
        make_path(zookeeper, path.rpartition("/")[0])
        make_path(zookeeper, path)
    except NodeExistsError:
        return


def tree_of(zookeeper: Nodes, path: str) -> Tree:
    """A copy of all below `path`, not yet started."""
    return cast("Tree", TreeCache(zookeeper, path))


@contextmanager
def reached(asked: str) -> Generator[None]:
    """Makes what kazoo raises an `Unreachable` that says what was asked.

    Where ZooKeeper answers, and refuses, it is an `InvalidInput`: to ask again is of no use.
    """
    try:
        yield
    except (kazoo.NoAuthError, kazoo.InvalidACLError) as error:
        raise InvalidInput(
            asked,
            seen=f"{type(error).__name__}: the ACL of a node there doesn't let this login do it",
            fix=f"{LOGIN_SETTINGS}, or the ACL there",
        ) from error
    except (
        kazoo.AuthFailedError,
        kazoo.SessionClosedRequireSaslError,
        kazoo.SASLException,
        kazoo.ConnectionClosedError,  # kazoo gives a session up for a refused login alone
    ) as error:
        raise InvalidInput(
            asked,
            seen=f"{type(error).__name__}: ZooKeeper refuses the login",
            fix=f"{LOGIN_SETTINGS} as the server has them",
        ) from error
    except (kazoo.KazooException, KazooTimeoutError) as error:
        dropped = error.__context__ if isinstance(error, kazoo.ConnectionDropped) else None
        cause = dropped or error
        raise Unreachable(
            asked,
            seen=f"{type(cause).__name__} {cause}".strip(),
            fix="is ZooKeeper up at this address? A port with TLS wants security.protocol=SSL or SASL_SSL, "
            "and ssl.ca.location of who signed its certificate",
        ) from error


class _Attempts(logging.LoggerAdapter[logging.Logger]):
    """kazoo's log, which knows what the last attempt to connect failed of: kazoo says it nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("kazoo.client"))
        self.failure: BaseException | None = None

    def log(self, level: int, msg: object, *args: Any, **more: Any) -> None:
        found = sys.exception()
        if found is not None and not isinstance(found, RetryFailedError):  # which says no more
            self.failure = found
        more["exc_info"] = None  # `reached` tells it
        super().log(level, msg, *args, **more)


def _bounded(answer_s: float) -> object:
    """kazoo's handler for threads; a result that is waited for without a time is so for `answer_s`."""

    class BoundedResult(AsyncResult):
        def get(self, block: bool = True, timeout: float | None = None) -> object:
            answer: Any = super()
            return answer.get(block, answer_s if timeout is None else timeout)

    class BoundedHandler(SequentialThreadingHandler):
        def async_result(self) -> BoundedResult:
            return BoundedResult(self)

        def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
            def run() -> None:
                with suppress(
                    KazooException
                ):  # a refused login ends kazoo's loop, which has logged it
                    func(*args, **kwargs)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            return thread

    return BoundedHandler()


def _start(client: KazooClient, attempts: _Attempts, within_s: float) -> None:
    try:
        client.start(timeout=cast("Any", within_s))
        cast("ZooKeeper", client).exists("/")  # it is connected before it has logged in
    except (KazooException, KazooTimeoutError) as error:
        is_explained = isinstance(error, SessionClosedRequireSaslError)  # and then it is cut off
        failure = error if is_explained else attempts.failure or error
    else:
        return
    raise failure


def _end(client: KazooClient) -> None:
    client.stop()
    client.close()
