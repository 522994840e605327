"""A class archive for Spark's JVM: it halves the start of a session and its first query.

Written once per Java and pyspark: `python -m samza_dagster.snapshots.class_archive`
runs a small job and lets its JVM write the archive (some 110 MB) as it ends. The
JVM ignores an archive that doesn't fit, so none is ever a reason not to start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samza_dagster import directories
from samza_dagster.errors import ActionFailed, SamzaDagsterError
from samza_dagster.snapshots.session import (
    pyspark_home,
    spark_java_home,
    spark_session,
    spark_settings,
)

_DRAFT_VARIABLE = "SAMZA_DAGSTER_CLASS_ARCHIVE_DRAFT"
_DEADLINE_S = 600.0


def archive_path(environment: Mapping[str, str] | None = None) -> Path:
    """Where the archive lies, whether it exists or not.

    The name is of Java's and pyspark's release and of path, size and time of Spark's core,
    which the JVM checks. Raises `MissingPrerequisite` without pyspark or a JDK.
    """
    java, spark = spark_java_home(environment), pyspark_home()
    digest = hashlib.sha256(f"{java}\n{(java / 'release').read_text()}\n{spark}".encode())
    for jar in sorted((spark / "jars").glob("spark-core_*.jar")):
        status = jar.stat()
        digest.update(f"\n{jar}\n{status.st_size}\n{status.st_mtime_ns}".encode())
    name = f"spark-{digest.hexdigest()[:16]}.jsa"
    # Where a link leads to: the JVM compares paths as text before it takes an archive.
    return directories.artifacts_directory(environment).resolve() / "archives" / name


def dump(environment: Mapping[str, str] | None = None) -> Path:
    """Writes the archive, unless it is there, and returns its path.

    Raises `MissingPrerequisite` as `archive_path` does, `ActionFailed` when the JVM wrote none.
    """
    path = archive_path(environment)
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    child = {**(os.environ if environment is None else environment), _DRAFT_VARIABLE: str(draft)}
    command = [sys.executable, "-m", "samza_dagster.snapshots.class_archive"]
    try:
        # The JVM writes it after its Python has ended; it holds the pipes until then.
        status, errors = _run_in_group(command, child)
        if status != 0 or not draft.is_file():
            raise ActionFailed(
                "write a class archive for Spark",
                seen=errors.strip()[-500:] or "the JVM wrote none",
                fix="go on without it: sessions start slower, no more",
            )
        draft.replace(path)
    except subprocess.TimeoutExpired as error:
        raise ActionFailed(
            "write a class archive for Spark", seen=f"not done in {_DEADLINE_S:.0f} s"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return path


def _run_in_group(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and errors of a command; when it is late, nothing that it started stays."""
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=_DEADLINE_S)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, errors


def _run_a_small_job(draft: str) -> None:
    """What every snapshot does, of nothing: its classes go into the archive."""
    options = spark_settings("local[2]")["spark.driver.extraJavaOptions"]
    writing = f"{options} -XX:ArchiveClassesAtExit={draft} -Xlog:cds=off -Xlog:cds+dynamic=off"
    spark = spark_session(settings={"spark.driver.extraJavaOptions": writing})
    pairs: Any = spark.sparkContext.parallelize([[1], [2]], 2).flatMap(zip).persist()
    pairs.filter(len).collect()
    pairs.map(len).collect()
    spark.stop()


def main() -> int:
    """Writes the archive for this machine; in the process it starts, runs the job."""
    draft = os.environ.get(_DRAFT_VARIABLE)
    if draft is not None:
        _run_a_small_job(draft)
        return 0
    try:
        print(dump())
    except SamzaDagsterError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
