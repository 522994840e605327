"""A quota of consumers by their client id, a whole one for each principal, set by one request over a socket.

confluent_kafka has no call for it, and Kafka's own tool is a JVM, which takes seconds of what is
measured beside it.
"""

from __future__ import annotations

import struct

from tests.rig.reassignment import ask

_ALTER_CLIENT_QUOTAS, _VERSION = 49, 0
_RATE = "consumer_byte_rate"
_NO_ERROR = 0
_EVERYBODY = struct.pack(">h", -1)
"""No name: each user has the quota for itself."""


def limit_consumers(servers: str, client_id: str, bytes_a_second: float | None) -> None:
    """From now on those of one principal get so much together; None: as much as there is.

    Raises `OSError` without a broker, `ValueError` with its words when it refuses.
    """
    removed = bytes_a_second is None
    body = b"".join(
        (
            *(struct.pack(">i", 1), struct.pack(">i", 2), _text("user"), _EVERYBODY),
            *(_text("client-id"), _text(client_id)),
            *(struct.pack(">i", 1), _text(_RATE)),
            struct.pack(">d?", 0.0 if bytes_a_second is None else bytes_a_second, removed),
            struct.pack(">?", False),  # not only tried
        )
    )
    header = struct.pack(">hhi", _ALTER_CLIENT_QUOTAS, _VERSION, 1) + _text("benchmark")
    told = ask(servers.partition(",")[0], header + body)
    _correlation, _throttled_ms, _entries, error = struct.unpack_from(">iiih", told)
    if error != _NO_ERROR:
        (size,) = struct.unpack_from(">h", told, 14)
        words = told[16 : 16 + max(0, size)].decode(errors="replace")
        raise ValueError(f"no quota for {client_id}: error {error} {words}")


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded
