"""The demo's config keeps the promises that Samza's wire asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.model import TaskMode
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.class_archive import ClassArchive
from samza_dagster.sandbox.java_check import Java
from samza_dagster.sandbox.launch import launch_template
from samza_dagster.sandbox.standby_lag import applied_offset, near_copies

pytestmark = pytest.mark.unit

JAVA = Java(Path("/usr/bin/java"), "17.0.1", "PATH")


@pytest.mark.parametrize(("standbys", "factor"), [(0, None), (1, "2"), (2, "3")])
def test_the_standby_factor_counts_the_active_too(standbys: int, factor: str | None) -> None:
    """And agrees with the older setting beside it."""
    config = demo_job.job_config("127.0.0.1:1", standbys=standbys)
    assert config.get("job.standbytasks.replication.factor") == factor
    assert config.get("job.hotstandby.replicationcount") == (str(standbys) if standbys else None)


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_warm_store_is_never_wiped_by_a_transactional_restore(standbys: int) -> None:
    """It is off with and without standbys."""
    config = demo_job.job_config("127.0.0.1:1", standbys=standbys)
    assert config["task.transactional.state.restore.enabled"] == "false"


def test_the_changelog_has_no_dot_and_is_compacted() -> None:
    """A dot makes the store's offset file unreadable."""
    assert "." not in demo_job.CHANGELOG_TOPIC
    topic = {t.name: t for t in demo_job.topics()}[demo_job.CHANGELOG_TOPIC]
    assert ("cleanup.policy", "compact") in topic.config
    assert topic.partitions == 4


def test_outputs_are_dated_by_the_broker() -> None:
    """A container's own clock could hide a silence."""
    topic = {t.name: t for t in demo_job.topics()}[demo_job.OUTPUT_TOPIC]
    assert ("message.timestamp.type", "LogAppendTime") in topic.config


def test_a_standby_shadows_the_very_tasks_of_its_active() -> None:
    """Same partitions, names that Samza reads back, never mixed in one container."""
    model = demo_job.job_model("127.0.0.1:1", actives=2, standbys=1)
    assert set(model.containers) == {"0", "1", "0-0", "1-0"}
    for active in ("0", "1"):
        shadow = model.containers[f"{active}-0"]
        assert shadow.mode is TaskMode.STANDBY
        assert {t.changelog_partition for t in shadow.tasks.values()} == {
            t.changelog_partition for t in model.containers[active].tasks.values()
        }
    taken = [
        t.changelog_partition
        for c in model.containers.values()
        if c.mode is TaskMode.ACTIVE
        for t in c.tasks.values()
    ]
    assert sorted(taken) == [0, 1, 2, 3]


def test_the_launch_is_literal_and_quiet_but_for_restores(tmp_path: Path) -> None:
    """Placeholders are left for the agent; the Joiner's line per message is off."""
    template = launch_template(JAVA, (Path("/jars/a.jar"), Path("/jars/b.jar")))
    assert template.command[0] == "/usr/bin/java"
    assert "-Djdk.net.hosts.file={agent_dir}/hosts" in template.command
    assert "-Djava.io.tmpdir={work_dir}/tmp" in template.command
    assert "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn" in template.command
    assert "-Dorg.slf4j.simpleLogger.log.org.apache.samza.storage=info" in template.command
    assert template.command[-1] == "org.apache.samza.runtime.LocalContainerRunner"
    template.write(tmp_path / "launch.json")
    assert LaunchTemplate.read(tmp_path / "launch.json") == template


def test_a_class_archive_belongs_to_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    """Another Java, or a jar that changed, means another archive."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    first = ClassArchive.of("samza", JAVA, (jar,), tmp_path)
    assert ClassArchive.of("samza", JAVA, (jar,), tmp_path) == first
    other = Java(JAVA.program, "21.0.1", "PATH")
    assert ClassArchive.of("samza", other, (jar,), tmp_path) != first
    jar.write_bytes(b"22")
    assert ClassArchive.of("samza", JAVA, (jar,), tmp_path) != first


def test_a_draft_is_no_archive_until_it_is_accepted(tmp_path: Path) -> None:
    """A JVM that was killed while writing leaves nothing that is used."""
    archive = ClassArchive(tmp_path / "archives" / "a.jsa")
    draft = tmp_path / "draft.jsa"
    assert not archive.accept(draft)
    draft.write_bytes(b"whole")
    assert archive.use_options() == ()
    assert archive.accept(draft)
    assert archive.path.read_bytes() == b"whole"
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.use_options()


def test_the_first_archive_stays(tmp_path: Path) -> None:
    """JVMs that run have it mapped: a second one never takes its place."""
    archive = ClassArchive(tmp_path / "a.jsa")
    archive.path.write_bytes(b"first")
    (tmp_path / "draft").write_bytes(b"second")
    assert not archive.accept(tmp_path / "draft")
    assert archive.path.read_bytes() == b"first"


def _offset_file(state: Path, partition: int, offset: int) -> None:
    store = state / f"samza-dagster-demo-1/joiner-state/Partition_{partition}"
    store.mkdir(parents=True)
    name = f"kafka.samza-dagster-demo-joiner-state.{partition}"
    (store / "OFFSET-v2").write_bytes(
        b"\xac\xed\x00\x05w\x08\x00\x01" + f'{{"{name}":"{offset}"}}'.encode()
    )


def test_reads_the_offset_behind_java_framing(tmp_path: Path) -> None:
    """None for a store that isn't there or can't be read yet."""
    _offset_file(tmp_path, 2, 1999)
    assert applied_offset(tmp_path, "Partition 2") == 1999
    assert applied_offset(tmp_path, "Partition 3") is None


def test_counts_the_hosts_whose_copy_is_near(tmp_path: Path) -> None:
    """One far behind doesn't count, one host short shows."""
    _offset_file(tmp_path / "a", 0, 99)
    _offset_file(tmp_path / "b", 0, 80)
    _offset_file(tmp_path / "a", 1, 99)
    hosts = (tmp_path / "a", tmp_path / "b")
    assert near_copies(hosts, (100, 100), bound=10) == (1, 1)
    assert near_copies(hosts, (100, 100), bound=20) == (2, 1)
