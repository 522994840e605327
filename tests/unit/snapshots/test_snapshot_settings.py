"""librdkafka's settings as Spark's Kafka source wants them."""

from __future__ import annotations

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata import Connection
from samza_dagster.snapshots.settings import librdkafka_config, spark_options

pytestmark = pytest.mark.unit


def options(**config: str) -> dict[str, str]:
    named = {name.replace("__", "."): value for name, value in config.items()}
    return spark_options(Connection("b:1", "j", "1", named), read_text=lambda path: f"<{path}>")


def test_without_security_only_the_servers_are_given() -> None:
    """Tuning that only librdkafka knows is left out."""
    assert options(socket__timeout__ms="1000") == {"kafka.bootstrap.servers": "b:1"}


@pytest.mark.parametrize("name", ["sasl__mechanism", "sasl__mechanisms"])
def test_scram_becomes_a_login_module(name: str) -> None:
    """Both spellings of the mechanism; the protocol in capitals, as Java wants it."""
    got = options(
        security__protocol="sasl_ssl",
        sasl__username="u",
        sasl__password='p"\\',
        **{name: "SCRAM-SHA-256"},
    )
    assert got["kafka.security.protocol"] == "SASL_SSL"
    assert got["kafka.sasl.mechanism"] == "SCRAM-SHA-256"
    assert got["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="u" password="p\\"\\\\";'
    )


def test_pem_files_are_given_inline() -> None:
    """Authority, certificate and key, with the key's password."""
    got = options(
        ssl__ca__location="ca.pem",
        ssl__certificate__location="cert.pem",
        ssl__key__location="key.pem",
        ssl__key__password="secret",
    )
    assert got["kafka.ssl.truststore.type"] == got["kafka.ssl.keystore.type"] == "PEM"
    assert got["kafka.ssl.truststore.certificates"] == "<ca.pem>"
    assert got["kafka.ssl.keystore.certificate.chain"] == "<cert.pem>"
    assert got["kafka.ssl.keystore.key"] == "<key.pem>"
    assert got["kafka.ssl.key.password"] == "secret"


def test_a_pkcs12_keystore_passes_as_a_file() -> None:
    """librdkafka knows no other kind."""
    got = options(ssl__keystore__location="k.p12", ssl__keystore__password="x")
    assert got["kafka.ssl.keystore.type"] == "PKCS12"
    assert got["kafka.ssl.keystore.location"] == "k.p12"
    assert got["kafka.ssl.keystore.password"] == "x"


def test_no_host_name_check_is_an_empty_algorithm_in_java() -> None:
    """`none` would be an unknown algorithm there."""
    got = options(ssl__endpoint__identification__algorithm="none")
    assert got["kafka.ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    "config",
    [
        {"sasl__oauthbearer__config": "x"},
        {"enable__ssl__certificate__verification": "false"},
        {"sasl__username": "u", "sasl__mechanism": "GSSAPI"},
        {"ssl__key__pem": "k"},
        {"ssl__key__pem": "-----BEGIN RSA PRIVATE KEY-----", "ssl__certificate__pem": "c"},
    ],
)
def test_security_without_a_counterpart_is_refused(config: dict[str, str]) -> None:
    """Left out in silence it would mean a weaker connection, or an unclear failure."""
    with pytest.raises(InvalidInput) as refused:
        options(**config)
    assert refused.value.fix


def test_javas_own_settings_pass_and_win_and_stay_away_from_librdkafka() -> None:
    """For what has no counterpart, and for tuning of Spark's reader."""
    connection = Connection("b:1", "j", "1", {"client.id": "a", "kafka.client.id": "b"})
    assert spark_options(connection)["kafka.client.id"] == "b"
    assert librdkafka_config(connection) == {"client.id": "a"}
