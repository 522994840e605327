"""Operator mutants: every comparison, condition, constant and call of the reducer, a little wrong.

The standard `ast` does it. mutmut 3.8 judges by pytest alone, and a simulation is judged by
its own rules; cosmic-ray 8.7 takes any command, and brings aiohttp, SQLAlchemy and GitPython
to run it over a session in SQLite. Neither leaves out a field of `evolve`, which is the
mistake that a reducer of frozen records invites.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial

from tests.mutants.equivalent import proof_of
from tests.mutants.patches import PLACEMENT, ROOT, Mutant

_FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}

Change = Callable[[ast.AST], ast.AST]


def operator_mutants(module: str = "") -> list[Mutant]:
    """All of them (or of one module), in order of file and line; the text is made when asked for."""
    found: list[Mutant] = []
    for path in sorted((ROOT / PLACEMENT).glob(module or "*.py")):
        if path.name != "__init__.py":
            found.extend(_mutants_of(path.name, path.read_text()))
    return found


def equivalents(mutants: list[Mutant]) -> list[Mutant]:
    """Those of them that make no difference (`equivalent.py`)."""
    sources = {m.file: (ROOT / PLACEMENT / m.file).read_text() for m in mutants}
    lines = {file: source.splitlines() for file, source in sources.items()}
    functions = {file: _functions(source) for file, source in sources.items()}
    return [
        mutant
        for mutant in mutants
        if proof_of(
            mutant.file,
            lines[mutant.file][mutant.line - 1],
            mutant.name.split(" ", 1)[1],
            functions[mutant.file].get(mutant.line, ""),
        )
    ]


def _functions(source: str) -> dict[int, str]:
    """Line → the innermost function there."""
    found: dict[int, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node.name)
    return found


def _mutants_of(file: str, source: str) -> Iterator[Mutant]:
    for place, node in enumerate(_mutable(ast.parse(source))):
        for number, (what, _) in enumerate(_changes(node)):
            line = getattr(getattr(node, "target", node), "lineno", 0)
            make = partial(_text, source, place, number)
            yield Mutant(f"{file}:{line} {what}", file, "", "", line=line, make=make)


def _text(source: str, place: int, number: int) -> str:
    """The module with one change at one node."""
    tree = ast.parse(source)
    target = list(_mutable(tree))[place]
    _, change = list(_changes(target))[number]
    _replace(tree, target, change(target))
    return ast.unparse(ast.fix_missing_locations(tree))


def _mutable(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of functions and of module constants: no annotations, docstrings, imports, asserts."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        yield from _without_annotations(node)


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    hidden: set[int] = set()
    if isinstance(node, ast.AnnAssign):
        hidden.add(id(node.annotation))
        # A field's default is a number that somebody chose; each history has its own.
        if isinstance(node.value, ast.Constant):
            hidden.add(id(node.value))
    elif isinstance(node, ast.FunctionDef):
        hidden |= {id(node.returns), *map(id, node.decorator_list)}
        hidden.add(id(node.args))
    elif isinstance(node, ast.ClassDef):
        hidden |= set(map(id, node.decorator_list)) | set(map(id, node.bases))
    for child in ast.iter_child_nodes(node):
        if id(child) in hidden or isinstance(child, ast.Import | ast.ImportFrom | ast.Assert):
            continue
        if isinstance(child, ast.JoinedStr):
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        yield child
        yield from _without_annotations(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=[op], left=_, comparators=_) if type(op) in _FLIPS:
            flipped = _FLIPS[type(op)]
            yield f"{_name(op)} → {flipped.__name__}", _with(ops=[flipped()])
            if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                other = ast.Gt if isinstance(op, ast.Lt | ast.LtE) else ast.Lt
                yield f"{_name(op)} → {other.__name__}", _with(ops=[other()])
        case ast.BoolOp(op=op):
            new = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"{_name(op)} → {_name(new)}", _with(op=new)
            for place in range(len(node.values)):
                yield f"operand {place + 1} dropped", _without_operand(place)
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", lambda n: n.operand  # type: ignore[attr-defined]
        case ast.If() | ast.While() | ast.IfExp():
            yield (
                "condition negated",
                lambda n: _set(
                    n,
                    test=ast.UnaryOp(ast.Not(), n.test),  # type: ignore[attr-defined]
                ),
            )
        case ast.Constant(value=bool() as value):
            yield f"{value} → {not value}", _with(value=not value)
        case ast.Constant(value=int() as value):
            yield f"{value} → {value + 1}", _with(value=value + 1)
            yield f"{value} → {value - 1}", _with(value=value - 1)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.BitOr() | ast.Mult() as op):
            swap = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd, ast.Mult: ast.Add}
            new_op = swap[type(op)]
            yield f"{_name(op)} → {new_op.__name__}", _with(op=new_op())
        case ast.AugAssign(op=ast.Add() | ast.Sub() as op):
            yield "sign of an update", _with(op=ast.Sub() if isinstance(op, ast.Add) else ast.Add())
        case ast.Expr(value=ast.Call() | ast.Yield()):
            yield "statement removed", lambda _: ast.Pass()
        case ast.Return(value=ast.expr()) if not _is_none(node.value):
            yield "returns None", _with(value=ast.Constant(None))
        case ast.Continue():
            yield "continue → break", lambda _: ast.Break()
        case ast.Break():
            yield "break → continue", lambda _: ast.Continue()
        case ast.comprehension(ifs=[_, *_]):
            yield "filter dropped", _with(ifs=[])
        case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED_CALLS:
            new_name = _SWAPPED_CALLS[name]
            yield f"{name} → {new_name}", _with(func=ast.Name(new_name, ast.Load()))
        case ast.Call(func=ast.Attribute(attr="evolve"), keywords=keywords):
            for place, keyword in enumerate(keywords):
                yield f"evolves without {keyword.arg}", _without_keyword(place)
        case _:
            return


def _with(**fields: object) -> Change:
    return lambda node: _set(node, **fields)


def _set(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _without_operand(place: int) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.BoolOp)
        left = [value for n, value in enumerate(node.values) if n != place]
        return left[0] if len(left) == 1 else _set(node, values=left)

    return change


def _without_keyword(place: int) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Call)
        return _set(node, keywords=[k for n, k in enumerate(node.keywords) if n != place])

    return change


def _replace(tree: ast.AST, target: ast.AST, new: ast.AST) -> None:
    if new is target:
        return
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is target:
                setattr(node, name, new)
                return
            if isinstance(value, list) and any(entry is target for entry in value):
                setattr(node, name, [new if entry is target else entry for entry in value])
                return


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _name(op: ast.AST) -> str:
    return type(op).__name__
