"""Class archives (AppCDS): a JVM that maps its classes starts in about half the time.

An archive fits one Java and one class path. A JVM writes it at its end
(`-XX:ArchiveClassesAtExit`), and later ones name it. A JVM ignores an archive that doesn't fit.
It maps a truncated one and ends with SIGBUS.
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
    """The path of the archive of (Java, class path); the archive may not exist yet."""

    path: Path

    @classmethod
    def of(cls, name: str, java: Java, jars: tuple[Path, ...]) -> ClassArchive:
        """Return the archive below `$SAMZA_DAGSTER_HOME/artifacts` for these jars."""
        # The JVM checks path, size and time of each jar, so they are part of the name.
        digest = hashlib.sha256(f"{java.version}\n{java.program.resolve()}".encode())
        for jar in jars:
            status = jar.stat()
            digest.update(f"\n{jar}\n{status.st_size}\n{status.st_mtime_ns}".encode())
        directory = artifacts_directory().resolve() / "archives"
        return cls(directory / f"{name}-{digest.hexdigest()[:16]}.jsa")

    @property
    def exists(self) -> bool:
        """Return whether a whole archive is there; it appears by a rename."""
        return self.path.is_file()

    def use_options(self) -> tuple[str, ...]:
        """Return the JVM options that use the archive; none without one."""
        if not self.exists:
            return ()
        return (
            f"-XX:SharedArchiveFile={self.path}",
            "-Xshare:auto",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        )

    def write_options(self, draft: Path) -> tuple[str, ...]:
        """Return the JVM options that write a draft of the archive at the JVM's end."""
        return (f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")

    def accept(self, draft: Path) -> bool:
        """Make a draft the archive, unless there is none or an archive exists by now.

        Only for a JVM that ended by itself: a killed one may have left half of the draft.
        """
        if self.exists or not draft.is_file():
            return False
        keep_file(draft, self.path)
        draft.unlink(missing_ok=True)
        return True


def keep_file(source: Path, target: Path) -> None:
    """Copy a file so that the target is whole or absent, also after a power failure."""
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = target.with_suffix(f".{os.getpid()}.draft")
    shutil.copyfile(source, copy)
    with copy.open("rb") as written:
        os.fsync(written.fileno())
    copy.replace(target)
