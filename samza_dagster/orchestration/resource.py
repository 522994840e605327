"""The Dagster resource that opens a placement client when an op or a sensor first asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Self, cast

import dagster as dg
from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from samza_dagster.client import PlacementClient
from samza_dagster.client.access import JobAccess
from samza_dagster.client.group import known_jobs
from samza_dagster.configuration import configuration, described
from samza_dagster.errors import InvalidInput
from samza_dagster.interrupts import ignored_interrupts_come_again
from samza_dagster.metadata import job_owner
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.zookeeper import ZooKeeperAddress
from samza_dagster.model.naming import jobs_of
from samza_dagster.orchestration.config import LONGEST_APP_ID, LONGEST_APP_NAME
from samza_dagster.orchestration.names import PREFIX_PATTERN, asset_key
from samza_dagster.orchestration.requests.step_request import release
from samza_dagster.orchestration.tags import JOB, PARTITION, job_tag

# Among librdkafka's settings; `sasl.oauthbearer.token.endpoint.url` is none.
_SECRET = re.compile(
    r"password|passphrase|secret|jaas\.config|oauthbearer\.config|\.pem$|token$", re.IGNORECASE
)


def refuse_secrets(config: str, plain: Mapping[str, object]) -> None:
    """Raises `InvalidInput` for a secret among settings that the Dagster UI shows; `config` is their name."""
    for name in plain:
        if _SECRET.search(name):
            raise InvalidInput(
                f"{config} setting {name}",
                seen="a secret in plain config, which the Dagster UI shows",
                fix=f"{config}_env: {{{name}: NAME_OF_AN_ENVIRONMENT_VARIABLE}}",
            )


def settings_with_secrets(
    config: str, plain: Mapping[str, str], from_environment: Mapping[str, str]
) -> dict[str, str]:
    """The settings, the secret ones read from the environment now.

    Raises `InvalidInput` for a variable that isn't set.
    """
    settings = dict(plain)
    for name, variable in from_environment.items():
        value = os.environ.get(variable)
        if value is None:
            raise InvalidInput(
                f"{config}_env setting {name}",
                seen=f"environment variable {variable} is not set",
                fix=f"set {variable} where the code server and its runs start",
            )
        settings[name] = value
    return settings


class SamzaClientResource(dg.ConfigurableResource[object]):
    """Connection to a job's coordinator stream. No connection is made before first use.

    That of a component of several jobs (`jobs`) is, in a run, the one of the job that the run is
    about; `each` gives them all.
    """

    bootstrap_servers: str = Field(min_length=1, description=described("bootstrap_servers"))
    job_name: str = Field(
        default="",
        max_length=LONGEST_APP_NAME,
        description=f"{described('job_name')} Empty: several, as `jobs` says.",
    )
    job_id: str = Field(
        default="1", min_length=1, max_length=LONGEST_APP_ID, description=described("job_id")
    )
    jobs: list[str] = Field(
        default=[],
        description="The component's Samza jobs, each as <name>/<id>, or patterns of these.",
    )
    client_config: dict[str, str] = Field(
        default={},
        description="More librdkafka settings (security.protocol, ssl.ca.location, …), no secrets.",
    )
    client_config_env: dict[str, str] = Field(
        default={},
        description="librdkafka setting → environment variable that holds its (secret) value.",
    )
    yarn_resource_manager: str = Field(
        default="",
        description=f"{described('yarn_resource_manager')} Empty: neither.",
    )
    zookeeper: str = Field(
        default="",
        description=f"{described('zookeeper')} Empty: the job runs in a cluster.",
    )
    zookeeper_config: dict[str, str] = Field(
        default={},
        description="How to log in at ZooKeeper (security.protocol, sasl.username, ssl.ca.location, …),"
        " no secrets.",
    )
    zookeeper_config_env: dict[str, str] = Field(
        default={},
        description="Setting of zookeeper_config → environment variable that holds its (secret) value.",
    )
    whole_processors: bool = Field(
        default=False,
        description="Of a standalone job: its processors are asked for, which restart with all their"
        " tasks, and not its tasks, which are moved.",
    )
    hosts: list[str] = Field(
        default=[],
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

    @field_validator("client_config", "zookeeper_config")
    @classmethod
    def _without_secrets(cls, plain: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        """No `ValueError`: Pydantic's own error would show the value."""
        refuse_secrets(str(info.field_name), plain)
        return plain

    _client: PlacementClient | None = PrivateAttr(default=None)
    _holds: dict[str, str] = PrivateAttr(default_factory=dict[str, str])
    _asked: str = PrivateAttr(default="")

    @property
    def is_several(self) -> bool:
        """Return whether it serves several Samza jobs, and none of them yet."""
        return bool(self.jobs) and not self.job_name

    @property
    def job(self) -> str:
        """`<name>/<id>`. Raises `InvalidInput` where it isn't known which of several."""
        if self.job_name:
            return f"{self.job_name}/{self.job_id}"
        raise InvalidInput(
            "one Samza job of the component",
            seen=f"{self._asked}, which isn't one of it" if self._asked else "none was chosen",
            fix=f"choose its partition in the Launchpad, or tag {JOB}:"
            f" {job_tag('<name>/<id>', self.prefix)}, one of {', '.join(self.jobs)}",
        )

    @property
    def tag(self) -> str:
        """Value of tag `samza/job`."""
        return job_tag(self.job, self.prefix)

    @property
    def partition(self) -> str | None:
        """The job's partition of the component's assets; None where they are of one job alone."""
        return self.tag if self.jobs else None

    def asset_key(self, asset: str) -> dg.AssetKey:
        """The key of one of the component's assets."""
        return asset_key(self.prefix, asset)

    def records_of(self, asset: str) -> dg.AssetKey | dg.AssetRecordsFilter:
        """Return the filter of an asset's events: those of this job."""
        key, partition = self.asset_key(asset), self.partition
        return key if partition is None else dg.AssetRecordsFilter(key, [partition])

    def settings(self) -> dict[str, str]:
        """librdkafka settings beside the bootstrap servers; secrets from the environment.

        Where it has none of its own, those of the file that the configuration names.
        """
        own = settings_with_secrets("client_config", self.client_config, self.client_config_env)
        return own or configuration().client_settings()

    def zookeeper_settings(self) -> dict[str, str]:
        """How to log in at ZooKeeper; as `settings`."""
        plain, from_environment = self.zookeeper_config, self.zookeeper_config_env
        own = settings_with_secrets("zookeeper_config", plain, from_environment)
        return own or configuration().zookeeper_settings()

    def connection(self) -> Connection:
        """The connection that clients and snapshots are made with. Raises `InvalidInput`."""
        name, _, job_id = self.job.partition("/")
        return Connection(
            bootstrap_servers=self.bootstrap_servers,
            job_name=name,
            job_id=job_id,
            client_config=self.settings(),
            yarn_resource_manager=self.yarn_resource_manager,
            zookeeper=self.zookeeper,
            zookeeper_config=self.zookeeper_settings(),
        )

    def each(self) -> list[Self]:
        """Return a resource for each of its Samza jobs, those of patterns as Kafka has them now.

        Raises `Unreachable`.
        """
        if not self.is_several:
            return [self]
        return [self.of(job) for job in jobs_of(self.jobs, self.deployed_jobs)]

    def deployed_jobs(self) -> list[str]:
        """The jobs that have a coordinator stream, or a group, each as `<name>/<id>`. Raises `Unreachable`."""
        if self.zookeeper:
            settings = self.zookeeper_settings()
            return known_jobs(ZooKeeperAddress(self.zookeeper, settings=settings))
        return job_owner.deployed_jobs(self.bootstrap_servers, self.settings())

    def of(self, job: str) -> Self:
        """Return the resource of one of its jobs, `<name>/<id>`."""
        name, _, job_id = job.partition("/")
        return self._with(job_name=name, job_id=job_id)

    def of_processors(self) -> Self:
        """Return the resource of the same jobs that restarts whole processors."""
        return self._with(whole_processors=True)

    def _with(self, **changes: Any) -> Self:
        fields: dict[str, Any] = {one: getattr(self, one) for one in type(self).model_fields}
        fields |= changes
        return type(self)(**fields)

    def of_run(self, run: dg.DagsterRun | None) -> Self:
        """Return the resource of a run's job, by its tag `samza/job`, else by its partition.

        Where neither is one of the component's it is of several still, and refuses to be asked.
        """
        return (
            self if run is None else self.of_key(run.tags.get(JOB) or run.tags.get(PARTITION, ""))
        )

    def of_key(self, key: str) -> Self:
        """Return the resource as `of_run`, by a partition's key or a value of tag `samza/job`."""
        if not self.is_several:
            return self
        self._asked = key
        parts = key.removeprefix(f"{self.prefix}/" if self.prefix else "").split("/")
        job = "/".join(parts[:2])
        if len(parts) > 1 and any(fnmatchcase(job, one) for one in self.jobs):
            return self.of(job)
        return self

    def open_client(self) -> PlacementClient:
        """Return a new client, which the caller closes. Raises `Unreachable`."""
        access = JobAccess.of(self.connection(), self.hosts)
        return PlacementClient(replace(access, whole_processors=self.whole_processors))

    @property
    def client(self) -> PlacementClient:
        """The run's client, opened on first use and closed with the run."""
        if self._client is None:
            self._client = self.open_client()
            self._client.prepare()  # a run that opens one is about to place
        return self._client

    @property
    def holds(self) -> dict[str, str]:
        """Reservations of this run that aren't committed: request → uuid of its release."""
        return self._holds

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Self]:
        """Yield the resource of a run or a tick; a run's gives back what it holds, and closes its client.

        A run that is cancelled ends, whatever it was at.
        """
        ignored_interrupts_come_again()
        given = self.of_run(context.run)
        try:
            yield given
        finally:
            given.teardown_after_execution(context)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Gives back what the run holds and closes its client, if one was opened."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            for reservation, uuid in self._holds.items():
                released = release(client, reservation, uuid)
                if context.log is not None:
                    context.log.warning(
                        f"the run ended before its commit: {released}", extra={"request": uuid}
                    )
        finally:
            self._holds.clear()
            client.close()


def settled(made: object) -> object:
    """The resource with its config as it is: a form of the Launchpad doesn't ask for it again."""
    if not isinstance(made, dg.ConfigurableResource):
        return made
    resource = cast("dg.ConfigurableResource[object]", made)
    config: dict[str, Any] = {name: getattr(resource, name) for name in type(resource).model_fields}
    given = {name: value for name, value in config.items() if value is not None}
    return resource.get_resource_definition().configured(given)
