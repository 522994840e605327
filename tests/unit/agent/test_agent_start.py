"""How an agent starts, what it is let in with, where it finds its hosts, and what it says of its last failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.agent import main as agent_main
from samza_dagster.agent import procfs
from samza_dagster.agent.credentials import read_token
from samza_dagster.agent.examination import LOOK_AGAIN_S, WARDEN_MARGIN_S
from samza_dagster.agent.hosts_file import lines, own_addresses
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.wakeup import sleep_s

pytestmark = pytest.mark.unit

HOST = ("--host", "h", "--memory-mb", "1", "--cores", "1")
TOLD = ("--coordinator-url-file", "u", "--token-file", "t")


def refused(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and the last line on standard error."""
    done = subprocess.run(
        [sys.executable, "-I", agent_main.__file__, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (TOLD[2:], "needed to run: --coordinator-url-file"),
        (TOLD[:2], "needed to run: --token-file"),
        ((*TOLD, "@missing"), "missing"),
    ],
)
def test_bad_usage_is_named(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    """Exit 2, before anything is made."""
    code, line = refused("--directory", str(tmp_path / "d"), *HOST, *arguments)
    assert code == 2
    assert why in line
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("option", ["--directory", "--state-dir"])
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, option: str) -> None:
    """Exit 2; here a file is in the way."""
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "below"
    code, line = refused("--directory", str(tmp_path / "d"), *HOST, *TOLD, option, str(place))
    assert (code, line) == (
        2,
        f"agent: error: {place} can't be written: Not a directory",
    )


def test_arguments_are_read_from_a_file(tmp_path: Path) -> None:
    """One a line, with spaces and signs as they are."""
    file = tmp_path / "arguments"
    file.write_text(f"--directory\n{tmp_path / 'a $HOME'}\n--stop-all\n")
    done = subprocess.run(
        [sys.executable, "-I", agent_main.__file__, f"@{file}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '{"stopped": [], "alive": []}\n'


# A secret out of a credentials file, as Hadoop writes it for a container.

# Written by Hadoop 3.4.1: `Credentials.writeTokenStorageToStream`, with two tokens (one of a long
# identifier) and two secrets (one long).
RECORDED = bytes.fromhex(
    "4844545300"
    "02"
    "05616d2d726d0a6964656e7469666965720870617373776f7264"
    "105941524e5f414d5f524d5f544f4b454e0e3132372e302e302e313a38303330"
    "036269678e012c" + "00" * 300 + "14" + "00" * 20 + "074e4d546f6b656e056e6d313a31"
    "02"
    "1373616d7a612d646167737465722e746f6b656e136120746f6b656e206f6620746865206a6f620a"
    "056f746865728e012c" + "78" * 300
)
# The same by `SerializedFormat.PROTOBUF`: its beginning.
PROTOBUF = bytes.fromhex("484454530188060a410a05616d2d726d12380a0a6964656e746966696572")


def test_a_secret_is_found_among_tokens_of_every_length(tmp_path: Path) -> None:
    """Also behind a length that takes more than one byte; white space around it is no part of it."""
    file = tmp_path / "container_tokens"
    file.write_bytes(RECORDED)
    assert read_token(file) == "a token of the job"


def test_a_token_that_is_alone_in_its_file_is_the_whole_file(tmp_path: Path) -> None:
    """As an agent has it that a person started."""
    file = tmp_path / "token"
    file.write_text("a token of the job\n")
    assert read_token(file) == "a token of the job"


@pytest.mark.parametrize(
    "content",
    [
        PROTOBUF,
        b"HDTS",
        RECORDED[:40],
        RECORDED.partition(b"samza-dagster.token")[0],
        RECORDED.partition(b" of the job")[0],
        b"HDTS\x01" + RECORDED[5:],
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes) -> None:
    """Another format, torn, or without the secret."""
    file = tmp_path / "container_tokens"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"no secret samza-dagster\.token") as refused:
        read_token(file)
    assert str(file) in str(refused.value)


# The hosts file that gives a JVM its simulated host's name.

FIB = """Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 127.255.255.255
        /32 link BROADCAST
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 169.254.7.7
        /32 host LOCAL
Main:
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 10.1.2.0
        /24 link UNICAST
"""
INET6 = """00000000000000000000000000000001 01 80 10 80       lo
fe800000000000000000000000000001 02 40 20 80     eth0
fd000000000000000000000000000002 02 40 00 80     eth0
"""


def test_the_addresses_are_those_that_samza_may_take() -> None:
    """Neither loopback nor link-local, each once."""
    assert own_addresses(FIB, INET6) == ["10.1.2.3", "fd00::2"]
    assert own_addresses("", "") == []


def test_the_machine_is_loopback_and_every_other_address_the_reported_host() -> None:
    """The first line sends Samza's look-up on to the second."""
    assert lines("host-1", "box", ["10.1.2.3", "fd00::2"]) == [
        "127.0.0.1 localhost box",
        "10.1.2.3 host-1",
        "fd00::2 host-1",
    ]


def test_an_agent_that_has_the_machines_own_name_keeps_it_off_loopback() -> None:
    """Otherwise the name would have two addresses."""
    assert lines("box", "box", ["10.1.2.3"]) == ["127.0.0.1 localhost", "10.1.2.3 box"]


# What stays of a container that failed by itself.


def _dead(root: Path, execution_id: str, log: str) -> HostedIncarnation:
    directory = root / "incarnations" / execution_id
    directory.mkdir(parents=True)
    (directory / "container.log").write_text(log)
    return HostedIncarnation(
        directory,
        {"processor_id": "0", "sequence": 1, "store_directories": [], "stop_grace_s": 1.0},
    )


def test_the_log_of_the_last_failure_stays_one_per_processor(tmp_path: Path) -> None:
    """A loop of failing starts says why, and fills no disk."""
    for number, status in enumerate((1, 1, 137)):
        found = _dead(tmp_path, f"e{number}", f"failure {number}")
        found.exit_status = status
        found.forget()
        assert not found.directory.exists()
    (kept,) = (tmp_path / "last-failure").iterdir()
    assert (kept.name, kept.read_text()) == ("0.log", "failure 2")


def test_what_was_cut_off_the_log_stays_with_it(tmp_path: Path) -> None:
    """The reason of a failure may lie before the cut. An earlier failure's goes."""
    kept = tmp_path / "last-failure"
    for number, older in enumerate((None, "before 1", None)):
        found = _dead(tmp_path, f"e{number}", f"failure {number}")
        if older is not None:
            (found.directory / "container.log.1").write_text(older)
        found.exit_status = 1
        found.forget()
        there = {file.name: file.read_text() for file in kept.iterdir()}
        assert there.pop("0.log") == f"failure {number}"
        assert there == ({} if older is None else {"0.log.1": older})


@pytest.mark.parametrize(("status", "asked"), [(0, False), (143, True), (None, False)])
def test_one_that_was_stopped_or_ended_well_leaves_nothing(
    tmp_path: Path, status: int | None, asked: bool
) -> None:
    """Its log is no failure's."""
    found = _dead(tmp_path, "e1", "fine")
    found.exit_status, found.stop_asked = status, asked
    found.forget()
    assert not (tmp_path / "last-failure").exists()


# When the agent looks at what its wardens should have ended.


def running() -> HostedIncarnation:
    """Whose warden and container live: this very process."""
    made = HostedIncarnation(
        Path("/nowhere/e1"),
        {"processor_id": "0", "sequence": 1, "store_directories": [], "stop_grace_s": 1.0},
    )
    me = procfs.name_of(os.getpid())
    assert me is not None
    made.warden = made.container = procfs.ProcessHandle(me)
    return made


@given(left_s=st.floats(-WARDEN_MARGIN_S, 3_600.0, exclude_min=True))
def test_the_second_killer_looks_within_one_look_of_its_margin(left_s: float) -> None:
    """However it slept before: `lease.bound.ms` of the coordinator counts on it."""
    live = [running()]
    while left_s > -WARDEN_MARGIN_S:
        left_s -= sleep_s(live, left_s, looked_at=0.0, now=0.0)
    assert left_s >= -(WARDEN_MARGIN_S + LOOK_AGAIN_S) - 1e-6


def test_a_deadline_that_passes_after_the_look_is_not_slept_over() -> None:
    """On a busy host a container that was due to be killed went on for five seconds more."""
    late = running()
    late.kill_at = 10.0
    assert sleep_s([late], None, looked_at=9.999, now=10.001) == 0.0


def test_a_deadline_that_was_acted_on_ends_no_sleep() -> None:
    """Else the agent would look without end at one that hangs in the kernel."""
    given_up = running()
    given_up.give_up_at = 10.0
    assert sleep_s([given_up], None, looked_at=10.0, now=10.001) > 1.0
