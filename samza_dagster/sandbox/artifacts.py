"""The jars of the sandbox and of Spark's Kafka source, resolved once and verified.

`artifacts.toml` pins them, set by set, with SHA-256 checksums. The resolver is the Ivy of
pyspark, with its own default repository. Only a jar with the pinned checksum enters
`$SAMZA_DAGSTER_HOME/artifacts/jars`, by one rename: an interrupted download is never taken for a
whole one, and several processes may resolve at once.

`python -m samza_dagster.sandbox.artifacts [SET …]` resolves and prints the paths.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from samza_dagster.directories import artifacts_directory
from samza_dagster.errors import ActionFailed, InvalidInput, SamzaDagsterError
from samza_dagster.sandbox import ivy

SETS = ("kafka", "samza", "spark-kafka", "kafka-streams", "yarn", "samza-yarn", "samza-zookeeper")


@dataclass(frozen=True)
class Artifact:
    """A pinned jar."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Return `group:name:version`."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def relative_path(self) -> str:
        """Return the path below `jars/`; the group separates equal names of two groups."""
        return f"{self.group}/{self.name}-{self.version}.jar"


@cache
def manifest() -> dict[str, tuple[Artifact, ...]]:
    """Return the pinned jars by set, in class path order."""
    data = tomllib.loads(files("samza_dagster.sandbox").joinpath("artifacts.toml").read_text())
    return {name: tuple(_artifact(key, data[name][key]) for key in data[name]) for name in SETS}


def _artifact(coordinates: str, sha256: str) -> Artifact:
    group, name, version = coordinates.split(":")
    return Artifact(group, name, version, sha256)


def jar_paths(
    set_name: str, *, tell: Callable[[str], None] = lambda _: None, verify: bool = False
) -> tuple[Path, ...]:
    """Return the absolute paths of a set's jars in class path order; resolve missing jars.

    If all exist, this reads no network and no jar; `tell` gets a line for every tenth jar. With
    `verify` it reads each jar (0.1 s for 130 MB), and a damaged one counts as missing.

    Raises `InvalidInput` for an unknown set, `MissingPrerequisite` without pyspark or Java,
    `Unreachable` when the repository doesn't answer, `ActionFailed` when a jar isn't the pinned
    one.
    """
    if set_name not in SETS:
        raise InvalidInput(f"the jars of {set_name!r}", seen="no such set", fix=f"one of {SETS}")
    root = artifacts_directory().resolve()
    artifacts = manifest()[set_name]
    paths = tuple(root / "jars" / artifact.relative_path for artifact in artifacts)

    def missing() -> list[Artifact]:
        return [
            artifact
            for artifact, path in zip(artifacts, paths, strict=True)
            if not path.is_file() or (verify and _sha256(path) != artifact.sha256)
        ]

    if missing():
        with _exclusive(root / "lock"):
            _resolve(set_name, missing(), root, tell)
    return paths


def class_path(set_name: str) -> str:
    """Return `jar_paths` as one `-cp` argument."""
    return os.pathsep.join(map(str, jar_paths(set_name)))


@contextlib.contextmanager
def _exclusive(lock: Path) -> Generator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _resolve(
    set_name: str, missing: Sequence[Artifact], root: Path, tell: Callable[[str], None]
) -> None:
    """Download the missing jars; the caller holds the lock."""
    # Another process may have downloaded all of them before.
    if not missing:
        return
    wanted = len(manifest()[set_name])
    done = wanted - len(missing)

    def arrived() -> None:
        nonlocal done
        done += 1
        if done % 10 == 0:
            tell(f"{done} of {wanted} jars of {set_name}")

    stage = root / "stage"
    shutil.rmtree(stage, ignore_errors=True)  # remains of a killed run
    try:
        ivy.retrieve([(a.group, a.name, a.version) for a in missing], stage, arrived)
        for artifact in missing:
            _accept(artifact, stage, root / "jars" / artifact.relative_path)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _accept(artifact: Artifact, stage: Path, target: Path) -> None:
    brought = ivy.retrieved_path(stage, artifact.group, artifact.name, artifact.version)
    if not brought.is_file():
        raise ActionFailed(
            f"resolve {artifact.coordinates}",
            seen="the resolver ended without it",
            fix="run it again",
        )
    seen = _sha256(brought)
    if seen != artifact.sha256:
        raise ActionFailed(
            f"resolve {artifact.coordinates}",
            seen=f"SHA-256 {seen}, pinned is {artifact.sha256 or '(none)'}",
            fix="run it again; when it stays so, the repository serves another file than the pinned one",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    brought.replace(target)


def _sha256(path: Path) -> str:
    with path.open("rb") as jar:
        return hashlib.file_digest(jar, "sha256").hexdigest()


def main(arguments: list[str]) -> int:
    """Resolve the named sets (all without a name) and print their paths."""
    try:
        for set_name in arguments or SETS:
            paths = jar_paths(set_name, tell=lambda line: print(line, file=sys.stderr))
            print("\n".join(str(path) for path in paths))
    except SamzaDagsterError as error:
        print(f"samza-dagster: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
