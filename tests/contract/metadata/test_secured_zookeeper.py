"""Logins, TLS and ACLs at a real ZooKeeper: they pass through, and a refusal names the setting."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager

import pytest

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.zookeeper import (
    ZooKeeper,
    ZooKeeperAddress,
    connect,
    connected,
    make_path,
    reached,
)
from tests.rig.secured_zookeeper import PASSWORD, USER, SecuredZooKeeper
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

SASL = {"sasl.username": USER, "sasl.password": PASSWORD}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", **SASL}
WRONG = {**LOGIN, "sasl.password": "wrong-password"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredZooKeeper]:
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredZooKeeper]:
    """One that nobody may use who hasn't logged in."""
    with SecuredZooKeeper(tmp_path_factory.mktemp("strict"), must_log_in=True) as strict:
        yield strict


def session(hosts: str, settings: Mapping[str, str]) -> AbstractContextManager[ZooKeeper]:
    return connected(ZooKeeperAddress(hosts, settings=settings))


def test_a_node_that_is_made_has_the_acl_and_who_has_logged_in_may_write(
    server: SecuredZooKeeper,
) -> None:
    """Others read, as the ACL says; what they may not do is refused at once, with what would mend it."""
    acl = {"acl": f"sasl:{USER}:cdrwa,world:anyone:r"}
    with session(server.hosts, {**LOGIN, **acl}) as ours:
        make_path(ours, "/group/node")
        ours.set("/group/node", b"1")
    refusal = pytest.raises(InvalidInput, match=r"write.*NoAuthError.*sasl\.username")
    with session(server.hosts, {}) as other:
        assert other.get("/group/node")[0] == b"1"
        with refusal, reached("write it"):
            other.set("/group/node", b"2")


def test_a_digest_is_a_login_too(server: SecuredZooKeeper) -> None:
    """`auth::…` gives the rights to whoever makes the node."""
    login = {"digest.username": "u", "digest.password": "p", "acl": "auth::cdrwa"}
    with session(server.hosts, login) as ours:
        ours.create("/digest", b"1")
        assert ours.get("/digest")[0] == b"1"
    with (
        session(server.hosts, {**login, "digest.password": "q"}) as other,
        pytest.raises(InvalidInput, match=r"NoAuthError.*digest\.username"),
        reached("read it"),
    ):
        other.get("/digest")


def test_tls_passes_through_with_and_without_a_login(server: SecuredZooKeeper) -> None:
    """The server's certificate is verified against `ssl.ca.location`; an own one is a login by itself."""
    ca = {"ssl.ca.location": str(server.certificate)}
    own = {
        "ssl.certificate.location": str(server.client_certificate),
        "ssl.key.location": str(server.client_key),
        "acl": "auth::cdrwa",
    }
    with session(server.secure_hosts, {"security.protocol": "SASL_SSL", **SASL, **ca}) as ours:
        ours.create("/tls", b"1")
    with session(server.secure_hosts, {"security.protocol": "SSL", **ca, **own}) as known:
        known.create("/x509", b"1")
        assert known.get("/x509")[0] == b"1"
    with (
        session(server.secure_hosts, {"security.protocol": "SSL", **ca}) as unknown,
        pytest.raises(InvalidInput, match="NoAuthError"),
        reached("read it"),
    ):
        unknown.get("/x509")


def test_a_server_that_cannot_be_verified_is_refused_in_time(server: SecuredZooKeeper) -> None:
    """As is a port that speaks no TLS, or nothing else."""
    stranger = {"security.protocol": "SSL", "ssl.ca.location": str(server.client_certificate)}
    tries = [
        (server.secure_hosts, stranger, "CERTIFICATE_VERIFY_FAILED"),
        (server.hosts, stranger, r"SSL\w*Error"),
        (server.secure_hosts, {}, r"security\.protocol=SSL"),
    ]
    for hosts, settings, seen in tries:
        with pytest.raises(Unreachable, match=rf"{seen}.*ssl\.ca\.location") as refused:
            connect(ZooKeeperAddress(hosts, settings=settings), within_s=0.7)
        assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("settings", [WRONG, {}], ids=["wrong password", "no login"])
def test_a_refused_login_is_told_at_once(
    strict: SecuredZooKeeper, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """And no password is told."""
    with pytest.raises(InvalidInput, match=r"refuses the login.*sasl\.password") as refused:
        connect(ZooKeeperAddress(strict.hosts, settings=settings), within_s=60)
    assert "wrong-password" not in str(refused.value) + caplog.text
    with session(strict.hosts, LOGIN) as ours:
        ours.sync("/")


def test_a_wrong_password_is_refused_where_none_is_needed(server: SecuredZooKeeper) -> None:
    """Whoever logs in means to have the rights of a login."""
    with pytest.raises(InvalidInput, match=r"refuses the login.*sasl\.password"):
        connect(ZooKeeperAddress(server.hosts, settings=WRONG), within_s=60)


def test_a_login_that_is_refused_later_ends_each_call_at_once(strict: SecuredZooKeeper) -> None:
    """kazoo gives up for good then: whoever runs on it must know."""
    with session(strict.hosts, LOGIN) as ours:
        strict.close()
        strict.set_password("another one")
        strict.start()

        def refusal() -> InvalidInput | None:
            try:
                with reached("read the group"):
                    ours.get("/")
            except InvalidInput as error:
                return error
            except Unreachable:
                return None
            return None

        assert "sasl.password" in until("a refusal", refusal).fix
        with pytest.raises(InvalidInput, match="read the group"), reached("read the group"):
            ours.get("/")
