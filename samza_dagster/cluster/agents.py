"""The cluster that our own agents make: where they find their coordinator, and by which token."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from samza_dagster.cluster.agent_gateway import listening
from samza_dagster.cluster.interface import ClusterTerm
from samza_dagster.cluster.local import LocalCluster, require_url_file


@dataclass(frozen=True)
class LocalAgents:
    """Implements `ClusterFactory`: agents read the coordinator's URL from a file, and call it there."""

    url_file: Path
    token: str = field(repr=False)
    listen: tuple[str, int] = ("127.0.0.1", 0)

    def require(self, *, beside: tuple[str, str] | None = None) -> None:
        """See `ClusterFactory`; the URL file stays as it is."""
        if beside is not None:
            host, url = beside
            # Of one machine the two may have one address, which is free when the leader is gone.
            its_own = not url or url.endswith(f":{self.listen[1]}")
            if host != socket.gethostname() or not its_own:
                listening(self.listen).close()
        require_url_file(self.url_file)

    @contextmanager
    def prepared(self, within_s: float = 0.0) -> Generator[Callable[[ClusterTerm], LocalCluster]]:
        """See `ClusterFactory`: who connects from now on waits until the cluster starts."""
        with closing(listening(self.listen, within_s)) as listen:
            yield lambda term: LocalCluster(
                term, listen=listen, token=self.token, url_file=self.url_file
            )
