"""A secret out of a credentials file, as Hadoop writes it for a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.agent.credentials import read_token

pytestmark = pytest.mark.unit

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
