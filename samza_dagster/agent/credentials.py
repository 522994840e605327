"""Secrets of a Hadoop credentials file, as a container of YARN finds it at `$HADOOP_TOKEN_FILE_LOCATION`.

The file has the magic `HDTS` and a version, then what `Credentials.writeTokenStorageToStream`
of Hadoop writes as version 0: a count of tokens, each with its alias, and a count of secrets,
each with its alias. Counts and lengths are Hadoop's variable-length numbers
(`WritableUtils.writeVLong`). Version 1, a protocol buffer, isn't read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict

_MAGIC = b"HDTS"
_WRITABLE = 0


class CredentialsError(ValueError):
    """A credentials file that can't be used; its text says which and why."""


def secret(path: Path, alias: str) -> str:
    """Return the secret that the file has under `alias`, as text.

    Raises `CredentialsError` for a file of another format or without it, and `OSError`.
    """
    try:
        found = secrets(path.read_bytes())
    except CredentialsError as error:
        raise CredentialsError("{}: {}".format(path, error)) from None
    if alias not in found:
        raise CredentialsError("{}: no secret {!r} in it".format(path, alias))
    try:
        return found[alias].decode("utf-8").strip()
    except UnicodeDecodeError:
        raise CredentialsError("{}: secret {!r} is no text".format(path, alias)) from None


def secrets(content: bytes) -> Dict[str, bytes]:
    """Return alias → secret. Raises `CredentialsError`."""
    reader = _Reader(content)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise CredentialsError("no credentials of Hadoop: it doesn't begin with HDTS")
    version = reader.take(1)[0]
    if version != _WRITABLE:
        raise CredentialsError(
            "version {} isn't understood, only {} (writable)".format(version, _WRITABLE)
        )
    for _ in range(reader.number()):
        # Alias; then of the token identifier, password, kind and service.
        for _ in range(5):
            reader.block()
    return {
        reader.block().decode("utf-8", "replace"): reader.block() for _ in range(reader.number())
    }


class _Reader:
    """What is left to read of a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._content):
            raise CredentialsError("it ends too early, or a length in it is wrong")
        taken = self._content[self._at : end]
        self._at = end
        return taken

    def block(self) -> bytes:
        return self.take(self.number())

    def number(self) -> int:
        """As `WritableUtils.readVLong`: one byte from -112 on, else how many follow."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        is_negative = first < -120
        value = int.from_bytes(self.take(-first - (120 if is_negative else 112)), "big")
        return ~value if is_negative else value
