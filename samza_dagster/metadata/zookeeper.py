"""A session with ZooKeeper: the used part of kazoo, with types.

kazoo's own types are vague. `reached` turns its errors into this package's.
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
"""The default of Samza's `job.coordinator.zk.session.timeout.ms`."""
CONNECT_S = 15.0
_ANSWER_OF_SESSION = 1 / 6
"""A call fails after this part of a session's time; kazoo alone would wait without end."""


class NodeStat(Protocol):
    """A node's creation time, and the number (zxid) and time of its newest change; in ms."""

    ctime: int
    mzxid: int
    mtime: int
    version: int
    ephemeralOwner: int  # noqa: N815 - ZooKeeper's word


class TreeNode(Protocol):
    """A node in a `Tree`."""

    data: bytes | None
    stat: NodeStat


class Reading(Protocol):
    """A reading of a node in progress."""

    get: Callable[[], tuple[bytes | None, NodeStat]]


class Nodes(Protocol):
    """Reads and writes; they raise kazoo's `NoNodeError`, `NodeExistsError`, `BadVersionError`, ….

    `last_zxid` is the newest transaction that the server had seen at its last answer.
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
    """A session."""

    client_id: tuple[int, bytes] | None  # its number and password
    chroot: str  # prefix of all paths
    default_acl: list[Any] | None  # the ACL of new nodes
    transaction: Callable[[], Any]
    add_listener: Callable[[Callable[[str], object]], None]
    stop: Callable[[], None]
    close: Callable[[], None]


class Tree(Protocol):
    """kazoo's `TreeCache`: a copy of everything below a node, which follows its changes."""

    start: Callable[[], None]
    close: Callable[[], None]
    listen: Callable[[Callable[[Any], None]], object]
    get_data: Callable[[str], TreeNode | None]
    get_children: Callable[[str, tuple[str, ...]], Iterable[str]]


@dataclass(frozen=True)
class ZooKeeperAddress:
    """The address of a ZooKeeper: `host:port`, several with commas, with or without a chroot."""

    hosts: str
    session_s: float = SESSION_S
    # Login and encryption (`zookeeper_settings`). `repr` hides the values.
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        if not self.hosts.strip() or self.hosts.startswith("/"):
            raise InvalidInput(
                "zookeeper of a connection", seen=repr(self.hosts), fix="host:2181, or several"
            )
        check_settings(self.settings)


def connect(address: ZooKeeperAddress, within_s: float = CONNECT_S) -> ZooKeeper:
    """Return a session that survives lost connections until `stop`, and is renewed on expiry.

    A call without an answer within a sixth of the session's time fails. Raises `Unreachable` when
    no server answers in time, `InvalidInput` for a refused login.
    """
    asked, attempts = f"a session with ZooKeeper at {address.hosts}", _Attempts()
    client = KazooClient(
        hosts=address.hosts,
        timeout=address.session_s,
        handler=_bounded_handler(address.session_s * _ANSWER_OF_SESSION),
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
    """Yield a session of `connect`, which ends with the block."""
    session = connect(address, within_s)
    try:
        yield session
    finally:
        session.stop()
        session.close()


def make_path(zookeeper: Nodes, path: str) -> None:
    """Create the node and its missing parents, with null as their data."""
    # kazoo's `ensure_path` writes the empty string, which Samza's leader takes for a version and
    # dies.
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
    """Return a copy of everything below `path`, not yet started."""
    return cast("Tree", TreeCache(zookeeper, path))


@contextmanager
def reached(asked: str) -> Generator[None]:
    """Turn kazoo's errors into an `Unreachable` that names what was asked.

    Where ZooKeeper answers and refuses, it is an `InvalidInput`: a repetition is of no use.
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
        kazoo.ConnectionClosedError,  # kazoo gives a session up only for a refused login
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
            "and ssl.ca.location of its certificate authority",
        ) from error


class _Attempts(logging.LoggerAdapter[logging.Logger]):
    """kazoo's log, which alone has the reason of the last failed attempt to connect."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("kazoo.client"))
        self.failure: BaseException | None = None

    def log(self, level: int, msg: object, *args: Any, **more: Any) -> None:
        found = sys.exception()
        if found is not None and not isinstance(found, RetryFailedError):  # which has no details
            self.failure = found
        more["exc_info"] = None  # `reached` reports it
        super().log(level, msg, *args, **more)


def _bounded_handler(answer_s: float) -> object:
    """Return kazoo's handler for threads, with `answer_s` as the default timeout of results."""

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
        cast("ZooKeeper", client).exists("/")  # it connects before it logs in
    except (KazooException, KazooTimeoutError) as error:
        # The server disconnects after this error.
        is_explained = isinstance(error, SessionClosedRequireSaslError)
        failure = error if is_explained else attempts.failure or error
    else:
        return
    raise failure


def _end(client: KazooClient) -> None:
    client.stop()
    client.close()
