"""Records that nobody should have written into a metrics topic, each of a known kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.rig.fleets.fleet import BEGAN_MS

_YEAR_MS = 365 * 86_400_000
_HUGE_BYTES = 900_000  # a broker takes 1 MB


@dataclass(frozen=True)
class Spoiled:
    """`kind` is what is wrong with it; `is_readable`: a reader finds a standby's report in it."""

    kind: str
    at_ms: int
    value: bytes
    is_readable: bool = False


def spoiled(job: str, task: str, host: str) -> Iterator[Spoiled]:
    """One of each kind, in the name of a standby's task."""
    source = f"TaskName-{task}"
    header = f'"job-name":"{job}","job-id":"1","source":"{source}","host":"{host}"'
    yield Spoiled("no JSON", BEGAN_MS, f'"{source}" was here'.encode())
    yield Spoiled("cut off", BEGAN_MS, f'{{"header":{{{header},"time":{BEGAN_MS}}},"metr'.encode())
    yield Spoiled("no UTF-8", BEGAN_MS, b'{"header":{"source":"' + source.encode() + b"\xff\xfe")
    yield Spoiled("a list", BEGAN_MS, f'["{source}"]'.encode())
    yield Spoiled("no header", BEGAN_MS, f'{{"metrics":{{"{source}":{{}}}}}}'.encode())
    yield Spoiled("huge", BEGAN_MS, f'{{"{source}":"'.encode() + b"x" * _HUGE_BYTES + b'"}')
    of_another_host = header.replace(f'"{host}"', f'"{host}-of-the-future"')
    snapshot = f'{{"header":{{{of_another_host},"time":{BEGAN_MS + _YEAR_MS},"version":"9.9.9"}},"metrics":{{}}}}'
    yield Spoiled("future-dated", BEGAN_MS + _YEAR_MS, snapshot.encode(), is_readable=True)
