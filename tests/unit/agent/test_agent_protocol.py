"""What the agent takes from a coordinator, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.agent.parking import digest
from samza_dagster.agent.protocol import REFUSED, Command, ProtocolError, parse_reply

pytestmark = pytest.mark.unit

LAUNCH: dict[str, Any] = {
    "execution_id": "0_7",
    "processor_id": "0",
    "command": ["java", "-cp", "{agent_dir}"],
    "environment": {"A": "b"},
    "job_model_json": "{}",
    "store_directories": ["job-1/store/Partition_0"],
    "stop_grace_s": 20,
}

BARE = {key: value for key, value in LAUNCH.items() if key != "job_model_json"}
"""Without its JobModel, as only a reservation may bring it."""


def reply(*commands: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": 1, "epoch": 3, "lease_ms": 1500, "commands": list(commands), **fields}


def start(**changed: Any) -> dict[str, Any]:
    return {"id": "c1", "kind": "start", "request_id": "r1", "launch": {**LAUNCH, **changed}}


def only(command: dict[str, Any]) -> Command:
    return parse_reply(reply(command)).commands[0]


def test_a_reply_is_read() -> None:
    """Epoch, lease in seconds, commands in order, locality."""
    read = parse_reply(
        reply(
            {"id": "1", "kind": "reserve", "request_id": "r", "memory_mb": 5, "cores": 1},
            {"id": "2", "kind": "release", "request_id": "r"},
            {"id": "3", "kind": "stop", "execution_id": "0_7"},
            {"id": "4", "kind": "forget", "execution_id": "0_7"},
            start(),
            locality={"0": "host-1"},
        )
    )
    assert (read.epoch, read.lease_s, read.locality) == (3, 1.5, {"0": "host-1"})
    assert [c.kind for c in read.commands] == ["reserve", "release", "stop", "forget", "start"]
    launch = read.commands[4].launch
    assert launch is not None
    assert (launch.command, launch.store_directories) == (
        ("java", "-cp", "{agent_dir}"),
        ("job-1/store/Partition_0",),
    )


def test_a_command_may_say_what_lines_of_the_log_about_it_have() -> None:
    """Ids as texts; what is none is refused alone, and an earlier coordinator says nothing."""
    assert dict(only({**start(), "about": {"request": "u-1"}}).about) == {"request": "u-1"}
    assert only(start()).about == ()
    assert only({**start(), "about": {"request": 1}}).kind == REFUSED


def test_a_reserve_may_name_a_hold() -> None:
    """The engine's id of a container; what could be a path is refused alone."""
    reserve = {"id": "1", "kind": "reserve", "request_id": "r", "memory_mb": 5, "cores": 1}
    name = "container_e17_1700000000001_0001_01_000002"
    assert only({**reserve, "hold": name}).hold == name
    assert only(reserve).hold is None
    assert only({**reserve, "hold": None}).hold is None
    assert only({**reserve, "hold": "../x"}).kind == REFUSED
    assert only({**reserve, "hold": 7}).kind == REFUSED


def test_fields_of_a_later_version_are_ignored() -> None:
    """One version forth and back is understood, two are not."""
    assert parse_reply(reply(news="x", version=2)).epoch == 3
    with pytest.raises(ProtocolError, match="version"):
        parse_reply(reply(version=3))
    with pytest.raises(ProtocolError, match="version"):
        parse_reply(reply(version="1"))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (start(execution_id="../../etc"), "execution_id"),
        (start(execution_id=".hidden"), "execution_id"),
        (start(command=[]), "a program"),
        (start(command="java -cp x"), "list of strings"),
        (start(command=["java", "a\0b"]), "NUL"),
        (start(environment={"A=B": "c"}), "environment"),
        (start(store_directories=["/etc"]), "below the state directory"),
        (start(store_directories=["a/../b"]), "below the state directory"),
        (start(stop_grace_s=-1), "stop_grace_s"),
        (start(job_model_json={}), "job_model_json"),
        ({**start(), "launch": BARE}, "job_model_json"),
        ({"id": "c1", "kind": "stop", "execution_id": "a/b"}, "execution_id"),
        (
            {"id": "c1", "kind": "reserve", "request_id": "r", "memory_mb": -1, "cores": 1},
            "memory_mb",
        ),
        ({"id": "c1", "kind": "dance"}, "none that version 1 knows"),
    ],
)
def test_a_command_that_cannot_be_used_is_refused_alone(command: dict[str, Any], why: str) -> None:
    """The lease that came with it still counts: one bad command must not end a host's containers."""
    read = parse_reply(reply(command, {"id": "c2", "kind": "stop", "execution_id": "0_7"}))
    assert (read.commands[0].id, read.commands[0].kind) == ("c1", REFUSED)
    assert why in read.commands[0].why
    assert read.commands[1].kind == "stop"
    assert read.lease_s == 1.5


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "x",
        {},
        reply(epoch=-1),
        reply(lease_ms="1"),
        {**reply(), "commands": {}},
        reply(locality=1),
    ],
)
def test_what_is_no_reply_is_an_error_and_nothing_else(value: Any) -> None:
    """Garbage from a port that somebody else has now."""
    with pytest.raises(ProtocolError):
        parse_reply(value)


def test_a_command_without_a_usable_id_spoils_the_reply() -> None:
    """It could never be acknowledged."""
    with pytest.raises(ProtocolError, match=r"commands\.id"):
        only({"kind": "stop", "execution_id": "0_7"})


def test_a_reservation_may_bring_the_launch_without_its_job_model() -> None:
    """The start brings that. A launch that can't be used parks nothing, and the resource is held."""
    reserve = {"id": "1", "kind": "reserve", "request_id": "r", "memory_mb": 5, "cores": 1}
    assert only(reserve).launch is None
    launch = only({**reserve, "launch": BARE}).launch
    assert launch is not None
    assert (launch.execution_id, launch.job_model_json) == ("0_7", "")
    broken = only({**reserve, "launch": {**BARE, "execution_id": "../x"}})
    assert (broken.kind, broken.memory_mb, broken.launch) == ("reserve", 5, None)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"job_model_json": "later"}, True),
        ({"environment": {"A": "c"}}, False),
        ({"command": ["java"]}, False),
        ({"files": {"login": "x"}}, False),
        ({"store_directories": ["job-1/store/Partition_1"]}, False),
        ({"stop_grace_s": 1}, False),
        ({"processor_id": "1"}, False),
    ],
)
def test_only_the_job_model_is_no_part_of_what_is_parked(
    changed: dict[str, Any], *, same: bool
) -> None:
    """A process that was made by anything else isn't the one that the start wants."""
    one, other = only(start()).launch, only(start(**changed)).launch
    assert one is not None
    assert other is not None
    assert (digest(one) == digest(other)) is same
