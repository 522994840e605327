"""A real ZooKeeper that knows logins and TLS: SASL's DIGEST-MD5 at one port, both at another."""

from __future__ import annotations

import subprocess
from pathlib import Path

from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.zookeeper import ZooKeeperServer

USER, PASSWORD = "samza", "right-password"


class SecuredZooKeeper(ZooKeeperServer):
    """`must_log_in`: it ends the session of who asks for something without SASL."""

    def __init__(self, directory: Path, *, must_log_in: bool = False) -> None:
        (self._secure_port,) = free_ports(1)
        directory.mkdir(parents=True, exist_ok=True)
        self._jaas = directory / "jaas.conf"
        self.set_password(PASSWORD)
        self.certificate, key = directory / "server.crt", directory / "server.key"
        self.client_certificate, self.client_key = (
            directory / "client.crt",
            directory / "client.key",
        )
        certify(self.certificate, key, f"subjectAltName=IP:{LOOPBACK},DNS:localhost")
        certify(self.client_certificate, self.client_key, "subjectAltName=DNS:client")
        store = directory / "server.pem"
        store.write_text(key.read_text() + self.certificate.read_text())
        settings = {
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": str(self._secure_port),
            "secureClientPortAddress": LOOPBACK,
            "ssl.keyStore.location": str(store),
            "ssl.trustStore.location": str(self.client_certificate),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "want",
            "ssl.hostnameVerification": "false",
        }
        if must_log_in:
            settings |= {"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}
        super().__init__(
            directory,
            settings=settings,
            flags=(f"-Djava.security.auth.login.config={self._jaas}",),
        )

    def set_password(self, password: str) -> None:
        """The user's, from its next start on."""
        self._jaas.write_text(
            "Server { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
            f'  user_{USER}="{password}"; }};\n'
        )

    @property
    def secure_hosts(self) -> str:
        """Where it speaks TLS."""
        return f"{LOOPBACK}:{self._secure_port}"


def certify(certificate: Path, key: Path, extension: str) -> None:
    """Makes a key and a certificate for it that it has signed itself."""
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", "2", "-subj", "/CN=samza-dagster-test", "-addext", extension),
        *("-keyout", str(key), "-out", str(certificate)),
    ]
    subprocess.run(command, check=True, capture_output=True)
