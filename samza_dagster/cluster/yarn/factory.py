"""Opens the cluster of each term on YARN: `coordinator run --cluster yarn`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager

from samza_dagster.cluster.agent_gateway import listening
from samza_dagster.cluster.interface import ClusterTerm
from samza_dagster.cluster.local import LocalCluster
from samza_dagster.cluster.yarn.advice import advice
from samza_dagster.cluster.yarn.application import YarnApplication
from samza_dagster.cluster.yarn.gateway import HadoopGateway
from samza_dagster.cluster.yarn.hosts import YarnHosts, YarnSettings
from samza_dagster.errors import InvalidInput

_ASKS_OF_A_TERM = 1 << 32


class YarnAgents:
    """Implements `ClusterFactory`: an agent on each node, which YARN starts, calls the coordinator."""

    def __init__(self, settings: YarnSettings, listen: tuple[str, int]) -> None:
        self._settings = settings
        self._listen = listen
        self._kept: HadoopGateway | None = None

    def require(self, *, beside: tuple[str, str] | None = None) -> None:
        """See `ClusterFactory`."""
        if not (self._settings.hadoop_conf / "yarn-site.xml").is_file():
            raise InvalidInput(
                f"--hadoop-conf {self._settings.hadoop_conf}",
                seen="no yarn-site.xml there",
                fix="the directory of the cluster's yarn-site.xml, as /etc/hadoop/conf",
            )
        gateway = self._gateway()
        YarnApplication(gateway).require(self._settings.queue, self._settings.node_label)
        self._settings.store(gateway).require()

    def advice(self, lease_s: float) -> Sequence[str]:
        """See `ClusterFactory`: by the settings of this machine's `yarn-site.xml`."""
        return tuple(advice(self._gateway().configuration.get, lease_s))

    def describe(self) -> Mapping[str, str]:
        """See `ClusterFactory`: by the ResourceManager."""
        return {node.host: node.describe() for node in YarnApplication(self._gateway()).nodes()}

    @contextmanager
    def prepare(self, within_s: float = 0.0) -> Generator[Callable[[ClusterTerm], LocalCluster]]:
        """See `ClusterFactory`: the JVM runs before the term begins."""
        with closing(listening(self._listen, within_s)) as listen:

            def opened(term: ClusterTerm) -> LocalCluster:
                hosts = YarnHosts(self._settings, self._gateway, term.epoch * _ASKS_OF_A_TERM)
                return LocalCluster(term, listen=listen, token=hosts.agents_token, holds=hosts)

            yield opened

    def _gateway(self) -> HadoopGateway:
        """Return the JVM that runs; replace it if it has ended."""
        if self._kept is None or not self._kept.is_alive:
            self._kept = HadoopGateway(self._settings.hadoop_conf)
        return self._kept
