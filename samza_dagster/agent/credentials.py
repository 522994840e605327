"""The job's token: alone in a file, or a secret of the Hadoop credentials of a container of YARN.

Hadoop's file has the magic `HDTS` and a version, then as version 0 a count of tokens and a count
of secrets with their aliases. Counts and lengths are Hadoop's variable-length numbers
(`WritableUtils.writeVLong`). Version 1, a protocol buffer, isn't read.
"""

from __future__ import annotations

import io
from pathlib import Path

ALIAS = b"samza-dagster.token"
_MAGIC = b"HDTS"


def read_token(path: Path) -> str:
    """Return the token. Raises `ValueError` for credentials that can't be read, and `OSError`."""
    content = path.read_bytes()
    if content.startswith(_MAGIC):
        try:
            content = _secret(io.BytesIO(content[len(_MAGIC) :]))
        except ValueError as error:
            raise ValueError("{}: {}".format(path, error)) from None
    return content.decode("utf-8").strip()


def _secret(rest: io.BytesIO) -> bytes:
    if rest.read(1) != b"\0":
        raise ValueError("only version 0 of Hadoop's credentials (writable) is understood")
    for _ in range(_number(rest)):
        # Alias; then of the token identifier, password, kind and service.
        for _ in range(5):
            _block(rest)
    secrets = {_block(rest): _block(rest) for _ in range(_number(rest))}
    if ALIAS not in secrets:
        raise ValueError("no secret {} in it".format(ALIAS.decode("ascii")))
    return secrets[ALIAS]


def _block(rest: io.BytesIO) -> bytes:
    length = _number(rest)
    block = rest.read(max(0, length))
    if len(block) != length:
        raise ValueError("it ends too early, or a length in it is wrong")
    return block


def _number(rest: io.BytesIO) -> int:
    """Read one byte, or from -113 down as many as that says."""
    first = int.from_bytes(rest.read(1), "big", signed=True)
    return first if first >= -112 else int.from_bytes(rest.read(-first - 112), "big")
