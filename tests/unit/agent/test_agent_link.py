"""The agent's word with its coordinator, when its own host fails it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.agent import grants, link
from samza_dagster.agent.agent import Threads
from samza_dagster.agent.link import CoordinatorLink
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit

RESERVE = {"id": "c1", "kind": "reserve", "request_id": "r1", "memory_mb": 100, "cores": 1}


def linked(tmp_path: Path) -> tuple[Supervisor, CoordinatorLink]:
    watched = Supervisor(
        tmp_path, tmp_path / "state", "host-1", ResourceLedger(1000, 4), url_of=lambda _: ""
    )
    return watched, CoordinatorLink(
        watched, url_file=tmp_path / "url", token_file=tmp_path / "token", wait_s=0.0
    )


def answering(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    def post(_: object, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        return answer(body)

    monkeypatch.setattr(link._Connection, "post", post)


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("module", [link, grants], ids=["the epoch", "the grant"])
def test_a_full_disk_ends_no_exchange_and_the_reply_counts_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    """What can't be written isn't taken: neither lease nor commands, until a later reply."""
    watched, asks = linked(tmp_path)
    bodies: list[dict[str, Any]] = []
    write_json = module.write_json

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        bodies.append(body)
        if len(bodies) == 2:
            assert watched.lease.grant is None
            assert watched.holdings.ledger.held == ()
        monkeypatch.setattr(module, "write_json", full_disk if len(bodies) == 1 else write_json)
        if len(bodies) == 3:
            asks.close()
        return {"version": 1, "epoch": 1, "losses": 0, "lease_ms": 9000, "commands": [RESERVE]}

    answering(monkeypatch, answer)
    asks.poll()
    assert bodies[1]["acknowledged"] == []
    assert bodies[2]["acknowledged"] == [{"id": "c1", "ok": True, "why": ""}]
    assert watched.lease.grant is not None
    assert [held.request_id for held in watched.holdings.ledger.held] == ["r1"]


def test_an_agent_ends_when_one_of_its_threads_does(caplog: pytest.LogCaptureFixture) -> None:
    """Half an agent renews no lease, and nobody would start it anew."""
    ended = threading.Event()
    threads = Threads(on_death=ended.set)
    threads.start(full_disk, "poll")
    assert ended.wait(10)
    assert threads.died == "poll"
    assert "No space left" in caplog.text


class Gateway:
    """Stands in for a connection: the other end closes it once it was idle for 60 s."""

    now = 100.0
    opened = 0

    def __init__(self, *_: object) -> None:
        Gateway.opened += 1
        self.sock = None
        self.timeout = 0.0
        self.status = 200
        self._used_at = Gateway.now

    def request(self, *_: object) -> None:
        if Gateway.now - self._used_at > 60:
            raise ConnectionResetError("idle for too long")
        self._used_at = Gateway.now

    def getresponse(self) -> Gateway:
        return self

    def read(self, _: int) -> bytes:
        return b"{}"

    def close(self) -> None:
        """Nothing is held."""


def test_a_reply_deeper_than_any_stack_is_no_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever answers where a coordinator was: the agent asks again, and ends for none of it."""
    (tmp_path / "url").write_text("http://127.0.0.1:1")
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(link.http.client, "HTTPConnection", Gateway)
    monkeypatch.setattr(Gateway, "opened", 0)
    monkeypatch.setattr(Gateway, "read", lambda *_: b"[" * 50_000)  # pyright: ignore[reportUnknownLambdaType]
    with pytest.raises(link.LinkError, match="RecursionError"):
        link._Connection(tmp_path / "url", tmp_path / "token").post({}, timeout_s=1.0)


def test_what_happens_after_a_quiet_minute_is_told_at_the_first_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection for changes is idle while nothing changes, and is closed at the other end."""
    (tmp_path / "url").write_text("http://127.0.0.1:1")
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(link.http.client, "HTTPConnection", Gateway)
    monkeypatch.setattr(link.time, "monotonic", lambda: Gateway.now)
    connection = link._Connection(tmp_path / "url", tmp_path / "token")
    for pause_s, opened in ((0, 1), (20, 1), (61, 2), (10, 2)):
        Gateway.now += pause_s
        assert connection.post({}, timeout_s=1.0) == {}
        assert Gateway.opened == opened
