"""What the pages name exists: functions, rooms, files, links, commands with their options, targets."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import click
import dagster as dg
import pytest

from samza_dagster.cli.main import cli
from samza_dagster.orchestration.component import SamzaJobComponent

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "samza_dagster"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)


def rooms(below: Path) -> set[str]:
    return {init.parent.name for init in below.glob("*/__init__.py")}


def quoted(page: Path) -> str:
    """All that stands in backticks or between fences."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```.*?^```", text, flags=re.DOTALL | re.MULTILINE)
    plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join([*fenced, *re.findall(r"`([^`]+)`", plain)])


def test_each_function_in_the_life_of_a_request_exists() -> None:
    """Named by its import path below `samza_dagster`."""
    named = re.findall(r"`((?:\w+\.)+\w+)`", ARCHITECTURE.read_text(encoding="utf-8"))
    functions = [name for name in named if name.partition(".")[0] in rooms(PACKAGE)]
    assert len(functions) > 50
    for name in functions:
        pkgutil.resolve_name(f"samza_dagster.{name}")


def test_the_picture_of_the_rooms_shows_those_that_are_there() -> None:
    """Each of them, and no other."""
    picture = ARCHITECTURE.read_text(encoding="utf-8").split("## The rooms")[1]
    inside = {line for line in picture.splitlines() if line.startswith("│")}
    shown = {name for line in inside for name in re.findall(r"(\w+)/", line)}
    assert shown == rooms(PACKAGE / "orchestration")
    top = [line for line in picture.splitlines() if re.match("[├└]", line)]
    shown = {name for line in top for name in re.findall(r"(\w+)/", line.replace("fencing/", ""))}
    assert shown == rooms(PACKAGE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_points_at_is_there(page: Path) -> None:
    """Links to other pages and to their headings, files of the repository, targets of `make`."""
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        file = (page.parent / target) if target else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
    named = quoted(page)
    for path in re.findall(r"(?<![\w/…$~.-])((?:\w+/)+\w+\.(?:py|md|txt))\b", named):
        assert any((base / path).exists() for base in (ROOT, PACKAGE, page.parent)), path
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", named, re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_command_and_option_on_a_page_exists(page: Path) -> None:
    """`samza-dagster …` as it is written, up to a comment or the end of its line."""
    for line in re.findall(r"(?<![\w./-])samza-dagster ([^\n#)\"]+)", quoted(page)):
        words = line.split()
        command: click.Command = cli
        while isinstance(command, click.Group) and words and words[0][0] not in "-…":
            name = words.pop(0)
            found = [command.get_command(click.Context(command), one) for one in name.split("|")]
            assert all(found), f"samza-dagster {line}: no command {name}"
            command = found[0] or command
        options = {
            flag for param in command.params for flag in (*param.opts, *param.secondary_opts)
        }
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options | {"--help"}, f"samza-dagster {line}"


def test_the_readme_names_each_job_sensor_and_asset() -> None:
    """Those of a component as it is scaffolded."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    told = text.split("In Dagster: jobs")[1].split("A code location needs")[0]
    component = SamzaJobComponent(bootstrap_servers="b:1", app_name="orders")
    assets = component.build_assets()
    keys = {
        key for one in assets for key in ({one.key} if isinstance(one, dg.AssetSpec) else one.keys)
    }
    made = {one.name for one in (*component.build_jobs(), *component.build_sensors())}
    made |= {key.to_user_string() for key in keys}
    assert set(re.findall(r"`([a-z_]+)`", told)) == made


def test_each_test_that_a_page_names_exists() -> None:
    """A file or a function, or how such a name begins: what is promised is shown by it."""
    files = list((ROOT / "tests").rglob("*.py"))
    known = {file.stem for file in files}
    for file in files:
        known |= set(re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8")))
    for page in PAGES:
        for name, more in re.findall(
            r"`(test_\w+)(?:\.py)?(…?)`", page.read_text(encoding="utf-8")
        ):
            shown = any(one.startswith(name) for one in known) if more else name in known
            assert shown, f"{page.name}: {name}{more}"
