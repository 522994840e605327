"""Carries TCP connections into and out of a network namespace, over unix sockets.

A unix socket belongs to no network namespace: a relay inside has one end of each connection, and
a relay outside has the other. `relay.py [--loopback] LISTEN=CONNECT …`, each side `host:port` or
the path of a socket. `--loopback` brings the namespace's loopback up first; `ready` is printed
when all listen. Standard library only, as it runs by its path.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_PIECE = 1 << 18


def _loopback_up() -> None:
    """Set loopback up, as `ip link set lo up` does; a new network namespace has it down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", answer, 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def _serve(pair: str) -> None:
    listen, connect = pair.split("=")

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if connect.startswith("/"):
                there = await asyncio.open_unix_connection(connect)
            else:
                host, _, port = connect.rpartition(":")
                there = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()  # as a refused connection, a moment later
            return
        await asyncio.gather(_carry(reader, there[1]), _carry(there[0], writer))
        for each in (writer, there[1]):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()

    if listen.startswith("/"):
        await asyncio.start_unix_server(accepted, listen)
    else:
        host, _, port = listen.rpartition(":")
        await asyncio.start_server(accepted, host, int(port))


async def _main(arguments: list[str]) -> None:
    if "--loopback" in arguments:
        _loopback_up()
    for pair in arguments:
        if pair != "--loopback":
            await _serve(pair)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
