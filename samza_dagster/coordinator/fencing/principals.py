"""The broker fence's settings: an incarnation's principal, and how it logs in. Pure.

Each incarnation has a principal of its own, named by its execution id, so that a rule can
shut out one and let its successor in. Its password follows from the job's secret and the
execution id: a start that is sent again after a take-over carries the same one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from samza_dagster.coordinator.limits import FENCING, fencing_of
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.authorizer import ANYTHING, DENY, USER, AclRule
from samza_dagster.model.changelogs import checkpoint_system, store_changelogs
from samza_dagster.placement.state import Fencing

SECRET_FILE = f"{FENCING}.secret.file"
RIGHTS_OF = f"{FENCING}.rights.of"
KAFKA_FACTORY = "org.apache.samza.system.kafka.KafkaSystemFactory"
PROMPT_KAFKA_FACTORY = "samza_dagster.PromptKafkaSystemFactory"
"""The same but for consumers that stop at once; see `samza_dagster/java/`."""
_KAFKA_FACTORIES = (KAFKA_FACTORY, PROMPT_KAFKA_FACTORY)
LOGIN_FILE = "kafka-login.properties"
"""In an incarnation's work directory. Samza logs its clients' settings in clear, so the
password isn't one of them: Kafka's clients (2.4 and later) read it from this file."""
_PROVIDER = "incarnation"
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.FileConfigProvider"
_JAAS_KEY = "jaas"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SIDES = ("consumer", "producer")
_LEAST_SECRET = 16
_REHEARSAL = re.compile(r"examination-(\d+)-[0-9a-f]{16}")
_REHEARSAL_MS = 3_600_000  # far longer than any examination takes


@dataclass(frozen=True)
class PrincipalNames:
    """The user names of a job's incarnations at its brokers."""

    job_name: str
    job_id: str

    @property
    def prefix(self) -> str:
        """Return the prefix of this job's user names; `/` is in no job's name or id."""
        return f"samza-dagster/{self.job_name}/{self.job_id}/"

    def user(self, execution_id: str) -> str:
        """Return the name that an incarnation logs in with."""
        return f"{self.prefix}{execution_id}"

    def principal(self, execution_id: str) -> str:
        """Return an incarnation's principal, as rules name it."""
        return f"{USER}{self.user(execution_id)}"

    def execution_id(self, user: str) -> str | None:
        """Return the incarnation of a user or principal; None for another job's."""
        name = user.removeprefix(USER)
        return name.removeprefix(self.prefix) if name.startswith(self.prefix) else None


@dataclass(frozen=True)
class Principals(PrincipalNames):
    """The principals of a job's incarnations at its brokers.

    `systems` are the job's Kafka systems of the coordinator stream's cluster, at
    `bootstrap_servers`. Each incarnation gets the rules of the principal `rights_of`; it is
    empty where rules for `User:*` admit the job's principals.
    """

    systems: tuple[str, ...]
    bootstrap_servers: str
    protocol: str
    mechanism: str
    rights_of: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, config: Mapping[str, str], secret: bytes | None = None) -> Principals | None:
        """Read the job's config; return None with `samza.dagster.fencing=lease`.

        Reads the secret's file unless a `secret` is given. Raises `InvalidInput` that names
        the setting which doesn't allow a fence.
        """
        if fencing_of(config) is Fencing.LEASE:
            return None
        home = config.get("job.coordinator.system") or config.get("job.default.system", "")
        servers = _bootstrap_servers(config, home)
        if config.get(f"systems.{home}.samza.factory", KAFKA_FACTORY) not in _KAFKA_FACTORIES or (
            not servers
        ):
            raise _refusal(
                f"the coordinator stream's system {home!r} isn't Kafka", "a coordinator system"
            )
        systems = tuple(sorted({home, *_kafka_systems(config, servers)}))
        _require_fenced_state(config, systems)
        protocol = _one(config, home, "security.protocol", "PLAINTEXT")
        if not protocol.upper().startswith("SASL_"):
            raise _refusal(
                f"systems.{home}.consumer.security.protocol={protocol}",
                f"systems.{home}.consumer.security.protocol=SASL_SSL, and the same of the producer",
            )
        mechanism = _one(config, home, "sasl.mechanism", "GSSAPI").upper()
        if mechanism not in MECHANISMS:
            raise _refusal(
                f"systems.{home}.consumer.sasl.mechanism={mechanism}",
                f"systems.{home}.consumer.sasl.mechanism=SCRAM-SHA-512, and the same of the producer",
            )
        rights_of = config.get(RIGHTS_OF, "").strip()
        if rights_of and not rights_of.startswith(USER):
            raise _refusal(f"{RIGHTS_OF}={rights_of}", f"{RIGHTS_OF}={USER}{rights_of}")
        return cls(
            job_name=config.get("job.name", ""),
            job_id=config.get("job.id", "1"),
            systems=systems,
            bootstrap_servers=servers,
            protocol=protocol.upper(),
            mechanism=mechanism,
            rights_of=rights_of,
            secret=_read_secret(config) if secret is None else secret,
        )

    def password(self, execution_id: str) -> str:
        """Return 256 bits that only the job's secret yields."""
        message = b"incarnation\0" + self.user(execution_id).encode()
        digest = hmac.new(self.secret, message, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def rights(self, execution_id: str, granted: tuple[AclRule, ...]) -> list[AclRule]:
        """Return its rules, ALLOW and DENY; `granted` are those of `rights_of`.

        Without its DENY rules an incarnation might do what `rights_of` may not.
        """
        principal = self.principal(execution_id)
        return [replace(rule, principal=principal) for rule in granted]

    def fence(self, execution_id: str) -> list[AclRule]:
        """Return the rule that shuts it out: no operation on any topic, for it alone.

        All topics, because an output needs no mention in a job's config. Topics alone,
        because nothing else of a Samza job has an owner.
        """
        return [AclRule(self.principal(execution_id), DENY, "ALL", "TOPIC", ANYTHING)]

    def security(self) -> dict[str, str]:
        """Return the containers' listener as librdkafka's settings, without a login."""
        return {"security.protocol": self.protocol, "sasl.mechanism": self.mechanism}

    def container_config(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the config that containers get: `config` without logins, and where each finds its own.

        Samza hands `systems.<s>.consumer.*` to consumers and admin clients, and
        `….producer.*` to producers; checkpoints, changelogs, metrics and the coordinator
        stream are read and written by these.
        """
        served = dict(config)
        for system in self.systems:
            for side in _SIDES:
                prefix = f"systems.{system}.{side}."
                served |= {
                    f"{prefix}security.protocol": self.protocol,
                    f"{prefix}sasl.mechanism": self.mechanism,
                    f"{prefix}config.providers": _PROVIDER,
                    f"{prefix}config.providers.{_PROVIDER}.class": _PROVIDER_CLASS,
                    f"{prefix}sasl.jaas.config": f"${{{_PROVIDER}:{LOGIN_FILE}:{_JAAS_KEY}}}",
                }
        return served

    def login_file(self, execution_id: str) -> tuple[str, str]:
        """Return name and text of the file with an incarnation's login."""
        jaas = (
            f"{_MODULE} required username={_quoted(self.user(execution_id))} "
            f"password={_quoted(self.password(execution_id))};"
        )
        # A properties file reads a backslash as the start of an escape.
        return LOGIN_FILE, f"{_JAAS_KEY}={jaas}\n".replace("\\", "\\\\")


def systems_apart(config: Mapping[str, str], principals: Principals) -> tuple[str, ...]:
    """Return the job's Kafka systems at other brokers, which no fence covers."""
    return tuple(
        sorted(
            name
            for name in _systems(config)
            if name not in principals.systems
            and config[f"systems.{name}.samza.factory"] in _KAFKA_FACTORIES
        )
    )


def _systems(config: Mapping[str, str]) -> list[str]:
    return [
        key.removeprefix("systems.").removesuffix(".samza.factory")
        for key in config
        if key.startswith("systems.") and key.endswith(".samza.factory")
    ]


def _kafka_systems(config: Mapping[str, str], servers: str) -> list[str]:
    wanted = {server.strip() for server in servers.split(",")}
    return [
        name
        for name in _systems(config)
        if config[f"systems.{name}.samza.factory"] in _KAFKA_FACTORIES
        and wanted & {s.strip() for s in _bootstrap_servers(config, name).split(",")}
    ]


def _bootstrap_servers(config: Mapping[str, str], system: str) -> str:
    return _one(config, system, "bootstrap.servers", "")


def _one(config: Mapping[str, str], system: str, setting: str, default: str) -> str:
    for side in _SIDES:
        value = config.get(f"systems.{system}.{side}.{setting}", "").strip()
        if value:
            return value
    return default


def _require_fenced_state(config: Mapping[str, str], systems: tuple[str, ...]) -> None:
    """Raise `InvalidInput` for changelogs or checkpoints outside of the fence.

    Two owners would ruin these.
    """
    written = {f"changelog of store {c.store}": c.system for c in store_changelogs(config)}
    checkpoints = checkpoint_system(config)
    if checkpoints is not None:
        written["task.checkpoint.system"] = checkpoints
    for what, system in sorted(written.items()):
        if system not in systems:
            raise _refusal(
                f"the {what} is in system {system}, which isn't at the coordinator's brokers",
                "the state of the job at the brokers of its coordinator stream",
            )


def _read_secret(config: Mapping[str, str]) -> bytes:
    path = config.get(SECRET_FILE, "").strip()
    if not path:
        raise _refusal(f"no {SECRET_FILE}", f"{SECRET_FILE}=<a file with a random text>")
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise _refusal(f"{SECRET_FILE}: {error}", "a file that the coordinator can read") from error
    if len(secret) < _LEAST_SECRET:
        raise _refusal(
            f"{SECRET_FILE}: {len(secret)} characters", f"at least {_LEAST_SECRET}, random"
        )
    return secret


def _refusal(seen: str, fix: str) -> InvalidInput:
    return InvalidInput(
        f"{FENCING}=broker in the job's config", seen=seen, fix=f"{fix}; or {FENCING}=lease"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def rehearsal_id(now_ms: int) -> str:
    """Return a name like an execution id for one examination's principal, with its begin."""
    return f"examination-{now_ms}-{secrets.token_hex(8)}"


def is_fresh_rehearsal(execution_id: str, now_ms: int) -> bool:
    """Return whether it belongs to an examination that may still run, in any process.

    `now_ms` is the wall clock's.
    """
    found = _REHEARSAL.fullmatch(execution_id)
    return found is not None and now_ms - int(found[1]) < _REHEARSAL_MS
