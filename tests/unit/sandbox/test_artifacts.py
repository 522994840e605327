"""Jars are pinned, verified, and never half there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from samza_dagster.errors import ActionFailed, InvalidInput, MissingPrerequisite, Unreachable
from samza_dagster.sandbox import artifacts, ivy
from samza_dagster.sandbox.artifacts import Artifact, jar_paths
from samza_dagster.sandbox.progress import ArtifactProgress

pytestmark = pytest.mark.unit

JARS = {("org.one", "a", "1"): b"first jar", ("org.two", "a", "2"): b"second jar"}


class Repository:
    """Stands for Ivy: writes the given bytes where Ivy would leave the jars."""

    def __init__(self, content: dict[tuple[str, str, str], bytes]) -> None:
        self.content = content
        self.asked: list[list[tuple[str, str, str]]] = []
        self.fail_after: int | None = None

    def retrieve(
        self,
        modules: Sequence[tuple[str, str, str]],
        directory: Path,
        arrived: Callable[[str], None],
    ) -> None:
        self.asked.append(list(modules))
        for count, (group, name, version) in enumerate(modules):
            if self.fail_after == count:
                raise Unreachable("resolve", seen="cable cut")
            path = ivy.retrieved_path(directory, group, name, version)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content[group, name, version])
            arrived(f"{group}#{name};{version}")


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(dict(JARS))
    pinned = tuple(Artifact(*key, hashlib.sha256(jar).hexdigest()) for key, jar in JARS.items())
    monkeypatch.setattr(ivy, "retrieve", made.retrieve)
    monkeypatch.setattr(artifacts, "manifest", lambda: {"kafka": pinned})
    return made


def test_every_pin_is_whole() -> None:
    """A version without its checksum would be taken on trust."""
    for pinned in artifacts.manifest().values():
        assert pinned
        assert all(len(bytes.fromhex(artifact.sha256)) == 32 for artifact in pinned)
        assert len({artifact.relative_path for artifact in pinned}) == len(pinned)


def test_no_log4j_1_reaches_a_container() -> None:
    """Samza's own dependency on it is dropped: one logger, slf4j-simple."""
    names = {artifact.name for artifact in artifacts.manifest()["samza"]}
    assert names.isdisjoint({"log4j", "slf4j-log4j12"})
    assert {"slf4j-simple", "snappy-java", "lz4-java", "zstd-jni"} <= names


def test_asks_only_for_what_is_missing(tmp_path: Path, repository: Repository) -> None:
    """In class path order, each jar told; one lost jar costs one download, none costs nothing."""
    told: list[ArtifactProgress] = []
    paths = jar_paths("kafka", progress=told.append, directory=tmp_path)
    assert [path.read_bytes() for path in paths] == list(JARS.values())
    assert [(progress.done, progress.current) for progress in told][-1] == (2, "org.two:a:2")
    paths[0].unlink()
    for _ in range(2):
        jar_paths("kafka", directory=tmp_path)
    assert repository.asked[1:] == [[("org.one", "a", "1")]]


def test_refuses_a_jar_that_is_not_the_pinned_one(tmp_path: Path, repository: Repository) -> None:
    """A short or swapped file never enters the cache, and the message has both sums."""
    repository.content["org.one", "a", "1"] = b"first j"
    with pytest.raises(ActionFailed) as caught:
        jar_paths("kafka", directory=tmp_path)
    assert hashlib.sha256(b"first j").hexdigest() in caught.value.seen
    assert hashlib.sha256(b"first jar").hexdigest() in caught.value.seen
    assert not list((tmp_path / "jars").rglob("*.jar"))


def test_a_download_that_broke_off_leaves_nothing(tmp_path: Path, repository: Repository) -> None:
    """The next run starts clean, also where a killed one has left half a jar, and ends well."""
    left = ivy.retrieved_path(tmp_path / "stage", "org.one", "a", "1")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    repository.fail_after = 1
    with pytest.raises(Unreachable):
        jar_paths("kafka", directory=tmp_path)
    assert not (tmp_path / "stage").exists()
    repository.fail_after = None
    assert all(path.is_file() for path in jar_paths("kafka", directory=tmp_path))


def test_many_at_once_download_once(tmp_path: Path, repository: Repository) -> None:
    """The lock makes the late ones wait and then find everything here."""
    threads = [
        threading.Thread(target=jar_paths, args=("kafka",), kwargs={"directory": tmp_path})
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(repository.asked) == 1


def test_without_pyspark_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base install has no Ivy: say which extra brings it."""
    monkeypatch.setattr(ivy, "find_spec", lambda _: None)
    with pytest.raises(MissingPrerequisite) as caught:
        ivy.ivy_jar()
    assert "samza_dagster[sandbox]" in caught.value.fix


def test_an_unknown_set_names_those_that_are() -> None:
    """No guessing."""
    with pytest.raises(InvalidInput, match="spark-kafka"):
        jar_paths("kafak")
