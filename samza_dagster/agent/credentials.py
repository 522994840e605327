"""The job's token: alone in a file, or in the Hadoop credentials of a YARN container."""

from __future__ import annotations

from pathlib import Path

_ALIAS = b"samza-dagster.token"
_MAGIC = b"HDTS"


def read_token(path: Path) -> str:
    """Return the token. Raises `ValueError` for credentials without it, and `OSError`.

    Only version 0 (writable) of credentials is read: a secret is its alias and its value, each
    behind its length, which is one byte up to 112.
    """
    content = path.read_bytes()
    if content.startswith(_MAGIC):
        before, _, behind = content.partition(bytes([len(_ALIAS)]) + _ALIAS)
        if not behind or before[len(_MAGIC)] != 0 or len(behind) <= behind[0]:
            text = "{}: no secret {} in it, in Hadoop's format of version 0"
            raise ValueError(text.format(path, _ALIAS.decode("ascii")))
        content = behind[1 : 1 + behind[0]]
    return content.decode("utf-8").strip()
