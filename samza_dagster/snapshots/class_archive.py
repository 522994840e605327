"""A class archive for Spark's JVM: it halves the start of a session and its first query.

Written once per Java, pyspark and connector: `python -m samza_dagster.snapshots.class_archive`
runs a small job and lets its JVM write the archive (some 160 MB) as it ends. The
JVM ignores an archive that doesn't fit, so none is ever a reason not to start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from samza_dagster.errors import ActionFailed, MissingPrerequisite, SamzaDagsterError
from samza_dagster.snapshots.connector import artifacts_directory, connector_jars
from samza_dagster.snapshots.session import (
    pyspark_home,
    spark_java_home,
    spark_session,
    spark_settings,
)

_DRAFT_VARIABLE = "SAMZA_DAGSTER_CLASS_ARCHIVE_DRAFT"
_DEADLINE_S = 600.0


def archive_path(jars: Sequence[Path], environment: Mapping[str, str] | None = None) -> Path:
    """Where the archive for these jars lies, whether it exists or not.

    The name is of Java's and pyspark's release and of path, size and time of each jar,
    which the JVM checks. Raises `MissingPrerequisite` without pyspark or a JDK.
    """
    java, spark = spark_java_home(environment), pyspark_home()
    digest = hashlib.sha256(f"{java}\n{(java / 'release').read_text()}\n{spark}".encode())
    for jar in (*jars, *sorted((spark / "jars").glob("spark-core_*.jar"))):
        status = jar.stat()
        digest.update(f"\n{jar}\n{status.st_size}\n{status.st_mtime_ns}".encode())
    name = f"spark-{digest.hexdigest()[:16]}.jsa"
    return artifacts_directory(environment) / "archives" / name


def dump(jars: Sequence[Path], environment: Mapping[str, str] | None = None) -> Path:
    """Writes the archive, unless it is there, and returns its path.

    Raises `MissingPrerequisite` without jars by path, `ActionFailed` when the JVM wrote none.
    """
    if not jars:
        raise MissingPrerequisite(
            "a class archive for Spark",
            seen="no connector jars on this machine",
            fix="resolve the sandbox's artifacts, or set SAMZA_DAGSTER_SPARK_JARS",
        )
    path = archive_path(jars, environment)
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


def _run_a_small_job(jars: Sequence[Path], draft: str) -> None:
    """What every snapshot does, on a few made-up records: its classes go into the archive."""
    from samza_dagster.snapshots import applied, coordinator_stream
    from samza_dagster.snapshots.kafka_source import (
        RECORD_FIELDS,
        PartitionRange,
        local_rows,
        read_records,
    )

    options = spark_settings(jars, "local[2]")["spark.driver.extraJavaOptions"]
    writing = f"{options} -XX:ArchiveClassesAtExit={draft} -Xlog:cds=off -Xlog:cds+dynamic=off"
    spark = spark_session(jars, settings={"spark.driver.extraJavaOptions": writing})
    value = '{"timestamp":1,"values":{"value":"v","host":"h","containerId":"0","Partition":"0"}}'
    kinds = ("config", "container-host-assignment", "task-container-assignment", "changelog")
    records = local_rows(
        spark,
        [{"offset": n, "key": f'[1,"set-{k}","0"]', "value": value} for n, k in enumerate(kinds)],
        RECORD_FIELDS,
    )
    entries = coordinator_stream.live_entries(records).persist()
    coordinator_stream.job_config(entries)
    hosts, tasks = coordinator_stream.hosts(entries), coordinator_stream.assigned_tasks(entries)
    known = applied.checkpointed(records).union(applied.reported(records, "j", "1"))
    known.collect()
    coordinator_stream.container_locality(tasks, hosts).persist().count()
    located = coordinator_stream.task_locality(tasks, hosts).persist()
    with tempfile.TemporaryDirectory() as directory:
        located.coalesce(1).write.parquet(f"{directory}/tasks")
        spark.read.parquet(f"{directory}/tasks").collect()
    # Nobody listens there: the reader's classes are loaded before it finds out.
    nowhere = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.default.api.timeout.ms": "300",
        "kafka.request.timeout.ms": "200",
        "kafkaConsumer.pollTimeoutMs": "300",
    }
    with contextlib.suppress(Exception):
        read_records(spark, nowhere, [PartitionRange("t", 0, 0, 1)]).collect()
    spark.stop()


def main() -> int:
    """Writes the archive for this machine's connector; in the process it starts, runs the job."""
    draft = os.environ.get(_DRAFT_VARIABLE)
    jars = connector_jars()
    if draft is not None:
        _run_a_small_job(jars, draft)
        return 0
    try:
        print(dump(jars))
    except SamzaDagsterError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
