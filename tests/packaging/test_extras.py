"""What a user installs: the wheel in an empty environment, with nothing, and with each extra.

Versions are those that the registry has today, since that is what a user gets; the lowest that
`pyproject.toml` admits are what somebody has who installs it beside older ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from samza_dagster.directories import artifacts_directory

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
LARGEST_WHEEL = 1_500_000
"""Bytes. Pictures, jars or tests among them would show."""
NOBODY = ("--bootstrap-servers", "127.0.0.1:1", "--job-name", "orders")
PROPERTIES = (
    "job.name=orders\njob.default.system=kafka\ntask.inputs=kafka.orders\n"
    "systems.kafka.consumer.bootstrap.servers=127.0.0.1:1\n"
)
COORDINATOR = (
    *("coordinator", "run", "--config", "job.properties", "--launch", "launch.json"),
    *("--token-file", "token", "--url-file", "url"),
)
COCKPIT = """
import sys
from samza_dagster import SamzaJobComponent
import dagster as dg
made = SamzaJobComponent(bootstrap_servers="broker-1:9092", app_name="orders")
defs = dg.build_defs_for_component(made)
assert defs.resolve_job_def("move_with_standby")
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("samza_dagster.")}
spare = rooms & {"sandbox", "coordinator", "cluster", "agent"}
assert not spare, spare
heavy = {"pyspark", "pandas", "psutil", "prometheus_client"} & set(sys.modules)
assert not heavy, heavy
"""
SPARK = """
from pyspark.sql import SparkSession
import dagster_pyspark, samza_dagster.snapshots
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(3).count() == 3
spark.stop()
"""
POSTGRES = """
from dagster_postgres import DagsterPostgresStorage
"""


class Installed:
    """An environment with the wheel and one extra, and what its programs say."""

    def __init__(self, environment: Path, home: Path) -> None:
        self.bin = environment / "bin"
        self.home = home

    def run(self, program: str, *arguments: str, timeout_s: float = 120) -> tuple[int, str]:
        """Exit status and all that it printed, away from the checkout and from its modules."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.home,
            env={
                **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
                "HOME": str(self.home),
                "SAMZA_DAGSTER_HOME": str(self.home),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return done.returncode, done.stdout

    def ends(self, status: int, *command: str, timeout_s: float = 120) -> str:
        """What a command printed, which has to end with that status."""
        code, said = self.run(*command, timeout_s=timeout_s)
        assert code == status, said[-3000:]
        return said


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sources as they are."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", out, ROOT], check=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture
def install(wheel: Path, tmp_path: Path) -> Callable[[str], Installed]:
    def install(extra: str) -> Installed:
        environment, home = tmp_path / "environment", tmp_path / "home"
        home.mkdir()
        (home / "artifacts").symlink_to(artifacts_directory(), target_is_directory=True)
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        asked = f"samza_dagster[{extra}] @ {wheel.as_uri()}"
        into = ("--python", str(environment / "bin" / "python"))
        subprocess.run([UV, "pip", "install", "--quiet", *into, asked], check=True)
        return Installed(environment, home)

    return install


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    """No tests, pages or pictures; it is small, though the sandbox is in it."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0].partition("-")[0] for name in names}
    assert tops == {"samza_dagster"}
    files = (
        "orchestration/dagster.yaml",
        "sandbox/artifacts.toml",
        "java/WarmStart.java",
        "monitoring/samza_dagster_alerts.yml",
    )
    assert {f"samza_dagster/{file}" for file in files} <= set(names)
    assert wheel.stat().st_size < LARGEST_WHEEL


def test_without_an_extra_it_is_the_cockpit_and_the_commands(
    install: Callable[[str], Installed],
) -> None:
    """What the others bring isn't loaded, and a command that needs it names the extra."""
    it = install("")
    it.ends(0, "python", "-c", COCKPIT)
    assert "place" in it.ends(0, "samza-dagster", "--help")
    assert "Unreach" in it.ends(4, "samza-dagster", "status", *NOBODY, "--json")
    assert it.ends(0, "samza-dagster", "agent", "build", "--output", "agent.pyz")
    for command, extra in (
        (("sandbox", "up"), "sandbox"),
        (("demo", "--once"), "sandbox"),
        (COORDINATOR, "coordinator"),
    ):
        assert f"samza_dagster[{extra}]" in it.ends(2, "samza-dagster", *command), command


def test_coordinator(install: Callable[[str], Installed]) -> None:
    """It says what of its config is missing, and `doctor` asks the brokers."""
    it = install("coordinator")
    assert "job.properties" in it.ends(2, "samza-dagster", *COORDINATOR)
    (it.home / "job.properties").write_text(PROPERTIES)
    it.ends(4, "samza-dagster", "doctor", "--config", "job.properties")


def test_a_group_needs_no_extra(install: Callable[[str], Installed]) -> None:
    """It is asked for, at a server that isn't there."""
    it = install("")
    (it.home / "job.properties").write_text(PROPERTIES)
    asked = ("--config", "job.properties", "--zookeeper", "127.0.0.1:1")
    it.ends(4, "samza-dagster", "processor", "status", *asked)


def test_spark(install: Callable[[str], Installed]) -> None:
    """A session starts, and the snapshots' modules load beside it."""
    install("spark").ends(0, "python", "-c", SPARK)


def test_postgres(install: Callable[[str], Installed]) -> None:
    """The instance that is written names a storage that is there."""
    it = install("postgres")
    it.ends(0, "samza-dagster", "instance", "instance")
    assert "postgres_url" in (it.home / "instance" / "dagster.yaml").read_text()
    it.ends(0, "python", "-c", POSTGRES)


def test_sandbox(install: Callable[[str], Installed]) -> None:
    """A job runs, and can be asked, far from any checkout."""
    it = install("sandbox")
    small = ("--state-mb", "0.5", "--rate", "50", "--actives", "1", "--hosts", "2")
    try:
        it.ends(0, "samza-dagster", "sandbox", "up", "--detach", *small, timeout_s=400)
        said = it.ends(0, "samza-dagster", "sandbox", "status", "--json")
        assert '"state": "up"' in said
    finally:
        it.ends(0, "samza-dagster", "sandbox", "down")


LOWEST = """
from importlib.metadata import version
assert version("dagster").startswith("1.12."), version("dagster")
"""


def test_with_the_lowest_versions_that_are_admitted_dagsters_tests_pass(tmp_path: Path) -> None:
    """A move that goes on, a component, a sensor and the assets of a snapshot."""
    environment = tmp_path / "environment"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    extras = [part for name in ("spark", "coordinator") for part in ("--extra", name)]
    direct = ("--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml", *extras)
    beside = ("pytest>=9,<10", "hypothesis>=6.120,<7", "psutil>=7,<8", "tzdata>=2025.1")
    install = (UV, "pip", "install", "--quiet", "--python", python, *direct, *beside)
    subprocess.run(install, check=True)
    subprocess.run([python, "-c", LOWEST], check=True)
    judged = ("reexecution", "component", "sensor", "snapshots")
    files = [ROOT / f"tests/dagster/test_dagster_{name}.py" for name in judged]
    ran = subprocess.run(
        [python, "-m", "pytest", "-q", "-m", "dagster", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
