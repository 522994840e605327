"""Jars are pinned, verified, and never half there."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from samza_dagster.directories import HOME_VARIABLE
from samza_dagster.errors import ActionFailed, InvalidInput, MissingPrerequisite, Unreachable
from samza_dagster.sandbox import artifacts, ivy
from samza_dagster.sandbox.artifacts import Artifact, jar_paths

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
        arrived: Callable[[], None],
    ) -> None:
        self.asked.append(list(modules))
        for count, (group, name, version) in enumerate(modules):
            if self.fail_after == count:
                raise Unreachable("resolve", seen="cable cut")
            path = ivy.retrieved_path(directory, group, name, version)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content[group, name, version])
            arrived()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where jars are kept."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path / "artifacts"


@pytest.fixture
def repository(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
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


def test_asks_only_for_what_is_missing(repository: Repository) -> None:
    """In class path order; one lost jar costs one download, none costs nothing."""
    paths = jar_paths("kafka")
    assert [path.read_bytes() for path in paths] == list(JARS.values())
    paths[0].unlink()
    for _ in range(2):
        jar_paths("kafka")
    assert repository.asked[1:] == [[("org.one", "a", "1")]]


def test_refuses_a_jar_that_is_not_the_pinned_one(cache: Path, repository: Repository) -> None:
    """A short or swapped file never enters the cache, and the message has both sums."""
    repository.content["org.one", "a", "1"] = b"first j"
    with pytest.raises(ActionFailed) as caught:
        jar_paths("kafka")
    assert hashlib.sha256(b"first j").hexdigest() in caught.value.seen
    assert hashlib.sha256(b"first jar").hexdigest() in caught.value.seen
    assert not list((cache / "jars").rglob("*.jar"))


def test_a_jar_that_was_damaged_since_it_came_is_replaced_where_it_matters(
    repository: Repository,
) -> None:
    """Cut by a full disk, say: a start of containers that can't load a class names no file."""
    first, second = jar_paths("kafka")
    second.write_bytes(b"second j")
    jar_paths("kafka")
    assert len(repository.asked) == 1
    jar_paths("kafka", verify=True)
    assert repository.asked[1:] == [[("org.two", "a", "2")]]
    assert (first.read_bytes(), second.read_bytes()) == (b"first jar", b"second jar")


def test_a_download_that_broke_off_leaves_nothing(cache: Path, repository: Repository) -> None:
    """The next run starts clean, also where a killed one has left half a jar, and ends well."""
    left = ivy.retrieved_path(cache / "stage", "org.one", "a", "1")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    repository.fail_after = 1
    with pytest.raises(Unreachable):
        jar_paths("kafka")
    assert not (cache / "stage").exists()
    repository.fail_after = None
    assert all(path.is_file() for path in jar_paths("kafka"))


def test_many_at_once_download_once(repository: Repository) -> None:
    """The lock makes the late ones wait and then find everything here."""
    threads = [threading.Thread(target=jar_paths, args=("kafka",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(repository.asked) == 1


def test_each_tenth_jar_is_told(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first start of minutes shows that it goes on."""
    jars = {("org", f"a{n}", "1"): b"%d" % n for n in range(25)}
    pinned = tuple(Artifact(*key, hashlib.sha256(jar).hexdigest()) for key, jar in jars.items())
    monkeypatch.setattr(artifacts, "manifest", lambda: {"kafka": pinned})
    repository.content = jars
    told: list[str] = []
    jar_paths("kafka", tell=told.append)
    assert told == ["10 of 25 jars of kafka", "20 of 25 jars of kafka"]


def test_a_server_that_stops_sending_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ivy waited for it for ever: the first start stood still and named nothing."""
    monkeypatch.setattr(
        ivy, "_SETTINGS", ivy._SETTINGS.replace('readTimeout="60000"', 'readTimeout="200"')
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable, match="timed out"):
            ivy.retrieve([("org.one", "a", "1")], tmp_path / "stage", lambda: None)


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


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [
                "module not found: org.one#a;1",
                ":: UNRESOLVED DEPENDENCIES ::",
                "Server access error at url https://r/a-1.jar (java.net.ConnectException: Connection refused)",
            ],
            "Connection refused",
        ),
        (
            ["module not found: org.one#a;1", "Host r not found. url=https://r/a-1.jar"],
            "Host r not",
        ),
        (["module not found: org.one#a;1"], "module not found"),
        (["it ended"], "it ended"),
    ],
)
def test_what_the_resolver_says_of_the_cause_comes_before_what_is_missing(
    lines: list[str], told: str
) -> None:
    """ "Not found" is what a network that is away, a proxy and a wrong certificate have in common."""
    assert told in ivy._reason(lines)


def test_a_proxy_of_the_environment_is_javas_too() -> None:
    """Java reads no HTTPS_PROXY; what somebody gave to Java itself stays as it is."""
    assert ivy.proxy_options({}) == []
    for given in (
        "http://proxy.example:3128",
        "proxy.example:3128",
        "http://u:p@proxy.example:3128/",
    ):
        assert ivy.proxy_options({"HTTPS_PROXY": given}) == [
            "-Dhttps.proxyHost=proxy.example",
            "-Dhttps.proxyPort=3128",
        ]
    java = {"https_proxy": "http://a:1", "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=b"}
    assert ivy.proxy_options(java) == []
