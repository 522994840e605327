"""What the pages name exists, and works as it stands there: commands, YAML, links, files, targets."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config

from docs.site.reference import PAGES as MADE_PAGES
from samza_dagster.cli.main import cli
from samza_dagster.cli.place_container import place_container
from samza_dagster.orchestration.component import TYPE, SamzaJobComponent

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "samza_dagster"
ARCHITECTURE = ROOT / "docs" / "architecture" / "index.md"
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


def fenced(page: Path, *kinds: str) -> list[str]:
    """The blocks of a page between fences of one of these kinds."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)
    return [block for kind, block in blocks if kind in kinds]


OURS = {"samza-dagster": cli, "place-container": place_container}


def commands(script: str) -> Iterator[list[str]]:
    """Each command of ours in a script, with its arguments."""
    script = script.replace("\\\n", " ").replace("…", "x")
    for inner in re.findall(r"\$\(([^()]*)\)", script):
        yield from commands(inner)
    for line in re.sub(r"\$\([^()]*\)", "x", script).splitlines():
        if not any(name in line for name in OURS):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = [word.removeprefix(".venv/bin/") for word in lexer]
        for start in (i for i, word in enumerate(words) if word in OURS):
            rest = words[start:]
            end = next((i for i, word in enumerate(rest) if set(word) <= set("();<>|&")), len(rest))
            yield rest[:end]


COMMANDS = [
    pytest.param(words, id=f"{page.relative_to(ROOT).as_posix()}: {shlex.join(words)}")
    for page in PAGES
    for block in fenced(page, "", "sh")
    for words in commands(block)
]


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_on_a_page_is_one_that_the_command_line_takes(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Command, options, arguments and their values, as click reads them; nothing is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    name, *rest = words
    for word in rest:
        if re.fullmatch(r"[\w-]+\.(json|jsonl|properties)", word):
            (tmp_path / word).touch()
    command: click.Command = OURS[name]
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found, command, rest = command.resolve_command(context, rest)
        assert command is not None, words
        context = click.Context(command, info_name=found, parent=context)
    if set(rest) & {"--help", "--version"}:
        return
    command.make_context(command.name, rest)


def test_the_commands_of_all_pages_are_read() -> None:
    """So many that a fence or a shell's sign that isn't understood would show."""
    assert len(COMMANDS) > 120
    assert ["samza-dagster", "sandbox", "status", "--env"] in [each.values[0] for each in COMMANDS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_command_that_a_sentence_names_exists(page: Path) -> None:
    """`samza-dagster …` in backticks: the command, and its options."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"`samza-dagster ([^`]+)`", text):
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


def attributes_of(block: str) -> dict[str, Any] | None:
    """Of a component, or of a part of one; None for any other YAML."""
    document = yaml.safe_load(block)
    found = document.get("attributes", document) if isinstance(document, dict) else None
    names = {each.name for each in dataclasses.fields(SamzaJobComponent)}
    return found if found and set(found) <= names else None


COMPONENTS = [
    pytest.param(found, id=f"{page.relative_to(ROOT).as_posix()} {number}")
    for page in PAGES
    for number, block in enumerate(fenced(page, "yaml"))
    if (found := attributes_of(block)) is not None
]


@pytest.mark.parametrize("attributes", COMPONENTS)
def test_each_component_on_a_page_loads(
    attributes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is written, a part of one with a job beside it; what it takes from the environment is there."""
    monkeypatch.setenv("SAMZA_DAGSTER_BOOTSTRAP_SERVERS", "broker-1:9092")
    file = tmp_path / "samza_job.yaml"
    job = {} if {"app_name", "jobs"} & set(attributes) else {"app_name": "orders"}
    given = {"bootstrap_servers": "broker-1:9092", **job, **attributes}
    file.write_text(yaml.safe_dump({"type": TYPE, "attributes": given}))
    assert SamzaJobComponent.from_file(file).build_jobs()
    assert len(COMPONENTS) > 10


@pytest.mark.parametrize("name", MADE_PAGES)
def test_the_reference_is_what_the_code_says(name: str) -> None:
    """Whoever changes a command, a field, a metric or a column runs `make docs`."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == MADE_PAGES[name]()


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No link, heading or page is missing; a reader without a network sees all of it."""
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(
        str(ROOT / "docs/site/mkdocs.yml"), strict=True, site_dir=str(tmp_path / "site")
    )
    build(config)
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"(https?:[^\"]*)", html
        )
        assert not loaded, page


OF_OTHERS = re.compile(
    r"Failed to resolve|Connection refused|SASL authentication|SSL handshake|PLAINTEXT broker"
    r"|PKIX path|brokers are down|Timed out|Host |No such file|Read-only file|Permission denied|Not a directory"
    r"|No space left|Extra inputs|No module named|no module kazoo|Version table|than one head|Connect to "
    r"|Read timed out|Downloaded file size|FileMapInfo"
)
"""What librdkafka, Java, the kernel, pydantic and SQLAlchemy say; and a library's name."""


def test_each_message_that_is_explained_is_one_of_ours() -> None:
    """In the first column; of what stands for names and numbers the text around it."""
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    code = "\n".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    code = re.sub(r"\{[^{}\n]*\}", "…", code) + (ROOT / "Makefile").read_text(encoding="utf-8")
    told = re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE)
    messages = [message for cell in told for message in re.findall(r"`([^`]+)`", cell)]
    assert len(messages) > 50
    for message in messages:
        for part in re.split(r"…|\d+|'[^' ]*'", message):
            if len(part.strip()) >= 8 and not OF_OTHERS.search(part):
                assert part.strip() in code, f"{message!r}: {part!r}"


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
