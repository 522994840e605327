"""Half-written records, wardens on their own, and a JobModel that is held."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.agent import container_server, procfs, warden
from samza_dagster.agent.files import write_json
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.lease import Grant, read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor
from tests.contract.agent.rig import Rig
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def record(directory: Path, execution_id: str, program: tuple[str, ...]) -> HostedIncarnation:
    """A record as an agent leaves it when it is killed before it starts the warden."""
    launch = Launch(execution_id, "0", program, {}, '{"containers":{}}', ("j/s/T",), 1.0, {})
    return HostedIncarnation.create(
        directory / "incarnations" / execution_id,
        launch,
        command=program,
        environment={},
        grant_file=directory / "grant.json",
        sequence=1,
    )


def run_warden(found: HostedIncarnation) -> int:
    command = [sys.executable, "-I", warden.__file__, str(found.directory)]
    return subprocess.run(command, check=False, timeout=20, start_new_session=True).returncode


def test_a_start_that_was_only_recorded_has_failed_and_never_runs(job: Rig) -> None:
    """The record alone can't tell whether it ran, so it is barred before it is reported."""
    ran = job.root / "ran"
    found = record(
        job.root / "agents" / "host-1", "e1", (sys.executable, "-c", f"open({str(ran)!r}, 'w')")
    )
    _, seen = job.cluster()
    job.agent("host-1")
    assert "before it had started a warden" in seen.wait("on_start_failed", "e1")[2]
    assert run_warden(found) == 3
    assert not ran.exists()


def test_a_warden_starts_nothing_without_a_live_lease(tmp_path: Path) -> None:
    """No grant, a grant that has ended, a grant of another boot: the program never runs."""
    ran = tmp_path / "ran"
    program = (sys.executable, "-c", f"open({str(ran)!r}, 'w')")
    now, boot_id = read_clocks(), procfs.boot_id()
    grants = [None, Grant(1, 0.0, now, boot_id), Grant(1, 100.0, now, "another boot")]
    for number, grant in enumerate(grants):
        found = record(tmp_path, f"e{number}", program)
        if grant is not None:
            (tmp_path / "grant.json").write_text(json.dumps(grant.to_json()))
        assert run_warden(found) == 4
        assert (found.read_end() or {})["why"] == "the host holds no live lease"
    assert not ran.exists()
    (tmp_path / "grant.json").write_text(json.dumps(Grant(1, 100.0, now, boot_id).to_json()))
    again = record(tmp_path, "e9", program)
    assert run_warden(again) == 0
    assert (again.read_end() or {})["status"] == 0
    assert ran.exists()
    assert run_warden(again) == 3


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Supervisor, int]]:
    """One incarnation with a process on a host without a lease, and its agent's server."""
    monkeypatch.setattr(container_server, "HOLD_NEWLINE_S", 0.1)
    supervisor = Supervisor(
        tmp_path, tmp_path / "state", "host-1", ResourceLedger(1, 1), url_of=lambda _: ""
    )
    found = record(tmp_path, "e1", ("true",))
    process = subprocess.Popen(["sleep", "600"])
    name = procfs.name_of(process.pid)
    assert name is not None
    both = {"warden": name.to_json(), "container": name.to_json()}
    write_json(found.directory / "warden.json", {"version": 1, **both})
    assert found.read_processes()
    supervisor.roster.incarnations["e1"] = found
    server = container_server.bind(None)
    server.gate = supervisor.gate
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield supervisor, server.server_address[1]
    server.shutdown()
    server.server_close()
    process.kill()
    process.wait()


def test_a_held_job_model_is_answered_at_once_and_kept_warm(
    served: tuple[Supervisor, int],
) -> None:
    """Samza's reader breaks off after 60 s without a byte: 200, white space, then the JSON."""
    supervisor, port = served
    with socket.create_connection(("127.0.0.1", port), timeout=5 * PACE) as connection:
        connection.sendall(b"GET /c/e1/ HTTP/1.1\r\nHost: x\r\n\r\n")
        stream = connection.makefile("rb")
        assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
        while stream.readline() != b"\r\n":
            pass
        for _ in range(3):
            assert [stream.readline() for _ in range(2)] == [b"1\r\n", b"\n"]
            assert stream.readline() == b"\r\n"
        assert not supervisor.roster.incarnations["e1"].released
        supervisor.hold_lease(Grant(1, 100.0, read_clocks(), supervisor.boot_id))
        rest = stream.read()
    assert b'{"containers":{}}' in rest
    assert rest.endswith(b"0\r\n\r\n")
    assert json.loads((supervisor.roster.incarnations["e1"].directory / "marks.json").read_text())[
        "released"
    ]


def test_a_held_job_model_of_one_that_is_stopped_breaks_off(
    served: tuple[Supervisor, int],
) -> None:
    """No reader takes half an answer for a JobModel, so it never owned anything."""
    supervisor, port = served
    with socket.create_connection(("127.0.0.1", port), timeout=5 * PACE) as connection:
        connection.sendall(b"GET /c/e1/ HTTP/1.1\r\nHost: x\r\n\r\n")
        stream = connection.makefile("rb")
        assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
        supervisor.stop("e1")
        assert not stream.read().endswith(b"0\r\n\r\n")
    assert not supervisor.roster.incarnations["e1"].released
