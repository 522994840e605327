"""The demo's config keeps the promises that Samza's wire asks for, and what it counts of a restore."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from samza_dagster.coordinator.fencing.principals import PROMPT_KAFKA_FACTORY
from samza_dagster.directories import HOME_VARIABLE
from samza_dagster.model import naming
from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.class_archive import ClassArchive
from samza_dagster.sandbox.demo.restore import Restored, RestoreWatch
from samza_dagster.sandbox.demo_job import JOB_ID, JOB_NAME, STORE
from samza_dagster.sandbox.java_check import Java
from samza_dagster.sandbox.launch import (
    MAIN_CLASS,
    ContainerClasses,
)
from samza_dagster.sandbox.readiness import applied_offset, near_copies
from samza_dagster.sandbox.warm_start import MAIN_CLASS as WARM_START
from samza_dagster.sandbox.warm_start import warm_start_jar

pytestmark = pytest.mark.unit

JAVA = Java(Path("/usr/bin/java"), "17.0.1", "PATH")


@pytest.mark.parametrize(("standbys", "factor"), [(0, None), (1, "2"), (2, "3")])
def test_the_standby_factor_counts_the_active_too(standbys: int, factor: str | None) -> None:
    """And agrees with the older setting beside it."""
    config = demo_job.job_config("127.0.0.1:1", standbys=standbys)
    assert config["task.transactional.state.restore.enabled"] == "false", "it wipes a warm store"
    assert config.get("job.standbytasks.replication.factor") == factor
    assert config.get("job.hotstandby.replicationcount") == (str(standbys) if standbys else None)


def test_outputs_are_dated_by_the_broker() -> None:
    """A container's own clock could hide a silence."""
    topic = {t.name: t for t in demo_job.streams()}[demo_job.OUTPUT_TOPIC]
    assert topic.config["message.timestamp.type"] == "LogAppendTime"


def test_a_sandbox_begins_with_what_its_jobs_user_would_have() -> None:
    """The job's own streams; all else is made where the job starts."""
    names = {topic.name for topic in demo_job.streams()}
    assert names == {demo_job.INPUT_TOPIC, demo_job.OUTPUT_TOPIC, demo_job.METRICS_TOPIC}
    made = {topic.name for topic in demo_job.made_topics("127.0.0.1:1")}
    assert demo_job.CHANGELOG_TOPIC in made
    assert not names & made


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))


def test_a_class_archive_belongs_to_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    """Another Java, or a jar that changed, means another archive."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    first = ClassArchive.of("samza", JAVA, (jar,))
    assert ClassArchive.of("samza", JAVA, (jar,)) == first
    other = Java(JAVA.program, "21.0.1", "PATH")
    assert ClassArchive.of("samza", other, (jar,)) != first
    jar.write_bytes(b"22")
    assert ClassArchive.of("samza", JAVA, (jar,)) != first


def test_a_draft_is_no_archive_until_it_is_accepted(tmp_path: Path) -> None:
    """A JVM that was killed while writing leaves nothing that is used; one that is mapped stays."""
    archive = ClassArchive(tmp_path / "archives" / "a.jsa")
    draft = tmp_path / "draft.jsa"
    assert not archive.accept(draft)
    draft.write_bytes(b"whole")
    assert archive.use_options() == ()
    assert archive.accept(draft)
    assert archive.path.read_bytes() == b"whole"
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.use_options()
    draft.write_bytes(b"second")
    assert not archive.accept(draft)
    assert archive.path.read_bytes() == b"whole"


def test_the_class_that_warms_a_parked_jvm_runs_the_main_class_of_samza() -> None:
    """Its jar comes last, so that Samza's class path is as it was."""
    jars = (Path("/jars/a.jar"), Path("/jars/b.jar"))
    plain = ContainerClasses(JAVA, jars, warms=False).template(()).command
    warm = ContainerClasses(JAVA, (*jars, Path("/jars/w.jar")), warms=True).template(()).command
    assert plain[-2:] == ("/jars/a.jar:/jars/b.jar", MAIN_CLASS)
    assert warm[-3:] == ("/jars/a.jar:/jars/b.jar:/jars/w.jar", WARM_START, MAIN_CLASS)
    assert warm[:-3] == plain[:-2]


def test_containers_that_have_a_kafka_system_of_their_own_have_it_for_samzas() -> None:
    """Where there is no compiler it is in no config: a class that isn't there would end every container."""
    plain = demo_job.job_config("127.0.0.1:1")
    prompt = ContainerClasses(JAVA, (), warms=True).config(plain)
    assert ContainerClasses(JAVA, (), warms=False).config(plain) == plain
    assert {key: prompt[key] for key in plain if prompt[key] != plain[key]} == {
        "systems.kafka.samza.factory": PROMPT_KAFKA_FACTORY
    }


@pytest.mark.parametrize("compiler", ["", "#!/bin/sh\nexit 1\n"], ids=["none", "it fails"])
def test_without_a_compiler_that_works_containers_start_cold(tmp_path: Path, compiler: str) -> None:
    """A JRE has no `javac`; half a jar would be taken for a whole one the next time."""
    javac = tmp_path / "bin" / "javac"
    if compiler:
        javac.parent.mkdir()
        javac.write_text(compiler)
        javac.chmod(0o755)
    java = Java(javac.with_name("java"), "17.0.15", "PATH")
    assert warm_start_jar(java, (Path("/jars/a.jar"),)) is None
    assert not list(tmp_path.rglob("*.jar"))


FRAMING = b"\xac\xed\x00\x05w\x08\x00\x01"


def _offset_file(state: Path, partition: int, offset: int, framing: bytes = FRAMING) -> None:
    store = state / f"samza-dagster-demo-1/joiner-state/Partition_{partition}"
    store.mkdir(parents=True)
    name = f"kafka.samza-dagster-demo-joiner-state.{partition}"
    (store / "OFFSET-v2").write_bytes(framing + f'{{"{name}":"{offset}"}}'.encode())


@pytest.mark.parametrize("framing", [FRAMING, b"\xac\xed\x00\x05w\x08\x00{\x02", b'w\x08{"\x01'])
def test_a_brace_in_the_checksum_is_not_taken_for_the_json(tmp_path: Path, framing: bytes) -> None:
    """About one file in thirty has one: its offset was once taken for unknown."""
    _offset_file(tmp_path, 2, 52409, framing)
    assert applied_offset(tmp_path, "Partition 2") == 52409
    assert applied_offset(tmp_path, "Partition 3") is None, "unknown isn't 0"


def test_counts_the_hosts_whose_copy_is_near(tmp_path: Path) -> None:
    """One far behind doesn't count, one host short shows."""
    _offset_file(tmp_path / "a", 0, 99)
    _offset_file(tmp_path / "b", 0, 80)
    _offset_file(tmp_path / "a", 1, 99)
    hosts = (tmp_path / "a", tmp_path / "b")
    assert near_copies(hosts, (100, 100), bound=10) == (1, 1)
    assert near_copies(hosts, (100, 100), bound=20) == (2, 1)


# The demo counts what a moved active read against what was new to its host.

LOG = (
    "12 total entries restored for store: s in directory: /d/Partition_0.\n"
    "5 total entries restored for store: s in directory: /d/Partition_2.\n"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Of a host whose standby had applied offsets 89 and 99."""
    for partition, offset in ((0, 89), (2, 99)):
        store = tmp_path / naming.store_directory(JOB_NAME, JOB_ID, STORE, f"Partition {partition}")
        store.mkdir(parents=True)
        (store / "OFFSET-v2").write_text(f'{{"kafka.log.{partition}":"{offset}"}}')
    return tmp_path


def test_counts_the_partitions_of_the_moved_active_alone(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends of the others don't count; what came since the standby left does."""
    ends = (100, 7000, 105, 7000)
    monkeypatch.setattr(kafka_client, "consumer", lambda _servers: io.BytesIO())
    monkeypatch.setattr(kafka_client, "end_offsets", lambda _consumer, _topic: ends)
    watch = RestoreWatch("127.0.0.1:1", state, (0, 2))
    assert watch.result(LOG) is None, "nothing was seen yet"
    watch.note_standby_left()
    assert watch.result(LOG) is None, "the active hasn't arrived"
    watch.note_active_arrived()
    assert watch.result(LOG) == Restored(restored=17, changelog=205, produced_in_gap=15)
