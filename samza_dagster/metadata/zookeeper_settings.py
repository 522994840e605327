"""Settings of ZooKeeper's logins and encryption, with the names that librdkafka has for Kafka's.

| setting | meaning |
|---|---|
| `security.protocol` | `PLAINTEXT` (default), `SSL`, `SASL_PLAINTEXT`, `SASL_SSL` |
| `sasl.mechanism` | `DIGEST-MD5` (default), and no other |
| `sasl.username`, `sasl.password` | of `DIGEST-MD5` |
| `digest.username`, `digest.password` | ZooKeeper's scheme `digest`, with SASL or without |
| `ssl.ca.location` | PEM file of the server's certificate authority; default: the system's |
| `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password` | the own certificate, PEM |
| `ssl.endpoint.identification.algorithm` | `https` (default): the certificate names the server; `none` |
| `enable.ssl.certificate.verification` | `true` (default) or `false` |
| `acl` | of new nodes: `<scheme>:<id>:<cdrwa>`, several with commas; default: all rights for all |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.security import ACL, Id

from samza_dagster.errors import InvalidInput

PROTOCOL = "security.protocol"
LOGIN_SETTINGS = f"{PROTOCOL}, sasl.username and sasl.password (or digest.username and .password)"
"""The settings that can fix a refused login."""
_MECHANISM = "sasl.mechanism"
_NO_KERBEROS = "DIGEST-MD5, or a certificate (ssl.certificate.location): Kerberos isn't supported"
_CHOICES = {
    PROTOCOL: ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    _MECHANISM: ("DIGEST-MD5",),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
    "enable.ssl.certificate.verification": ("true", "false"),
}
_FILES = frozenset({"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"})
_TEXTS = _FILES | {
    *("sasl.username", "sasl.password", "digest.username", "digest.password"),
    *("ssl.key.password", "acl"),
}
_RIGHTS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}


class AclGrant(NamedTuple):
    """A grant of an ACL: `rights` in ZooKeeper's bits."""

    scheme: str
    identity: str
    rights: int


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise `InvalidInput` for an unknown setting or combination. The error has no secrets."""
    for name, value in settings.items():
        choices = _CHOICES.get(name)
        if choices is None and name not in _TEXTS:
            known = ", ".join(sorted({*_CHOICES, *_TEXTS}))
            raise InvalidInput(f"ZooKeeper's setting {name}", seen="no such setting", fix=known)
        if choices is not None and value not in choices:
            fix = _NO_KERBEROS if name == _MECHANISM else f"one of {', '.join(choices)}"
            raise InvalidInput(f"ZooKeeper's setting {name}", seen=repr(value), fix=fix)
    for name, needed in _pairs(settings):
        if not settings.get(needed):
            raise InvalidInput(f"ZooKeeper's setting {name}", seen=f"no {needed}", fix=needed)
    for name in settings:
        if name.startswith("sasl.") and not _has_sasl(settings):
            raise InvalidInput(
                f"ZooKeeper's setting {name}", seen="no SASL", fix=f"{PROTOCOL}=SASL_PLAINTEXT"
            )
        if name.startswith("ssl.") and not _has_tls(settings):
            raise InvalidInput(f"ZooKeeper's setting {name}", seen="no TLS", fix=f"{PROTOCOL}=SSL")
    grants_of(settings)


def grants_of(settings: Mapping[str, str]) -> tuple[AclGrant, ...]:
    """Return the ACL of new nodes; empty: ZooKeeper's default. Raise `InvalidInput`."""
    return tuple(map(_grant, filter(None, settings.get("acl", "").split(","))))


def kazoo_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the form of kazoo's client.

    Raises `InvalidInput` for a missing file.
    """
    for name in sorted(settings.keys() & _FILES):
        if not Path(settings[name]).is_file():
            seen, fix = f"no file {settings[name]}", "a PEM file on this machine"
            raise InvalidInput(f"ZooKeeper's setting {name}", seen=seen, fix=fix)
    get = settings.get
    options: dict[str, Any] = {}
    if _has_tls(settings):
        is_verified = get("enable.ssl.certificate.verification", "true") == "true"
        names_server = get("ssl.endpoint.identification.algorithm", "https") == "https"
        options |= {
            "use_ssl": True,
            "ca": get("ssl.ca.location"),
            "certfile": get("ssl.certificate.location"),
            "keyfile": get("ssl.key.location"),
            "keyfile_password": get("ssl.key.password"),
            "verify_certs": is_verified,
            "check_hostname": is_verified and names_server,
        }
    if _has_sasl(settings):
        options["sasl_options"] = _sasl_options(settings)
    if get("digest.username"):
        login = f"{settings['digest.username']}:{settings['digest.password']}"
        options["auth_data"] = {("digest", login)}
    if grants := grants_of(settings):
        options["default_acl"] = [ACL(g.rights, Id(g.scheme, g.identity)) for g in grants]
    return options


def _pairs(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield settings that need another one, with that."""
    if _has_sasl(settings):
        yield PROTOCOL, "sasl.username"
        yield PROTOCOL, "sasl.password"
    both = (
        ("digest.username", "digest.password"),
        ("ssl.certificate.location", "ssl.key.location"),
    )
    for one, other in both:
        if one in settings:
            yield one, other
        if other in settings:
            yield other, one


def _has_sasl(settings: Mapping[str, str]) -> bool:
    return settings.get(PROTOCOL, "").startswith("SASL_")


def _has_tls(settings: Mapping[str, str]) -> bool:
    return settings.get(PROTOCOL, "").endswith("SSL")


def _sasl_options(settings: Mapping[str, str]) -> dict[str, str]:
    login = {"username": settings["sasl.username"], "password": settings["sasl.password"]}
    return {"mechanism": settings.get(_MECHANISM, "DIGEST-MD5"), **login}


def _grant(text: str) -> AclGrant:
    scheme, _, rest = text.strip().partition(":")
    identity, _, letters = rest.rpartition(":")
    if not scheme or ":" not in rest or not letters or not set(letters) <= _RIGHTS.keys():
        raise InvalidInput(
            "ZooKeeper's setting acl",
            seen=repr(text),
            fix="sasl:<user>:cdrwa, auth::cdrwa, world:anyone:r, several with commas",
        )
    return AclGrant(scheme, identity, sum(_RIGHTS[letter] for letter in set(letters)))
