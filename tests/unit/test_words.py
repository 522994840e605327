"""Words that a program can judge: the rules of `CONTRIBUTING.md`, section Words, on pages and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((ROOT / "samza_dagster").rglob("*.py"))
MOST_WORDS = 30
NO_BEGINNING = re.compile(r"(What|Who|Whose|Whoever|Whether|Those|It|One|Of|By|As|That|Which)\b")
NO_ACTOR = re.compile(r"\b(whoever|whom|whomever)\b", re.IGNORECASE)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(module: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, those of attributes included, without indented blocks."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                text = inspect.cleandoc(text)
                yield node.lineno, re.sub(r"^ .*$", "\n", text, flags=re.MULTILINE)
            case _:
                pass


def first_docstrings(module: Path) -> Iterator[str]:
    """Yield the docstring of the module and of each class and function in it."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def prose(page: str) -> str:
    """Return the sentences of a page: no blocks, tables or headings; code is one word."""
    text = re.sub(r"^ *```.*?^ *```", "\n", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *(\||#|!\[).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"^ *([-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences, and their parts at a colon or a semicolon."""
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def long_ones(text: str) -> list[str]:
    """Return the sentences of more words than a reader keeps in mind."""
    return [one for one in sentences(text) if len(one.split()) > MOST_WORDS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_short_sentences_with_an_actor(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    assert long_ones(text) == []
    assert NO_ACTOR.findall(text) == []


def test_a_docstring_begins_with_what_a_call_does_or_a_value_is() -> None:
    wrong = [
        f"{module.relative_to(ROOT)}: {text.splitlines()[0]}"
        for module in MODULES
        for text in first_docstrings(module)
        if NO_BEGINNING.match(text)
    ]
    assert wrong == []


def test_a_docstring_has_short_sentences_with_an_actor() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {one}"
        for module in MODULES
        for line, text in docstrings(module)
        for one in sentences(prose(text))
        if len(one.split()) > MOST_WORDS or NO_ACTOR.search(one)
    ]
    assert found == []
