"""What agents that live and their coordinator send each other, held back one way or both.

Each agent reads the coordinator's URL from a file of its own. That is a link to the
coordinator's; while the host is cut off it is one to a proxy's, and an agent that sees the
URL change connects there at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.rig.proxy import REPLIES, WORDS, Proxy


class Held(NamedTuple):
    """Whose link to its server a fault holds, and which ways."""

    whom: str
    ways: tuple[str, ...]


HELD: Mapping[str, Held] = {
    f"{how} {whom}": Held(whom, ways)
    for how, ways in (("cut off", (WORDS, REPLIES)), ("deafen", (REPLIES,)), ("mute", (WORDS,)))
    for whom in ("agent", "coordinator", "container")
}
"""By the kind. What is held arrives late, when the link is mended, as with TCP."""


class CutLinks:
    """Of hosts by name; `directories` hold their files. `url` is the coordinator's URL file."""

    def __init__(self, url: Path, directories: Mapping[str, Path]) -> None:
        self._url = url
        self._directories = directories
        self._proxies: dict[str, Proxy] = {}
        for host in directories:
            self._lead(host, url)

    def url_file(self, host: str) -> Path:
        """What the host's agent has to be started with."""
        return self._directories[host] / "coordinator-at"

    def cut(self, host: str, ways: Iterable[str]) -> None:
        """Its agent's next words, the coordinator's next replies, or both don't arrive."""
        proxied = self._directories[host] / "proxy.url"
        if host not in self._proxies:
            self._proxies[host] = Proxy.of_urls(proxied, self._url)
        for way in ways:
            self._proxies[host].hold(way)
        self._lead(host, proxied)

    def mend(self, host: str) -> None:
        """What was held arrives; then the agent finds the coordinator itself again."""
        self._proxies[host].heal()
        self._lead(host, self._url)

    def heal(self) -> None:
        """Every link."""
        for host in self._proxies:
            self.mend(host)

    def close(self) -> None:
        """Heals, and ends all that goes through a proxy."""
        self.heal()
        for proxy in self._proxies.values():
            proxy.close()

    def _lead(self, host: str, to: Path) -> None:
        file = self.url_file(host)
        beside = file.with_name("coordinator-at.new")
        beside.unlink(missing_ok=True)
        beside.symlink_to(to.absolute())
        beside.replace(file)
