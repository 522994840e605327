"""The agent as one file: what is in it, that it is always the same, and how it meets its surroundings."""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import samza_dagster
from samza_dagster.cli.main import cli
from samza_dagster.cluster import agent_archive
from samza_dagster.errors import MissingPrerequisite
from samza_dagster.version import __version__
from tests.levels import AGENT

pytestmark = pytest.mark.unit

PACKAGE = Path(samza_dagster.__file__).parent
# Methods of text, bytes, numbers and paths that 3.8 lacks. The checkers of `make lint` know
# them only where they know whose method it is.
LATER_METHODS = {
    *("removeprefix", "removesuffix", "bit_count", "is_integer", "add_note", "batched"),
    *("is_relative_to", "with_stem", "readlink", "hardlink_to", "walk", "is_junction"),
    *("with_segments", "full_match", "from_uri", "copy_into", "move", "move_into"),
}


@pytest.fixture(scope="module")
def built() -> agent_archive.AgentArchive:
    return agent_archive.build()


def sources(built: agent_archive.AgentArchive) -> dict[str, str]:
    """Name in the archive → text."""
    with zipfile.ZipFile(io.BytesIO(built.content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def copied(to: Path) -> Path:
    """A copy of the package's sources that a test may change."""
    package = to / "samza_dagster"
    shutil.copytree(PACKAGE / "agent", package / "agent")
    for name in ("__init__.py", "version.py"):
        shutil.copy(PACKAGE / name, package)
    return package


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_it_holds_the_agent_its_version_and_nothing_else(
    built: agent_archive.AgentArchive,
) -> None:
    """Every module of the agent is used; its entry is there once, as `__main__`."""
    agents = {f"samza_dagster/agent/{path.name}" for path in (PACKAGE / "agent").glob("*.py")}
    assert set(sources(built)) == {
        "__main__.py",
        "samza_dagster/__init__.py",
        "samza_dagster/version.py",
        *(agents - {"samza_dagster/agent/entry.py"}),
    }


def test_its_modules_are_what_an_agent_has_imported_once_it_runs(
    built: agent_archive.AgentArchive, tmp_path: Path
) -> None:
    """Isolated and without site-packages: all of ours come from the file, the rest from Python."""
    file = tmp_path / "agent.pyz"
    built.write(file)
    program = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import samza_dagster.agent.main\n"
        "modules = {n: getattr(m, '__file__', None) or '' for n, m in sys.modules.items()}\n"
        "print(json.dumps([modules, list(sys.stdlib_module_names)]))\n"
    )
    done = run("-I", "-S", "-c", program, str(file))
    assert done.returncode == 0, done.stderr
    modules, standard = json.loads(done.stdout)
    ours = {name for name in modules if name.split(".")[0] == "samza_dagster"}
    files = (Path(name) for name in sources(built).keys() - {"__main__.py"})
    named = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    assert ours == named
    assert all(modules[name].startswith(f"{file}/") for name in ours)
    others = {name.split(".")[0] for name in set(modules) - ours}
    assert others <= {*standard, "__main__", *sys.builtin_module_names}


def test_equal_sources_give_equal_bytes(built: agent_archive.AgentArchive, tmp_path: Path) -> None:
    """Wherever they are, whoever owns them, whenever they were written."""
    package = copied(tmp_path)
    for path in package.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (10**9, 10**9))
    assert agent_archive.build(package).content == built.content
    assert built.content.startswith(b"#!/usr/bin/env python3\nPK")
    with zipfile.ZipFile(io.BytesIO(built.content)) as archive:
        entries = archive.infolist()
    assert [e.filename for e in entries][1:] == sorted(e.filename for e in entries)[1:]
    assert {(e.date_time, e.compress_type, e.external_attr >> 16) for e in entries} == {
        ((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED, 0o100644)
    }


def test_a_package_that_lacks_a_module_is_refused(tmp_path: Path) -> None:
    """The name of what is missing, instead of an archive that fails on a host."""
    package = copied(tmp_path)
    (package / "agent" / "entry.py").unlink()
    with pytest.raises(MissingPrerequisite, match=r"agent/entry\.py"):
        agent_archive.build(package)


def test_nothing_is_imported_after_the_start(built: agent_archive.AgentArchive) -> None:
    """The file may be another one by then, and an import from it reads it anew."""
    for name, text in sources(built).items():
        tree = ast.parse(text)
        late = [
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert not late or name == "__main__.py", f"{name}: {ast.unparse(late[0])}"


def test_the_checker_of_python_3_8_reads_every_module_of_it(
    built: agent_archive.AgentArchive,
) -> None:
    """`make lint` names places; a module that comes to be packed from elsewhere is none of them."""
    for name in sources(built).keys() - {"__main__.py"}:
        assert any(Path(name).is_relative_to(place) for place in AGENT), name


def test_no_method_is_called_that_python_3_8_lacks(built: agent_archive.AgentArchive) -> None:
    """By name alone, on whatever it is called: stricter than needed, and easily kept."""
    for name, text in sources(built).items():
        named = {n.attr for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute)}
        assert not named & LATER_METHODS, name


def test_what_the_environment_says_to_python_does_not_reach_it(
    built: agent_archive.AgentArchive, tmp_path: Path
) -> None:
    """Started by its shebang, without `-I`: a module on PYTHONPATH isn't taken for the library's."""
    file = tmp_path / "agent.pyz"
    built.write(file)
    (tmp_path / "argparse.py").write_text("raise SystemExit('not the library')\n")
    done = run(str(file), "--version", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"agent {__version__}\n"), done.stderr
    assert "python3 -I agent.pyz --directory" in " ".join(run(str(file), "--help").stdout.split())


def test_an_old_python_is_told_which_one_is_needed(tmp_path: Path) -> None:
    """Before it reads a line that it can't understand."""
    text = (PACKAGE / "agent" / "entry.py").read_text()
    old = "import sys\nsys.version_info, sys.version = (3, 6, 8), '3.6.8 (default)'\n"
    program = tmp_path / "old.py"
    program.write_text(old + text)
    done = run("-I", str(program), "--version")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "agent: Python 3.8 or later is needed, this is 3.6.8\n"
    assert ast.parse(text, feature_version=(3, 4))


def test_an_agent_does_not_start_from_a_file_that_changes_under_it(
    built: agent_archive.AgentArchive, tmp_path: Path
) -> None:
    """Its wardens would be started from something that isn't whole."""
    file = tmp_path / "agent.pyz"
    built.write(file)
    program = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from samza_dagster.agent import main\n"
        "content = open(sys.argv[1], 'rb').read()\n"
        "open(sys.argv[1], 'wb').write(content[:-5000])\n"
        "sys.exit(main.main(sys.argv[2:]))\n"
    )
    started = ["--directory", str(tmp_path / "d"), "--host", "h", "--memory-mb", "1"]
    started += ["--cores", "1", "--coordinator-url-file", "u", "--token-file", "t"]
    done = run("-I", "-c", program, str(file), *started)
    assert done.returncode == 1
    assert done.stderr.startswith(f"agent: replaced while it started, start it again: {file}: ")


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["agent", "build", *arguments])


def test_the_command_puts_it_in_place_and_says_what_it_is(tmp_path: Path) -> None:
    """One JSON document; executable; what was there is replaced whole, never written over."""
    file = tmp_path / "agent.pyz"
    file.write_text("an older one")
    held = file.open()
    document = json.loads(command("--output", str(file), "--json").stdout)
    built = agent_archive.build()
    assert file.read_bytes() == built.content
    assert document == {
        "path": str(file),
        "sha256": built.sha256,
        "version": __version__,
        "size": len(built.content),
    }
    assert file.stat().st_mode & 0o777 == 0o755
    assert held.read() == "an older one"
    assert [path.name for path in tmp_path.iterdir()] == ["agent.pyz"]
    told = command("--output", str(file)).stdout
    assert built.sha256 in told
    assert f"agent {__version__}" in told


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Exit 1 for a directory that isn't there, 2 for one in the file's place."""
    missing = tmp_path / "no" / "agent.pyz"
    document = json.loads(command("--output", str(missing), "--json").stdout)
    assert (document["error"], document["exit_code"]) == ("ActionFailed", 1)
    assert str(missing) in document["asked"]
    assert command("--output", str(tmp_path)).exit_code == 2
