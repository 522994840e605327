"""How long a host's containers may live on: what a reply to its agent grants."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.cluster.host_book import HostBook


class Grants:
    """Leases in seconds, counted by an agent from when it asked.

    `longest_s` bounds every one of them; `source` gives what may be granted now.
    """

    def __init__(
        self, longest_s: float, source: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self._longest_s = longest_s
        self._source = source
        self._clock = clock

    def seconds(self, book: HostBook) -> float:
        """What the host gets with this reply; 0 or less is nothing.

        One that the coordinator may count as lost, and replace what ran there once the
        lease is over, gets no more than is left of that lease.
        """
        now = self._clock()
        if book.admitted:
            book.granted_at = now
            return min(self._source(), self._longest_s)
        return min(self._source(), book.granted_at + self._longest_s - now)
