"""Rights at the sandbox's broker: the coordinator has all, containers have the job's topics.

Clients on this machine without a login have all rights too (`broker.py`): a sandbox is open to
every account of the machine. A container knows only the other listener.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.metadata.authorizer import ALLOW, USER, AclRule, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import ADMIN, MECHANISM
from samza_dagster.sandbox.brokers import Brokers
from samza_dagster.sandbox.demo_job import BrokerLogins

RIGHTS_OF = f"{USER}{demo_job.JOB_NAME}"
"""Never logs in: each container gets a copy of its rules."""


@dataclass(frozen=True)
class LoginFiles:
    """Secrets of one sandbox, readable by the owner alone."""

    directory: Path

    @property
    def client_config(self) -> Path:
        """Return the file of the coordinator's login, for `SAMZA_DAGSTER_CLIENT_CONFIG`."""
        return self.directory / "client.properties"

    @property
    def secret(self) -> Path:
        """Return the file of the secret from which the containers' passwords are derived."""
        return self.directory / "fencing.secret"

    def create(self, broker: Broker | Brokers) -> BrokerLogins:
        """Create the coordinator's login and the containers' rights; return them for the config."""
        password = secrets.token_urlsafe(32)
        with closing(Authorizer(KafkaCluster(broker.bootstrap_servers))) as authorizer:
            authorizer.set_login(ADMIN, password, MECHANISM)
            authorizer.add_rules(_container_rights(broker.bootstrap_servers))
        self.write(password, secrets.token_urlsafe(32))
        return BrokerLogins(broker.job_servers, MECHANISM, RIGHTS_OF, self.secret)

    def write(self, password: str, secret: str) -> None:
        """Write the coordinator's password at the broker, and the containers' secret."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(
            self.client_config,
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={MECHANISM}\nsasl.username={ADMIN}\nsasl.password={password}\n",
        )
        _write(self.secret, secret)


def _container_rights(servers: str) -> list[AclRule]:
    """Return read and write rights on the job's topics, without our own state and audit topics."""
    return [
        AclRule(RIGHTS_OF, ALLOW, operation, "TOPIC", topic.name)
        for topic in (*demo_job.streams(), *demo_job.made_topics(servers))
        for operation in ("READ", "WRITE")
    ]


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
