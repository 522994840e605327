"""What texts of the package tell people to run is there: every verb, and every option of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import samza_dagster
from samza_dagster.cli.main import cli

pytestmark = pytest.mark.unit
PACKAGE = Path(samza_dagster.__file__).parent
NAMED = re.compile(r"\bsamza-dagster ((?:[^\s`|;&…]+ ?)+)")
OPTION = re.compile(r"--[a-z][a-z-]*")


def named_commands() -> Iterator[tuple[str, list[str]]]:
    """Where each stands, and the words after `samza-dagster`."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for line in node.value.replace("\\\n", " ").splitlines():
                    for found in NAMED.finditer(line):
                        yield f"{file.relative_to(PACKAGE)}:{node.lineno}", found[1].split()


def what_is_wrong(words: list[str]) -> str:
    """The first word that names nothing; empty when all are known."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        word = words[0].strip(".,:)'\"")
        inner = command.get_command(context, word)
        if inner is None:
            return "" if command is not cli and not word.isalpha() else word
        command, words = inner, words[1:]
    if command.context_settings.get("ignore_unknown_options"):
        return ""  # they are those of the program that it becomes
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    asked = {option for word in words for option in OPTION.findall(word)}
    return ", ".join(sorted(asked - known - {"--help"}))


def test_every_command_that_a_text_names_is_one() -> None:
    """A fix that can't be typed helps nobody."""
    seen = list(named_commands())
    assert len(seen) > 100
    wrong = {f"{where}: samza-dagster {' '.join(w)}": what_is_wrong(w) for where, w in seen}
    assert {text: word for text, word in wrong.items() if word} == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("place 0 --to host-3", ""),
        ("placement 0", "placement"),
        ("sandbox op", "op"),
        ("place 0 --two host-3", "--two"),
    ],
)
def test_what_names_nothing_is_found(text: str, word: str) -> None:
    assert what_is_wrong(text.split()) == word
