"""Which histories run through a mutant's statement: in any other it is the reducer as it is."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from tests.mutants.patches import PLACEMENT, ROOT, Mutant

AT_IMPORT = 0
"""Stands for a seed: lines that run before any history does."""

Lines = Mapping[int, Mapping[str, frozenset[int]]]


@dataclass(frozen=True)
class Reach:
    """Per seed, the lines of each module of the reducer that its history runs through."""

    lines: Lines

    @property
    def seeds(self) -> tuple[int, ...]:
        """All of them, in order."""
        return tuple(seed for seed in self.lines if seed != AT_IMPORT)

    def seeds_of(self, mutant: Mutant) -> tuple[int, ...]:
        """Those whose histories the mutant can change.

        All of them where that can't be told: what runs at import, and what is kept by
        `cache` from one history to the next.
        """
        span = statement_of((ROOT / PLACEMENT / mutant.file).read_text(), mutant.line)
        if span is None:
            return self.seeds
        ran = {
            seed
            for seed, files in self.lines.items()
            if not files.get(mutant.file, frozenset()).isdisjoint(span)
        }
        if AT_IMPORT in ran:
            return self.seeds
        return tuple(seed for seed in self.seeds if seed in ran)


def statement_of(source: str, line: int) -> range | None:
    """Lines of the innermost statement of a function there, without what is inside of its blocks.

    None for what is in no function, or in one that is cached.
    """
    within = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    functions = [node for node in within if isinstance(node, ast.FunctionDef)]
    if not functions or any("cache" in ast.dump(d) for f in functions for d in f.decorator_list):
        return None
    found = max(within, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    if isinstance(found, ast.FunctionDef | ast.ClassDef):
        return None
    last = found.end_lineno or found.lineno
    if isinstance(found, ast.If | ast.While | ast.For | ast.With):
        last = max(found.lineno, found.body[0].lineno - 1)
    return range(found.lineno, last + 1)
