"""A page of the reference: its title, its tables, its prose."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

_MADE = "<!-- Made by docs/site/reference.py: run `make docs` after a change of the code. -->"


def page(title: str, *parts: str) -> str:
    """A whole page: title, that it is made, and its parts but for empty ones."""
    return "\n\n".join((f"# {title}", _MADE, *(part.strip("\n") for part in parts if part))) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell(each) for each in line)} |" for line in lines)


def cell(text: str) -> str:
    """On one line; what isn't code is plain text: a pattern is no emphasis, a placeholder no tag."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    plain = str.maketrans({"<": "&lt;", "*": "\\*"})
    return "`".join(part if i % 2 else part.translate(plain) for i, part in enumerate(parts))


def prose(text: str) -> str:
    """A docstring without its indentation."""
    return inspect.cleandoc(text)


def default_value(value: Any) -> str:
    """As a page has it; nothing for what is empty."""
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, "", [], (), {}) else str(value)
