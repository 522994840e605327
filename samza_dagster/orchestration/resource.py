"""The Dagster resource that opens a placement client when an op or a sensor first asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr, field_validator

from samza_dagster.errors import InvalidInput
from samza_dagster.interrupts import ignored_interrupts_come_again
from samza_dagster.orchestration.asking import release
from samza_dagster.orchestration.config import LONGEST_APP_ID, LONGEST_APP_NAME
from samza_dagster.orchestration.names import PREFIX_PATTERN, asset_key

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.metadata.connection import Connection

# Among librdkafka's settings; `sasl.oauthbearer.token.endpoint.url` is none.
_SECRET = re.compile(
    r"password|passphrase|secret|jaas\.config|oauthbearer\.config|\.pem$|token$", re.IGNORECASE
)


def refuse_secrets(plain: Mapping[str, object]) -> None:
    """Raises `InvalidInput` for a secret among settings that the Dagster UI shows."""
    for name in plain:
        if _SECRET.search(name):
            raise InvalidInput(
                f"client_config setting {name}",
                seen="a secret in plain config, which the Dagster UI shows",
                fix=f"client_config_env: {{{name}: NAME_OF_AN_ENVIRONMENT_VARIABLE}}",
            )


def client_settings(
    plain: Mapping[str, str], from_environment: Mapping[str, str]
) -> dict[str, str]:
    """librdkafka settings, the secret ones read from the environment now.

    Raises `InvalidInput` for a variable that isn't set.
    """
    settings = dict(plain)
    for name, variable in from_environment.items():
        value = os.environ.get(variable)
        if value is None:
            raise InvalidInput(
                f"client_config_env setting {name}",
                seen=f"environment variable {variable} is not set",
                fix=f"set {variable} where the code server and its runs start",
            )
        settings[name] = value
    return settings


class SamzaClientResource(dg.ConfigurableResource[object]):
    """Connection to one job's coordinator stream. No connection is made before first use."""

    bootstrap_servers: str = Field(
        min_length=1, description="Kafka bootstrap servers, host:port, comma-separated."
    )
    job_name: str = Field(
        min_length=1, max_length=LONGEST_APP_NAME, description="job.name of the Samza job."
    )
    job_id: str = Field(
        default="1", min_length=1, max_length=LONGEST_APP_ID, description="job.id of the Samza job."
    )
    client_config: dict[str, str] = Field(
        default_factory=dict,
        description="More librdkafka settings (security.protocol, ssl.ca.location, …), no secrets.",
    )
    client_config_env: dict[str, str] = Field(
        default_factory=dict,
        description="librdkafka setting → environment variable that holds its (secret) value.",
    )
    yarn_resource_manager: str = Field(
        default="",
        description="YARN's web address (http://host:8088; several with commas), where Samza's own"
        " AM runs the job: its nodes and its word on the job are asked for. Empty: neither.",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="The only hosts that a job of this component sends a standby to or starts one"
        " on; empty: any host of the job. The coordinator isn't bound where it chooses by itself:"
        " the standby of fail_over, and what it starts anew after a failure or a lost host."
        " Where Samza's own AM runs the job, and YARN isn't asked, they count as known, whether or"
        " not a container was there before.",
    )
    prefix: str = Field(
        default="",
        pattern=PREFIX_PATTERN,
        description="Prefix of the job's asset keys, where a code location has several jobs.",
    )

    @field_validator("client_config")
    @classmethod
    def _without_secrets(cls, plain: dict[str, str]) -> dict[str, str]:
        """No `ValueError`: Pydantic's own error would show the value."""
        refuse_secrets(plain)
        return plain

    _client: PlacementClient | None = PrivateAttr(default=None)
    _holds: dict[str, str] = PrivateAttr(default_factory=dict[str, str])

    @property
    def job(self) -> str:
        """`<name>/<id>`."""
        return f"{self.job_name}/{self.job_id}"

    def asset_key(self, asset: str) -> dg.AssetKey:
        """The key of one of the job's assets."""
        return asset_key(self.prefix, asset)

    def settings(self) -> dict[str, str]:
        """librdkafka settings beside the bootstrap servers; secrets from the environment."""
        return client_settings(self.client_config, self.client_config_env)

    def connection(self) -> Connection:
        """The connection that clients and snapshots are made with. Raises `InvalidInput`."""
        from samza_dagster.metadata.connection import Connection

        return Connection(
            bootstrap_servers=self.bootstrap_servers,
            job_name=self.job_name,
            job_id=self.job_id,
            client_config=self.settings(),
            yarn_resource_manager=self.yarn_resource_manager,
        )

    def open_client(self) -> PlacementClient:
        """A new client; whoever calls this closes it. Raises `Unreachable`."""
        from samza_dagster.client import PlacementClient
        from samza_dagster.client.access import JobAccess

        return PlacementClient(JobAccess.of(self.connection(), self.hosts))

    @property
    def client(self) -> PlacementClient:
        """The run's client, opened on first use and closed with the run."""
        if self._client is None:
            self._client = self.open_client()
            self._client.prepare()  # a run that opens one is about to place
        return self._client

    @property
    def holds(self) -> dict[str, str]:
        """What this run has reserved and not committed: request → uuid of its release."""
        return self._holds

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """A run that is cancelled ends, whatever it was at."""
        ignored_interrupts_come_again()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Gives back what the run holds and closes its client, if one was opened."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            for reservation, uuid in self._holds.items():
                told = release(client, reservation, uuid)
                if context.log is not None:
                    context.log.warning(f"the run ended before its commit: {told}")
        finally:
            self._holds.clear()
            client.close()
