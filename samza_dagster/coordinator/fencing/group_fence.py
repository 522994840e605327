"""The broker fence of a standalone group: unregistered processors can't write.

Each registration of a processor has a principal of its own, which its containers log in as. It is
let in before its processor joins a barrier, so before any version can give it tasks; and before a
version is agreed on, its leader shuts out every principal of the job that no registered processor
has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from samza_dagster.agent.files import read_json, write_json
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.fencing.principals import Principals, is_fresh_rehearsal
from samza_dagster.errors import SamzaDagsterError, Unreachable
from samza_dagster.metadata.kafka_client import KafkaCluster

_ANSWER_S = 1.0
"""A leader waits no longer at a time: it has to renew its own containers' lease."""
_log = logging.getLogger(__name__)


class GroupFence:
    """The fence of one processor; `directory` keeps its containers' principals over restarts."""

    def __init__(self, principals: Principals, cluster: KafkaCluster, directory: Path) -> None:
        self._principals = principals
        self._fence = BrokerFence.at(principals, cluster, lambda _: None)
        self.directory = directory
        self._file = directory / "registrations.json"
        self._own: list[str] = (read_json(self._file) or {}).get("registrations", [])
        self._fenced: set[str] = set()
        self._version = 0
        self._under_way: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="broker fence")

    def admit(self, registration: str) -> None:
        """Let the registration's containers log in. Raises `Unreachable`."""
        if registration not in self._own:
            self._own.append(registration)
            write_json(self._file, {"version": 1, "registrations": self._own}, durable=True)
        try:
            self._fence.admit(registration)
        except SamzaDagsterError as error:
            raise Unreachable(f"make the login {registration}", seen=str(error)) from error

    def login_file(self) -> tuple[str, str]:
        """Return name and text of the file by which containers log in as the newest registration."""
        return self._principals.login_file(self._own[-1])

    def shut_out_others(self, version: int, registered: Callable[[], Set[str]]) -> None:
        """Shut out every principal that `registered` doesn't name; called once for a version.

        `registered` is read after the brokers have listed the logins: each of those was
        registered before. Raises `Unreachable` while a broker serves another principal; the next
        call continues.
        """
        if self._under_way is None or self._version != version:
            self._version = version
            self._under_way = self._pool.submit(self._shut_out, registered)
        try:
            self._under_way.result(timeout=_ANSWER_S)
        except SamzaDagsterError as error:
            self._under_way = None
            raise Unreachable("shut out who has left", seen=str(error)) from error
        except TimeoutError:
            raise Unreachable(
                "shut out who has left", seen=f"brokers that take more than {_ANSWER_S:g} s"
            ) from None

    def remove_own(self) -> None:
        """Remove this directory's principals as far as brokers answer.

        All containers have ended.
        """
        if self._own:
            with suppress(SamzaDagsterError):
                self._fence.remove_now(self._own)
                self._own.clear()
                self._file.unlink()

    def close(self) -> None:
        """Stop without waiting for open work."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _shut_out(self, registered: Callable[[], Set[str]]) -> None:
        let_in = self._fence.present()
        now_ms = time.time_ns() // 1_000_000
        for each in sorted(let_in - registered() - self._fenced):
            if is_fresh_rehearsal(each, now_ms):
                continue
            if serving := self._fence.fence_now(each):
                raise Unreachable(f"shut out {each}", seen=f"{', '.join(serving)} still serve it")
            _log.info("%s is fenced: every broker refuses it", each)
            self._fenced.add(each)
