"""A PostgreSQL of a test's own, from the distribution's package, on the loopback address.

It refuses to run as root, so root starts it as the user of the package.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.sandbox import process
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.process import ProcessRecord

USER = "postgres"
DATABASE_USER = "dagster"
PASSWORD = "not/secret:here@all"
_PLACES = Path("/usr/lib/postgresql")
_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "postgresql")


class Postgres:
    """A server with an empty data directory, started at once; `close` ends it and removes it."""

    def __init__(self) -> None:
        self._programs = programs()
        self._directory = Path(tempfile.mkdtemp(prefix="samza-dagster-pg-"))
        self._as_user = as_user(self._directory)
        self.port = free_ports(1)[0]
        self._server: ProcessRecord | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        password = self._directory / "password"
        data = self._directory / "data"
        password.write_text(PASSWORD)
        password.chmod(0o644)  # read by the server's user; the directory is that user's alone
        made = subprocess.run(
            [
                *(*self._as_user, str(self._programs / "initdb"), "-D", str(data)),
                *("-U", DATABASE_USER, "--auth=scram-sha-256", f"--pwfile={password}"),
                *("--encoding=UTF8", "--locale=C", "--no-sync"),
            ],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise MissingPrerequisite("initdb of PostgreSQL", seen=made.stderr.strip()[-800:])
        log = self._directory / "server.log"
        self._server = process.spawn(
            "postgres",
            [
                *(*self._as_user, str(self._programs / "postgres"), "-D", str(data)),
                *("-p", str(self.port), "-c", f"listen_addresses={LOOPBACK}"),
                *("-c", "unix_socket_directories=", "-c", "fsync=off"),
            ],
            log=log,
            directory=Path("/"),
        )
        ready = subprocess.run(
            [
                *(str(self._programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)),
                *("-d", "postgres", "-t", "60"),
            ],
            check=False,
        )
        while ready.returncode:  # pg_isready waits for an answer, not for a listener
            if not self._server.is_alive:
                raise MissingPrerequisite("a PostgreSQL that runs", seen=process.log_tail(log))
            self._server.wait(0.1)
            ready = subprocess.run(list(ready.args), check=False)

    def database(self, name: str) -> str:
        """Makes an empty database; its address as SQLAlchemy takes it, password and all."""
        self.execute(f"create database {name}", "postgres")
        return self._address(name, "postgresql+psycopg2")

    def execute(self, statement: str, database: str) -> list[tuple[object, ...]]:
        """Runs one statement by itself; its rows, if it has any."""
        import psycopg2

        connection = psycopg2.connect(self._address(database, "postgresql"))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def _address(self, database: str, scheme: str) -> str:
        from urllib.parse import quote

        secret = quote(PASSWORD, safe="")
        return f"{scheme}://{DATABASE_USER}:{secret}@{LOOPBACK}:{self.port}/{database}"

    def close(self) -> None:
        """Ends the server and takes its files away."""
        if self._server is not None:
            self._server.send(signal.SIGINT)  # fast: doesn't wait for those who are connected
            self._server.wait(20)
            self._server.stop(grace_s=1)
        shutil.rmtree(self._directory, ignore_errors=True)


def programs() -> Path:
    """Where the newest installed PostgreSQL has its programs; installs it as root.

    Raises `MissingPrerequisite` that names the package when it isn't there and can't be installed.
    """
    if not _found() and os.geteuid() == 0 and shutil.which("apt-get"):
        # RUNLEVEL keeps the package from starting a server of its own.
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (("apt-get", "update", "-q"), _INSTALL):
            subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False)
    found = _found()
    if not found:
        raise MissingPrerequisite(
            "a PostgreSQL server for these tests",
            seen=f"no postgres below {_PLACES}",
            fix=f"as root: {' '.join(_INSTALL)}",
        )
    return max(found, key=lambda each: float(each.parent.name))


def _found() -> list[Path]:
    return [each.parent for each in _PLACES.glob("*/bin/postgres")]


def as_user(directory: Path) -> tuple[str, ...]:
    """What goes before a command so that root doesn't run it; `directory` becomes that user's."""
    if os.geteuid() != 0:
        return ()
    user = pwd.getpwnam(USER)
    os.chown(directory, user.pw_uid, user.pw_gid)
    names = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return ("setpriv", *names)
