"""The connection to a job: its Kafka cluster, the login there, and its YARN or ZooKeeper."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from samza_dagster.errors import InvalidInput
from samza_dagster.model import naming

BOOTSTRAP_SERVERS = "SAMZA_DAGSTER_BOOTSTRAP_SERVERS"
JOB_NAME = "SAMZA_DAGSTER_JOB_NAME"
JOB_ID = "SAMZA_DAGSTER_JOB_ID"
CLIENT_CONFIG = "SAMZA_DAGSTER_CLIENT_CONFIG"
ZOOKEEPER = "SAMZA_DAGSTER_ZOOKEEPER"
ZOOKEEPER_CONFIG = "SAMZA_DAGSTER_ZOOKEEPER_CONFIG"
RESOURCE_MANAGER = "SAMZA_DAGSTER_YARN_RESOURCE_MANAGER"
DEFAULT_JOB_ID = "1"
_RESERVED = frozenset(
    {"bootstrap.servers", "transactional.id", "enable.idempotence", "isolation.level", "group.id"}
)
_SECRET = re.compile(r"password|secret|\.key|jaas|token|oauthbearer", re.IGNORECASE)
_SERVERS = re.compile(r"[^\s,:/]+:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}")
_RESOURCE_MANAGER = re.compile(r"https?://[^\s,/?#]+(/[^\s,?#]*)?")
# Settings with the same name and meaning in Kafka's Java client and in librdkafka.
_SAME_IN_JAVA = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.kerberos.service.name",
        "ssl.key.password",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
    }
)
_JAAS = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:plain\.Plain|scram\.Scram)LoginModule\s+required"
    r"(?P<options>(?:\s+\w+\s*=\s*\"(?:[^\"\\]|\\.)*\")*)\s*;\s*"
)
_JAAS_OPTION = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")


@dataclass(frozen=True)
class Connection:
    """A job and the Kafka cluster of its coordinator stream."""

    bootstrap_servers: str
    job_name: str
    job_id: str = DEFAULT_JOB_ID
    # librdkafka settings, security included, passed on unchanged. `repr` hides them.
    client_config: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    # YARN's web address, for a job under Samza's own Application Master; several, separated by
    # commas, for a highly available YARN. Empty: YARN isn't queried.
    yarn_resource_manager: str = ""
    # The ZooKeeper that coordinates a standalone job; empty: a cluster's coordinator does.
    zookeeper: str = ""
    # The login at ZooKeeper, as `client_config` is for Kafka.
    zookeeper_config: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        servers = [server.strip() for server in self.bootstrap_servers.split(",")]
        if not all(_SERVERS.fullmatch(server) for server in servers):
            raise InvalidInput(
                "bootstrap_servers of a connection",
                seen=repr(self.bootstrap_servers),
                fix="host:port, several separated by commas",
            )
        for name in ("job_name", "job_id"):
            value: str = getattr(self, name)
            if not value or value != value.strip() or "/" in value:
                raise InvalidInput(
                    f"{name} of a connection", seen=repr(value), fix="job.name / job.id of the job"
                )
        if not all(_RESOURCE_MANAGER.fullmatch(address) for address in self.resource_managers):
            raise InvalidInput(
                "yarn_resource_manager of a connection",
                seen=repr(self.yarn_resource_manager),
                fix="http://host:8088, several separated by commas",
            )
        for name in sorted(_RESERVED & self.client_config.keys()):
            raise InvalidInput(
                f"client_config of a connection: {name}",
                seen="a setting that is decided here",
                fix=f"leave {name} out",
            )

    @property
    def resource_managers(self) -> tuple[str, ...]:
        """Return the addresses of YARN's ResourceManager, in the order of attempts."""
        each = (address.strip().rstrip("/") for address in self.yarn_resource_manager.split(","))
        return tuple(address for address in each if address)

    @property
    def own_name(self) -> str:
        """Return name and id of the job as one name, which is unique (`naming.own_name`)."""
        return naming.own_name(self.job_name, self.job_id)

    @property
    def coordinator_stream_topic(self) -> str:
        """Return the topic of Samza's coordinator stream of this job."""
        return naming.coordinator_stream_topic(self.job_name, self.job_id)

    @property
    def state_topic(self) -> str:
        """Return the topic of our own durable state of this job."""
        return naming.state_topic(self.job_name, self.job_id)

    @property
    def audit_topic(self) -> str:
        """Return the topic of this job's audit records."""
        return naming.audit_topic(self.job_name, self.job_id)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Connection:
        """Return the connection of `SAMZA_DAGSTER_BOOTSTRAP_SERVERS`, `…_JOB_NAME`, `…_JOB_ID`.

        The id is 1 by default. `SAMZA_DAGSTER_CLIENT_CONFIG` may name a properties file of
        librdkafka settings, `SAMZA_DAGSTER_YARN_RESOURCE_MANAGER` YARN's web address, and
        `SAMZA_DAGSTER_ZOOKEEPER` ZooKeeper's. `SAMZA_DAGSTER_ZOOKEEPER_CONFIG` may name a
        properties file with the login there. Raises `InvalidInput` that names the variable.
        """
        source = os.environ if environment is None else environment
        for name in (BOOTSTRAP_SERVERS, JOB_NAME):
            if not source.get(name):
                raise InvalidInput(
                    "a connection from the environment",
                    seen=f"{name} is not set",
                    fix=f"set {name}",
                )
        return cls(
            bootstrap_servers=source[BOOTSTRAP_SERVERS],
            job_name=source[JOB_NAME],
            job_id=source.get(JOB_ID) or DEFAULT_JOB_ID,
            client_config=client_config_of(source),
            yarn_resource_manager=source.get(RESOURCE_MANAGER, ""),
            zookeeper=source.get(ZOOKEEPER, ""),
            zookeeper_config=zookeeper_config_of(source),
        )

    @classmethod
    def from_properties(
        cls, path: Path | str, environment: Mapping[str, str] | None = None
    ) -> Connection:
        """Return the connection of a Samza `job.properties`.

        It uses job.name, job.id and the coordinator's system: `job.coordinator.system`, else
        `job.default.system`. The system's security settings are translated to librdkafka's; those
        of the `environment` override them. YARN's address is the environment's. ZooKeeper's is
        too, else `job.coordinator.zk.connect`. Raises `InvalidInput` that names the property that
        is missing or can't be translated.
        """
        given = client_config_of(environment or {})
        properties = read_properties(Path(path), "a Samza job's properties")
        asked = f"a connection from {path}"
        system = properties.get("job.coordinator.system") or properties.get("job.default.system")
        if not system:
            raise InvalidInput(
                asked,
                seen="neither job.coordinator.system nor job.default.system",
                fix="job.coordinator.system=<the system of the coordinator stream>",
            )
        name = properties.get("job.name")
        if not name:
            raise InvalidInput(asked, seen="no job.name", fix="job.name=<name>")
        prefixes = (f"systems.{system}.consumer.", f"systems.{system}.producer.")
        servers = [properties.get(f"{prefix}bootstrap.servers") for prefix in prefixes]
        found = next((server for server in servers if server), None)
        if not found:
            raise InvalidInput(
                asked,
                seen=f"no {prefixes[0]}bootstrap.servers and none of the producer",
                fix=f"{prefixes[0]}bootstrap.servers=host:port",
            )
        settings: dict[str, str] = {}
        for prefix in reversed(prefixes):  # the consumer's override the producer's
            settings |= _translated(properties, prefix, given, asked)
        return cls(
            bootstrap_servers=found,
            job_name=name,
            job_id=properties.get("job.id", DEFAULT_JOB_ID),
            client_config={**settings, **given},
            yarn_resource_manager=(environment or {}).get(RESOURCE_MANAGER, ""),
            zookeeper=(environment or {}).get(ZOOKEEPER)
            or properties.get("job.coordinator.zk.connect", ""),
            zookeeper_config=zookeeper_config_of(environment or {}),
        )


def client_config_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings of the file in `SAMZA_DAGSTER_CLIENT_CONFIG`; empty without."""
    path = environment.get(CLIENT_CONFIG)
    return read_properties(Path(path), CLIENT_CONFIG) if path else {}


def zookeeper_config_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the ZooKeeper login of the file in `SAMZA_DAGSTER_ZOOKEEPER_CONFIG`; empty without."""
    path = environment.get(ZOOKEEPER_CONFIG)
    return read_properties(Path(path), ZOOKEEPER_CONFIG) if path else {}


def read_properties(path: Path, asked: str) -> dict[str, str]:
    """Return the content of a Java properties file; raise `InvalidInput` that names the file."""
    try:
        with path.open(encoding="utf-8") as file:
            return javaproperties.load(file)  # pyright: ignore[reportUnknownMemberType]
    except (OSError, ValueError) as error:
        # ValueError has text of the file, which may contain secrets, so report its type alone.
        seen = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InvalidInput(
            f"{asked}: read {path}", seen=str(seen), fix="a properties file"
        ) from None


def redacted(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with every secret's value replaced, for logs and reports."""
    return {name: "…" if _SECRET.search(name) else value for name, value in settings.items()}


def _translated(
    properties: Mapping[str, str], prefix: str, given: Mapping[str, str], asked: str
) -> dict[str, str]:
    settings: dict[str, str] = {}
    for full_name, value in properties.items():
        if not full_name.startswith((f"{prefix}security.", f"{prefix}sasl.", f"{prefix}ssl.")):
            continue
        name = full_name.removeprefix(prefix)
        if name in _SAME_IN_JAVA:
            settings[name] = value
        elif name == "sasl.jaas.config" and (user := _jaas_user(value)):
            settings["sasl.username"], settings["sasl.password"] = user
        elif name == "ssl.truststore.location" and _is_pem(properties, prefix, "truststore"):
            settings["ssl.ca.location"] = value
        elif name == "ssl.keystore.location" and _is_pem(properties, prefix, "keystore"):
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = value
        elif name in ("ssl.truststore.type", "ssl.keystore.type"):
            continue
        elif not given:
            raise InvalidInput(
                asked,
                seen=f"{full_name}, which librdkafka has no form of",
                fix="give librdkafka's own settings as client_config "
                f"(a properties file named by {CLIENT_CONFIG})",
            )
    return settings


def _is_pem(properties: Mapping[str, str], prefix: str, store: str) -> bool:
    return properties.get(f"{prefix}ssl.{store}.type", "").upper() == "PEM"


def _jaas_user(text: str) -> tuple[str, str] | None:
    match = _JAAS.fullmatch(text)
    if match is None:
        return None
    options = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, value in _JAAS_OPTION.findall(match["options"])
    }
    if "username" not in options or "password" not in options:
        return None
    return options["username"], options["password"]
