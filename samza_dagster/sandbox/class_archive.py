"""Class archives (AppCDS): a JVM that maps its classes starts in about half the time.

An archive fits one Java and one class path. A JVM writes it as it ends
(`-XX:ArchiveClassesAtExit`); later ones name it. A JVM ignores an archive that doesn't
fit, so none is ever a reason not to start.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.sandbox.java_check import Java


@dataclass(frozen=True)
class ClassArchive:
    """Where the archive of (Java, class path) lies, whether it exists or not."""

    path: Path

    @classmethod
    def of(cls, name: str, java: Java, jars: tuple[Path, ...], directory: Path) -> ClassArchive:
        """The archive below `directory` (`$SAMZA_DAGSTER_HOME/artifacts`) for these jars.

        The JVM checks path, size and time of each jar, so they are part of the name.
        """
        digest = hashlib.sha256(f"{java.version}\n{java.program.resolve()}".encode())
        for jar in jars:
            status = jar.stat()
            digest.update(f"\n{jar}\n{status.st_size}\n{status.st_mtime_ns}".encode())
        return cls(directory / "archives" / f"{name}-{digest.hexdigest()[:16]}.jsa")

    @property
    def exists(self) -> bool:
        """A whole archive is there: it comes into being by a rename."""
        return self.path.is_file()

    @property
    def draft(self) -> Path:
        """Where this process lets a JVM write it."""
        return self.path.with_suffix(f".{os.getpid()}.draft")

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

    def write_options(self) -> tuple[str, ...]:
        """JVM options that write a draft of the archive as the JVM ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return (
            f"-XX:ArchiveClassesAtExit={self.draft}",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        )

    def accept_draft(self) -> bool:
        """Makes a draft the archive; call it only when the JVM ended by itself."""
        try:
            self.draft.replace(self.path)
        except FileNotFoundError:
            return False
        return True

    def drop_draft(self) -> None:
        """Removes what a JVM that was killed may have left."""
        self.draft.unlink(missing_ok=True)
