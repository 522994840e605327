"""How to reach a job's Kafka, for librdkafka and for Spark's Java client alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection

# librdkafka's name → Java's, where the value means the same to both.
_SAME_VALUE = {
    "client.id": "client.id",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.password": "ssl.keystore.password",
}
_HANDLED_TOGETHER = frozenset(
    {
        "bootstrap.servers",
        "enable.ssl.certificate.verification",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.keystore.location",
    }
)
_SECURITY_PREFIXES = ("sasl.", "ssl.", "security.", "enable.ssl.")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def librdkafka_config(connection: Connection) -> dict[str, str]:
    """The settings for a confluent-kafka client; those meant for Spark alone are left out."""
    return {k: v for k, v in connection.client_config.items() if not k.startswith("kafka.")}


def spark_options(
    connection: Connection, *, read_text: Callable[[str], str] | None = None
) -> dict[str, str]:
    """The same settings as options of Spark's Kafka source (`kafka.` before Java's names).

    A name that already starts with `kafka.` passes through and wins. Tuning that only
    librdkafka knows is left out; a security setting that has no counterpart is never
    left out in silence: it raises `InvalidInput`. PEM files are read here (by
    `read_text`, from a path), because Java wants them inline.
    """
    read = read_text or _read_file
    given = {name: str(value) for name, value in connection.client_config.items()}
    java = {_SAME_VALUE[name]: value for name, value in given.items() if name in _SAME_VALUE}
    java.update(_protocol(given))
    java.update(_login(given))
    java.update(_trust(given, read))
    java.update(_key(given, read))
    for name in given:
        known = name in _SAME_VALUE or name in _HANDLED_TOGETHER
        if name.startswith(_SECURITY_PREFIXES) and not known:
            raise InvalidInput(
                f"Kafka setting {name!r} for Spark",
                seen="no counterpart is known in Kafka's Java client",
                fix=f"the Java client's own setting, as 'kafka.<name>', instead of {name!r}",
            )
    options = {f"kafka.{name}": value for name, value in java.items()}
    options["kafka.bootstrap.servers"] = connection.bootstrap_servers
    options.update({name: value for name, value in given.items() if name.startswith("kafka.")})
    return options


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _protocol(given: Mapping[str, str]) -> dict[str, str]:
    java: dict[str, str] = {}
    if "security.protocol" in given:
        java["security.protocol"] = given["security.protocol"].upper()
    algorithm = given.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise InvalidInput(
            "Kafka setting 'enable.ssl.certificate.verification' = false for Spark",
            seen="Kafka's Java client always verifies the broker's certificate",
            fix="ssl.ca.location with the broker's certificate authority",
        )
    return java


def _login(given: Mapping[str, str]) -> dict[str, str]:
    if "sasl.username" not in given:
        return {}
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or ""
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise InvalidInput(
            "Kafka settings 'sasl.username' and 'sasl.password' for Spark",
            seen=f"sasl.mechanism {mechanism!r}",
            fix=f"one of {sorted(_LOGIN_MODULES)}, or 'kafka.sasl.jaas.config' given whole",
        )
    user = _quoted(given["sasl.username"])
    password = _quoted(given.get("sasl.password", ""))
    return {"sasl.jaas.config": f"{module} required username={user} password={password};"}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _trust(given: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    pem = given.get("ssl.ca.pem") or (
        read(given["ssl.ca.location"]) if "ssl.ca.location" in given else None
    )
    return {} if pem is None else {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}


def _key(given: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    if "ssl.keystore.location" in given:
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": given["ssl.keystore.location"],
        }

    def pem(inline: str, location: str) -> str | None:
        return given.get(inline) or (read(given[location]) if location in given else None)

    key = pem("ssl.key.pem", "ssl.key.location")
    certificate = pem("ssl.certificate.pem", "ssl.certificate.location")
    if key is None and certificate is None:
        return {}
    if key is None or certificate is None or "RSA PRIVATE KEY" in key or "EC PRIVATE KEY" in key:
        raise InvalidInput(
            "a client key and certificate for Spark",
            seen="a key in the old PEM form" if key and certificate else "one without the other",
            fix="both, the key as PKCS#8 ('openssl pkcs8 -topk8'), or ssl.keystore.location (PKCS12)",
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": certificate,
    }
