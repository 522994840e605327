"""What the next leader of a job needs to go on with its YARN application; secret.

YARN tells an application's token while it is being launched and never again. It is kept in a
file of Hadoop's file system that its owner alone may read, so that a coordinator of another
machine finds it, and is written anew each time that YARN rolls it.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from samza_dagster.cluster.yarn.gateway import HadoopGateway, java_words
from samza_dagster.errors import ActionFailed

_VERSION = 1


@dataclass(frozen=True)
class Session:
    """`application` is YARN's id, "" before there is one; `agents_token` is what agents send us."""

    application: str = ""
    token: str = field(default="", repr=False)
    agents_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def of(self, application: str, token: str) -> Session:
        """The same for another application, or with the token that YARN rolled."""
        return replace(self, application=application, token=token)


class SessionStore:
    """One job's session. `directory` is a URI, "" for `.samza-dagster` in the user's home of Hadoop's file system."""

    def __init__(self, gateway: HadoopGateway, directory: str, job: str) -> None:
        jvm = gateway.jvm
        self._jvm = jvm
        self._configuration = gateway.configuration
        if not directory:
            home = jvm.org.apache.hadoop.fs.FileSystem.get(gateway.configuration).getHomeDirectory()
            directory = f"{home.toString()}/.samza-dagster"
        self.path = f"{directory.rstrip('/')}/{job}.session"

    def read(self) -> Session | None:
        """None when there is none. Raises `ActionFailed` for one that can't be read or understood."""
        path, files = self._open(self.path)
        try:
            if not files.exists(path):
                return None
            stream = files.open(path)
            content = self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream)
            stream.close()
            record = json.loads(bytes(content))
            if record["version"] != _VERSION:
                raise ValueError(f"version {record['version']}")
            return Session(record["application"], record["token"], record["agents_token"])
        except Exception as error:
            raise self._failed("read", error) from error

    def write(self, session: Session) -> None:
        """Replaces it in one step. Raises `ActionFailed`."""
        record = {
            "version": _VERSION,
            "application": session.application,
            "token": session.token,
            "agents_token": session.agents_token,
        }
        beside, files = self._open(f"{self.path}.{secrets.token_hex(4)}")
        fs: Any = self._jvm.org.apache.hadoop.fs
        try:
            files.mkdirs(beside.getParent())
            permission = fs.permission.FsPermission("600")
            copies, block = files.getDefaultReplication(beside), files.getDefaultBlockSize(beside)
            stream = files.create(beside, permission, False, 4096, copies, block, None)
            stream.write(json.dumps(record).encode())
            stream.close()
            context = fs.FileContext.getFileContext(beside.toUri(), self._configuration)
            options = self._jvm.org.apache.hadoop.fs.Options.Rename
            array = self._jvm.java.lang.reflect.Array.newInstance(options.OVERWRITE.getClass(), 1)
            array[0] = options.OVERWRITE
            context.rename(beside, fs.Path(self.path), array)
        except Exception as error:
            raise self._failed("write", error) from error

    def _open(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(name)
        return path, path.getFileSystem(self._configuration)

    def _failed(self, verb: str, error: Exception) -> ActionFailed:
        return ActionFailed(
            f"{verb} the YARN session {self.path}",
            seen=java_words(error),
            fix="name a directory that this user may read and write, and no other user: --session-directory",
        )
