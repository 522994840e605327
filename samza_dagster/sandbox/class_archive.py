"""Class archives (AppCDS): a JVM that maps its classes starts in about half the time.

An archive fits one Java and one class path. A JVM writes it as it ends
(`-XX:ArchiveClassesAtExit`); later ones name it. A JVM ignores an archive that doesn't
fit. One that was cut since, it maps and ends with SIGBUS.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.directories import artifacts_directory
from samza_dagster.sandbox.java_check import Java


@dataclass(frozen=True)
class ClassArchive:
    """Where the archive of (Java, class path) lies, whether it exists or not."""

    path: Path

    @classmethod
    def of(cls, name: str, java: Java, jars: tuple[Path, ...]) -> ClassArchive:
        """The archive below `$SAMZA_DAGSTER_HOME/artifacts` for these jars.

        The JVM checks path, size and time of each jar, so they are part of the name.
        """
        digest = hashlib.sha256(f"{java.version}\n{java.program.resolve()}".encode())
        for jar in jars:
            status = jar.stat()
            digest.update(f"\n{jar}\n{status.st_size}\n{status.st_mtime_ns}".encode())
        directory = artifacts_directory().resolve() / "archives"
        return cls(directory / f"{name}-{digest.hexdigest()[:16]}.jsa")

    @property
    def exists(self) -> bool:
        """A whole archive is there: it comes into being by a rename."""
        return self.path.is_file()

    def use_options(self) -> tuple[str, ...]:
        """JVM options that use the archive, none while there is none."""
        if not self.exists:
            return ()
        return (
            f"-XX:SharedArchiveFile={self.path}",
            "-Xshare:auto",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        )

    def write_options(self, draft: Path) -> tuple[str, ...]:
        """JVM options that write a draft of the archive as the JVM ends."""
        return (f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")

    def accept(self, draft: Path) -> bool:
        """Makes a draft the archive, unless there is none or an archive exists by now.

        Only for a JVM that ended by itself: one that was killed may have left half of it.
        """
        if self.exists or not draft.is_file():
            return False
        keep_file(draft, self.path)
        draft.unlink(missing_ok=True)
        return True


def keep_file(source: Path, target: Path) -> None:
    """Copies a file to where it is kept: there it is whole or absent, also after a power failure."""
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = target.with_suffix(f".{os.getpid()}.draft")
    shutil.copyfile(source, copy)
    with copy.open("rb") as written:
        os.fsync(written.fileno())
    copy.replace(target)
