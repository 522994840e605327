"""`SamzaJobComponent`: a Samza job in Dagster, or several, described in YAML."""

# No `from __future__ import annotations`: Dagster reads a component's annotations as types.

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import dagster as dg
import yaml
from dagster.components.resolved.errors import ResolutionException
from pydantic import ValidationError

from samza_dagster.configuration import configuration, described, variable
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.zookeeper_settings import check_settings
from samza_dagster.model.naming import is_pattern, with_ids
from samza_dagster.orchestration.assets.datasets import (
    snapshot_assets,
    snapshot_assets_job,
    snapshot_schedules,
)
from samza_dagster.orchestration.assets.fleet import fleet_job, fleet_overview
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
from samza_dagster.orchestration.bounce import (
    ScheduledBounce,
    bounce_history_spec,
    bounce_schedules,
)
from samza_dagster.orchestration.bounds import Text, text, text_of
from samza_dagster.orchestration.choices import choices_sensor, keys_of
from samza_dagster.orchestration.config import check_job_name
from samza_dagster.orchestration.history import (
    placement_history_spec,
    placement_responses_sensor,
)
from samza_dagster.orchestration.jobs import (
    BY_AUTO_FAILOVER,
    BY_OWN_REQUEST,
    BY_WHOLE_PROCESSOR,
    of_component,
    placement_jobs,
)
from samza_dagster.orchestration.names import PREFIX_PATTERN, named
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import (
    SamzaClientResource,
    refuse_secrets,
    settled,
)
from samza_dagster.orchestration.scaffold import SamzaJobScaffolder
from samza_dagster.orchestration.tags import ALL, job_tag, names_within
from samza_dagster.orchestration.watch.auto_failover import acknowledge_job, auto_failover_sensor
from samza_dagster.orchestration.watch.checks import (
    invariants_sensor,
    lag_slo_sensor,
    outside_checks,
)
from samza_dagster.orchestration.watch.settings import AutoFailover, Invariants, LagSlo

TYPE = "samza_dagster.SamzaJobComponent"


def _is(text: str) -> dg.Resolver:
    """Describe an attribute of the YAML."""
    return dg.Resolver.default(description=text)


def _of(name: str) -> dg.Resolver:
    """Describe an attribute as the resource's field of the same name."""
    return text(SamzaClientResource.model_fields[name].description)


_QUOTED = ' In quotes ("010") YAML makes no number of it.'


@dg.scaffold_with(SamzaJobScaffolder)
@dataclass
class SamzaJobComponent(dg.Component, dg.Resolvable):
    """The jobs, sensors and assets of one Samza job, or of several.

    Connection values missing in the YAML come from the environment and the configuration file, as for
    the commands. Any value may be `{{ env('NAME', 'default') }}`, and no secret belongs into the YAML.
    A pattern among `jobs` matches the jobs that have a coordinator stream in Kafka, or a group in
    ZooKeeper; a run's partition names its job. In a `standalone` deployment a task moves from location
    to location, and a processor is restarted. `build_defs` combines the results of the `build_*`
    methods; override any of them.
    """

    bootstrap_servers: Annotated[str, _is(described("bootstrap_servers"))] = ""
    app_name: Annotated[Text, text(described("job_name") + _QUOTED)] = ""
    app_id: Annotated[Text, text(described("job_id") + _QUOTED)] = ""
    jobs: Annotated[
        list[str],
        text(
            "Several Samza jobs of one cluster in place of app_name: <name>/<id>, or orders-*/*.",
            list[Text],
        ),
    ] = field(default_factory=list[str])
    client_config: Annotated[dict[str, str | int], _of("client_config")] = field(
        default_factory=dict[str, str | int]
    )
    client_config_env: Annotated[dict[str, str], _of("client_config_env")] = field(
        default_factory=dict[str, str]
    )
    hosts: Annotated[list[str], _of("hosts")] = field(default_factory=list[str])
    yarn_resource_manager: Annotated[str, _of("yarn_resource_manager")] = ""
    deployment: Annotated[
        Literal["cluster", "standalone"],
        _is("A cluster's coordinator runs the job, or ZooKeeper coordinates its processors."),
    ] = "cluster"
    zookeeper: Annotated[str, _of("zookeeper")] = ""
    zookeeper_config: Annotated[dict[str, str | int], _of("zookeeper_config")] = field(
        default_factory=dict[str, str | int]
    )
    zookeeper_config_env: Annotated[dict[str, str], _of("zookeeper_config_env")] = field(
        default_factory=dict[str, str]
    )
    policies: Annotated[
        PlacementPolicies, _is("Time-outs and limits of placement, and the sensors' intervals.")
    ] = field(default_factory=PlacementPolicies)
    auto_failover: Annotated[
        AutoFailover, _is("What sensor auto_failover takes for trouble, and whether it acts.")
    ] = field(default_factory=AutoFailover)
    lag_slo: Annotated[LagSlo, _is("How far replicas may be behind.")] = field(
        default_factory=LagSlo
    )
    invariants: Annotated[Invariants, _is("What sensor invariants checks.")] = field(
        default_factory=Invariants
    )
    bounces: Annotated[list[ScheduledBounce], _is("Rolling bounces by the clock.")] = field(
        default_factory=list[ScheduledBounce]
    )
    snapshots: Annotated[SnapshotStore, _is("Spark's looks at all of its jobs, by the clock.")] = (
        field(default_factory=SnapshotStore)
    )
    prefix: Annotated[
        str,
        text(
            "Begins the names of its jobs, sensors and assets, where a code location has several."
        ),
    ] = ""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a prefix that Dagster's names can't begin with, or a secret.

        Also for a name or an id of a job that is empty or too long.
        """
        refuse_secrets("client_config", self.client_config)
        refuse_secrets("zookeeper_config", self.zookeeper_config)
        self._read_names()
        self._fill()
        if bool(self.zookeeper) != self.is_standalone:
            raise InvalidInput(
                "the component's deployment",
                seen=f"deployment {self.deployment}, zookeeper {self.zookeeper!r}",
                fix="deployment: standalone with zookeeper: host:2181, or neither",
            )
        if self.zookeeper_config or self.zookeeper_config_env:
            plain = {name: str(value) for name, value in self.zookeeper_config.items()}
            check_settings({**plain, **self.zookeeper_config_env})
        if len(self.jobs) == 1 and not is_pattern(self.jobs[0]):
            self.app_name, _, self.app_id = self.jobs.pop().partition("/")
        for job in self.jobs or [self.job]:
            check_job_name(job)
        if not re.match(PREFIX_PATTERN, self.prefix):
            raise InvalidInput(
                f"prefix {self.prefix!r}",
                seen="Dagster's names have letters, digits and underscores",
                fix="a letter, then at most 39 of these",
            )

    def _read_names(self) -> None:
        """Names and ids of jobs as texts. Raises `InvalidInput`."""
        self.app_name = text_of(self.app_name, "app_name")
        self.app_id = text_of(self.app_id, "app_id")
        self.prefix = text_of(self.prefix, "prefix")
        if not isinstance(cast("object", self.jobs), list):
            raise InvalidInput(
                "jobs of the component", seen=repr(self.jobs), fix=f"jobs: [{self.jobs}]"
            )
        if self.jobs and (self.app_name or self.app_id):
            raise InvalidInput(
                "the component's Samza jobs",
                seen=f"app_name {self.app_name!r}, app_id {self.app_id!r}, and jobs",
                fix="app_name for one Samza job, jobs for several: <name>/<id>",
            )
        self.jobs = with_ids(text_of(job, "jobs") for job in self.jobs)

    def _fill(self) -> None:
        """Fill in what the YAML leaves out, by environment and configuration file.

        Raises `InvalidInput` when nothing names the brokers.
        """
        said = configuration(
            {
                "bootstrap_servers": self.bootstrap_servers,
                "yarn_resource_manager": self.yarn_resource_manager,
                "zookeeper": self.zookeeper,
            }
        ).value
        self.bootstrap_servers = said("bootstrap_servers")
        self.yarn_resource_manager = said("yarn_resource_manager")
        if self.is_standalone:
            self.zookeeper = said("zookeeper")
        if not self.jobs and not self.app_name:
            self.app_name, self.app_id = said("job_name"), self.app_id or said("job_id")
        self.app_id = self.app_id or "1"
        if not self.bootstrap_servers:
            raise InvalidInput(
                "bootstrap_servers of the component",
                seen=f"neither its YAML nor {variable('bootstrap_servers')} names them",
                fix="bootstrap_servers: host:9092",
            )

    @property
    def is_standalone(self) -> bool:
        """Its job is a group of standalone processors."""
        return self.deployment == "standalone"

    @property
    def job(self) -> str:
        """`<name>/<id>`; for several jobs `<digest>/*`, which matches each of them.

        The digest is of the brokers and the jobs in the YAML: an instance knows partitions by name, so
        each code location needs its own.
        """
        if not self.jobs:
            return f"{self.app_name}/{self.app_id}"
        named = "\n".join([self.bootstrap_servers, *self.jobs])
        return f"{sha256(named.encode()).hexdigest()[:8]}/{ALL}"

    @property
    def tag(self) -> str:
        """The value of tag `samza/job`, by which the job's runs differ from all others."""
        return job_tag(self.job, self.prefix)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what Dagster shows of this kind of component."""
        return dg.ComponentTypeSpec(tags=["samza", "kafka", "stream-processing"])

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """The component of a YAML file with `type` and `attributes`, as in a `defs.yaml`.

        Raises `InvalidInput` when the file describes another component, or an attribute
        is unknown or out of its bounds.
        """
        written = Path(path).read_text(encoding="utf-8")
        # Every run's start reads it: by libyaml, where PyYAML has that.
        fast = yaml.__with_libyaml__
        content: object = yaml.load(written, yaml.CSafeLoader) if fast else yaml.safe_load(written)
        document = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        if document.get("type") != TYPE or not isinstance(document.get("attributes"), dict):
            raise InvalidInput(
                f"a component in {path}",
                seen=f"type {document.get('type')!r}",
                fix=f"type: {TYPE}, and attributes",
            )
        if spare := sorted(document.keys() - {"type", "attributes"}):
            raise InvalidInput(
                f"a component in {path}",
                seen=f"{spare[0]}, which a defs.yaml of a Dagster project may have",
                fix="type and attributes alone, or a defs.yaml that Dagster loads",
            )
        as_texts: Any = (yaml.CBaseLoader if fast else yaml.BaseLoader)(written).get_single_data()
        names, texts = (_names(each["attributes"]) for each in (document, as_texts))
        for (of, read), (_, name) in zip(names, texts, strict=True):
            if isinstance(read, int) and name != str(read):
                raise InvalidInput(
                    f"{of} of the component",
                    seen=f"{name}, which YAML reads as {read}",
                    fix=f'quotes: "{name}"',
                )
        try:
            # Dagster's `resolve_from_dict` writes YAML of it and reads that again, by itself.
            model = cls.model()(**cast("dict[str, Any]", document["attributes"]))
            return cls.resolve_from_model(dg.ResolutionContext.default(), model)
        except ResolutionException as error:
            raise InvalidInput(
                f"the attributes of the component in {path}", seen=_innermost(str(error))
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(
                f"the attributes of the component in {path}", seen=f"{field}: {first['msg']}"
            ) from error

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """All definitions of the component."""
        return dg.Definitions(
            assets=self.build_assets(),
            jobs=self.build_jobs(),
            schedules=self.build_schedules(),
            sensors=self.build_sensors(),
            resources={
                named(self.prefix, name): settled(made) for name, made in self._resources.items()
            },
        )

    def build_jobs(self) -> list[Any]:
        """Placement jobs, those behind the sensors, and the job that takes a snapshot."""
        return [
            *self._jobs.values(),
            snapshot_assets_job(self.tag, self.prefix, self._snapshot_of),
            fleet_job(self.tag, self.prefix),
        ]

    def build_sensors(self) -> list[dg.SensorDefinition]:
        """Build the sensors that record outcomes, offer choices, and watch the jobs."""
        interval_s, running = self.policies.sensor_interval_s, self.policies.sensor_running
        tag, prefix = self.tag, self.prefix
        launched = [self._jobs[name] for name in BY_AUTO_FAILOVER if name in self._jobs]
        return [
            placement_responses_sensor(
                interval_s, running=running, no_end_s=self.policies.timeout_s, prefix=prefix
            ),
            choices_sensor(tag, max(30, interval_s), running=running, prefix=prefix),
            auto_failover_sensor(self.auto_failover, self.policies, launched, prefix),
            lag_slo_sensor(self.lag_slo, self.policies, prefix),
            invariants_sensor(self.invariants, self.policies, prefix),
        ]

    @cached_property
    def _jobs(self) -> dict[str, dg.JobDefinition]:
        """Each by its name without a prefix, made once: a sensor launches the very definition.

        Without those that a standalone group can't serve.
        """
        samza = self._resources.get("samza")
        return {
            job.name: of_component(job, self.tag, self.prefix, self._resources_of(job.name), samza)
            for job in (*placement_jobs(self.tag), acknowledge_job(self.tag))
            if not (self.is_standalone and job.name in BY_OWN_REQUEST)
        }

    def _resources_of(self, job: str) -> dict[str, Any]:
        """The resources that a job has for itself; all others are the code location's."""
        if self.is_standalone and job in BY_WHOLE_PROCESSOR:
            samza: SamzaClientResource = self._resources["samza"]
            return {**self._resources, "samza": samza.of_processors()}
        return self._resources if self.prefix else {}

    @property
    def _snapshot_of(self) -> str:
        return names_within([self.bootstrap_servers, *(self.jobs or [self.job])])

    @cached_property
    def _resources(self) -> dict[str, Any]:
        return self.build_resources()

    def build_schedules(self) -> list[dg.ScheduleDefinition]:
        """A rolling bounce by the clock for each of `bounces`, and the snapshots."""
        return [
            *bounce_schedules(self.tag, self.bounces, self.prefix),
            *snapshot_schedules(self.snapshots, self.prefix, self._snapshot_of),
        ]

    def build_assets(self) -> list[Any]:
        """Snapshots, the history of placement and of bounces, the overview, and checks."""
        prefix, partitions = self.prefix, keys_of(self.tag, "jobs") if self.jobs else None
        about = ", ".join(self.jobs) or self.job
        return [
            snapshot_assets(prefix, self.snapshots),
            placement_history_spec(about, prefix, partitions),
            bounce_history_spec(about, prefix, partitions),
            fleet_overview(prefix),
            outside_checks(self.lag_slo, self.invariants, prefix),
        ]

    def build_resources(self) -> dict[str, Any]:
        """Connection, policies and the place where snapshots are kept."""
        samza = SamzaClientResource(
            bootstrap_servers=self.bootstrap_servers,
            job_name=self.app_name,
            job_id=self.app_id,
            jobs=self.jobs,
            client_config={name: str(value) for name, value in self.client_config.items()},
            client_config_env=self.client_config_env,
            yarn_resource_manager=self.yarn_resource_manager,
            zookeeper=self.zookeeper,
            zookeeper_config={name: str(value) for name, value in self.zookeeper_config.items()},
            zookeeper_config_env=self.zookeeper_config_env,
            hosts=self.hosts,
            prefix=self.prefix,
        )
        return {
            "samza": samza,
            "samza_policies": self.policies,
            "snapshot_store": self.snapshots,
        }


def _names(attributes: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The names and ids of jobs in a YAML's attributes, each by its field."""
    jobs: Any = attributes.get("jobs")
    several = cast("list[object]", jobs) if isinstance(jobs, list) else []
    single = [(field, attributes.get(field)) for field in ("app_name", "app_id")]
    return [*single, *(("jobs", job) for job in several)]


def _innermost(text: str) -> str:
    """Return the message of a nested attribute's own check, without the traceback around it."""
    _, found, said = text.rpartition("ValidationError: ")
    lines = (said if found else text).splitlines()
    kept = [line.strip() for line in lines if line.strip() and "further information" not in line]
    return " ".join(kept).partition(" [type=")[0]
