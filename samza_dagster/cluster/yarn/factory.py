"""Opens the cluster of each term on YARN: `coordinator run --cluster yarn`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from samza_dagster.cluster.agent_gateway import listening
from samza_dagster.cluster.interface import ClusterTerm
from samza_dagster.cluster.local import LocalCluster
from samza_dagster.cluster.yarn.application import YarnApplication
from samza_dagster.cluster.yarn.gateway import HadoopGateway
from samza_dagster.cluster.yarn.hosts import YarnHosts, YarnSettings
from samza_dagster.cluster.yarn.session import Session, SessionStore

_ASKS_OF_A_TERM = 1 << 32


@dataclass(frozen=True)
class YarnAgents:
    """Implements `ClusterFactory`: an agent on each node, which YARN starts, calls the coordinator.

    `configuration` is Hadoop's directory of settings, `session_directory` where successive leaders
    find the application, "" for the user's home in Hadoop's file system.
    """

    configuration: Path
    settings: YarnSettings
    listen: tuple[str, int]
    session_directory: str = ""

    def require(self, *, beside: tuple[str, str] | None = None) -> None:
        """See `ClusterFactory`."""
        gateway = HadoopGateway(self.configuration)
        try:
            YarnApplication(gateway).require(self.settings.queue, self.settings.label)
            self._store(gateway).read()
        finally:
            gateway.close()

    @contextmanager
    def prepared(self, within_s: float = 0.0) -> Generator[Callable[[ClusterTerm], LocalCluster]]:
        """See `ClusterFactory`: the JVM runs before the term begins."""
        gateway = HadoopGateway(self.configuration)
        try:
            with closing(listening(self.listen, within_s)) as listen:

                def opened(term: ClusterTerm) -> LocalCluster:
                    session = self._store(gateway).read() or Session()
                    hosts = YarnHosts(
                        self.settings,
                        session,
                        gateway=gateway,
                        open_gateway=partial(HadoopGateway, self.configuration),
                        open_store=self._store,
                        first_ask=term.epoch * _ASKS_OF_A_TERM,
                    )
                    return LocalCluster(
                        term, listen=listen, token=session.agents_token, holds=hosts
                    )

                yield opened
        finally:
            gateway.close()

    def _store(self, gateway: HadoopGateway) -> SessionStore:
        return SessionStore(gateway, self.session_directory, self.settings.job)
