"""The secrets by which the next leader of a job continues its YARN application.

YARN issues an application's token while it is being launched and never again. A file in Hadoop's file
system that only its owner may read keeps it, so that a coordinator on another machine finds it. The file is
rewritten each time YARN rolls the token.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from samza_dagster.cluster.yarn.gateway import HadoopGateway, java_words
from samza_dagster.errors import ActionFailed

_VERSION = 1


@dataclass(frozen=True)
class Session:
    """The session of a job's application.

    `application` is YARN's id, "" before there is one; `agents_token` is what agents send us.

    `node_tokens` are those by which its master speaks with each NodeManager.
    """

    application: str = ""
    token: str = field(default="", repr=False)
    node_tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    agents_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


class SessionStore:
    """The session of a job. `directory` is a URI, "" for `.samza-dagster` in the user's home."""

    def __init__(self, gateway: HadoopGateway, directory: str, job: str) -> None:
        self._gateway = gateway
        self._fs: Any = gateway.jvm.org.apache.hadoop.fs
        if not directory:
            home = self._fs.FileSystem.get(gateway.configuration).getHomeDirectory()
            directory = f"{home.toString()}/.samza-dagster"
        self._path: Any = self._fs.Path(f"{directory.rstrip('/')}/{job}.session")

    def read(self) -> Session:
        """Return the session, or a new one. Raises `ActionFailed` for an unreadable one."""
        with self._failing("read") as files:
            if not files.exists(self._path):
                return Session()
            stream = files.open(self._path)
            content = self._gateway.jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream)
            stream.close()
            record = json.loads(bytes(content))
            if (version := record.pop("version")) != _VERSION:
                raise ValueError(f"version {version}")
            return Session(**record)

    def write(self, session: Session) -> None:
        """Replace it in one step. Raises `ActionFailed`."""
        record = json.dumps({"version": _VERSION, **asdict(session)})
        with self._failing("write") as files:
            beside = self._created(files, record.encode())
            context = self._fs.FileContext.getFileContext(
                beside.toUri(), self._gateway.configuration
            )
            option = self._fs.Options.Rename.OVERWRITE
            array = self._gateway.jvm.java.lang.reflect.Array.newInstance(option.getClass(), 1)
            array[0] = option
            context.rename(beside, self._path, array)

    def require(self) -> None:
        """Raise `ActionFailed` unless a session could be kept."""
        self.read()
        with self._failing("write") as files:
            files.delete(self._created(files, b""), False)

    def _created(self, files: Any, content: bytes) -> Any:
        """Write a temporary file beside it that its owner alone may read; return its path."""
        beside = self._path.suffix(f".{secrets.token_hex(4)}")
        files.mkdirs(beside.getParent())
        permission = self._fs.permission.FsPermission("600")
        copies, block = files.getDefaultReplication(beside), files.getDefaultBlockSize(beside)
        stream = files.create(beside, permission, False, 4096, copies, block, None)
        stream.write(content)
        stream.close()
        return beside

    @contextmanager
    def _failing(self, verb: str) -> Generator[Any]:
        """Yield its file system; turn its failures into `ActionFailed`."""
        try:
            yield self._path.getFileSystem(self._gateway.configuration)
        except Exception as error:
            raise ActionFailed(
                f"{verb} the YARN session {self._path.toString()}",
                seen=java_words(error),
                fix="name a directory that this user may read and write, and no other user: --session-directory",
            ) from error
