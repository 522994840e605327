"""What the next leader of a job needs to go on with its YARN application; secret.

YARN tells an application's token while it is being launched and never again. It is kept in a
file of Hadoop's file system that its owner alone may read, so that a coordinator of another
machine finds it, and is written anew each time that YARN rolls it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samza_dagster.cluster.yarn.gateway import HadoopGateway, java_words
from samza_dagster.errors import ActionFailed

_VERSION = 1


@dataclass(frozen=True)
class Session:
    """`application` is YARN's id, "" before there is one; `agents_token` is what agents send us.

    `node_tokens` are those by which its master speaks with each NodeManager: YARN tells each once in
    an application's life.
    """

    application: str = ""
    token: str = field(default="", repr=False)
    node_tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    agents_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def of(self, application: str, token: str) -> Session:
        """The same for another application."""
        return replace(self, application=application, token=token, node_tokens={})


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
        try:
            path, files = self._open(self.path)
            if not files.exists(path):
                return None
            stream = files.open(path)
            content = self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream)
            stream.close()
            record = json.loads(bytes(content))
            if record["version"] != _VERSION:
                raise ValueError(f"version {record['version']}")
            return Session(
                record["application"],
                record["token"],
                record["node_tokens"],
                record["agents_token"],
            )
        except Exception as error:
            raise self._failed("read", error) from error

    def write(self, session: Session) -> None:
        """Replaces it in one step. Raises `ActionFailed`."""
        record = {
            "version": _VERSION,
            "application": session.application,
            "token": session.token,
            "node_tokens": dict(session.node_tokens),
            "agents_token": session.agents_token,
        }
        fs: Any = self._jvm.org.apache.hadoop.fs
        try:
            beside, _ = self._created(json.dumps(record).encode())
            context = fs.FileContext.getFileContext(beside.toUri(), self._configuration)
            options = self._jvm.org.apache.hadoop.fs.Options.Rename
            array = self._jvm.java.lang.reflect.Array.newInstance(options.OVERWRITE.getClass(), 1)
            array[0] = options.OVERWRITE
            context.rename(beside, fs.Path(self.path), array)
        except Exception as error:
            raise self._failed("write", error) from error

    def require(self) -> None:
        """Returns where a session could be kept. Raises `ActionFailed`."""
        self.read()
        try:
            beside, files = self._created(b"")
            files.delete(beside, False)
        except Exception as error:
            raise self._failed("write", error) from error

    def _created(self, content: bytes) -> tuple[Any, Any]:
        """A file beside it that its owner alone may read, and its file system."""
        beside, files = self._open(f"{self.path}.{secrets.token_hex(4)}")
        files.mkdirs(beside.getParent())
        permission = self._jvm.org.apache.hadoop.fs.permission.FsPermission("600")
        copies, block = files.getDefaultReplication(beside), files.getDefaultBlockSize(beside)
        stream = files.create(beside, permission, False, 4096, copies, block, None)
        stream.write(content)
        stream.close()
        return beside, files

    def _open(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(name)
        return path, path.getFileSystem(self._configuration)

    def _failed(self, verb: str, error: Exception) -> ActionFailed:
        return ActionFailed(
            f"{verb} the YARN session {self.path}",
            seen=java_words(error),
            fix="name a directory that this user may read and write, and no other user: --session-directory",
        )
