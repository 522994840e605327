"""How to log in at ZooKeeper: which settings there are, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.zookeeper import ZooKeeperAddress
from samza_dagster.metadata.zookeeper_settings import AclGrant, grants_of, kazoo_options

pytestmark = pytest.mark.unit

LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.username": "samza",
    "sasl.password": "secret-of-samza",
}


def test_settings_become_kazoos() -> None:
    """A certificate is verified, and names the server, unless a setting says otherwise."""
    options = kazoo_options(LOGIN)
    assert options["sasl_options"] == {
        "mechanism": "DIGEST-MD5",
        "username": "samza",
        "password": "secret-of-samza",
    }
    assert (options["use_ssl"], options["verify_certs"], options["check_hostname"]) == (True,) * 3
    assert kazoo_options({}) == {}
    unnamed = kazoo_options({**LOGIN, "ssl.endpoint.identification.algorithm": "none"})
    assert (unnamed["verify_certs"], unnamed["check_hostname"]) == (True, False)


def test_an_acl_is_written_as_zookeepers_own_shell_has_it() -> None:
    """An id may have colons: a digest's does."""
    found = grants_of({"acl": "digest:u:hash=:rw, world:anyone:r,auth::cdrwa"})
    assert found == (
        AclGrant("digest", "u:hash=", 3),
        AclGrant("world", "anyone", 1),
        AclGrant("auth", "", 31),
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sasl.user": "samza"}, r"sasl\.user.*no such setting.*sasl\.username"),
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "samza"}, r"sasl\.password"),
        ({"sasl.username": "samza"}, r"security\.protocol=SASL_PLAINTEXT"),
        ({"sasl.mechanism": "GSSAPI"}, "DIGEST-MD5.*Kerberos isn't supported"),
        ({"ssl.ca.location": "ca.pem"}, r"security\.protocol=SSL"),
        ({"digest.username": "u"}, r"digest\.password"),
        ({"acl": "anyone:rw"}, "world:anyone:r"),
        ({"acl": "world:anyone:rx"}, "cdrwa"),
    ],
)
def test_a_setting_that_means_nothing_is_named(settings: dict[str, str], told: str) -> None:
    """With what would be right."""
    with pytest.raises(InvalidInput, match=told):
        ZooKeeperAddress("zk:2181", settings=settings)


def test_a_file_that_is_not_there_is_named() -> None:
    """Before a server is asked."""
    with pytest.raises(InvalidInput, match=r"ssl\.ca\.location.*no file /nowhere"):
        kazoo_options({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"})


def test_a_login_comes_from_a_file_and_no_secret_is_shown(tmp_path: Path) -> None:
    """`SAMZA_DAGSTER_ZOOKEEPER_CONFIG` names it, for commands and processors alike."""
    file = tmp_path / "zookeeper.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()))
    environment = {
        "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": "broker:9092",
        "SAMZA_DAGSTER_JOB_NAME": "orders",
        "SAMZA_DAGSTER_ZOOKEEPER": "zk:2181",
        "SAMZA_DAGSTER_ZOOKEEPER_CONFIG": str(file),
    }
    connection = Connection.from_environment(environment)
    assert connection.zookeeper_config == LOGIN
    address = ZooKeeperAddress(connection.zookeeper, settings=connection.zookeeper_config)
    assert "secret-of-samza" not in f"{connection!r}{address!r}"
    with pytest.raises(InvalidInput) as refused:
        ZooKeeperAddress("zk:2181", settings={**LOGIN, "sasl.passwort": "another-secret"})
    assert "secret" not in str(refused.value)
