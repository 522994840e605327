"""What a run logs of a request can be found by that request's id."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from samza_dagster import orchestration

pytestmark = pytest.mark.unit
_LEVELS = ("debug", "info", "warning", "error")


def test_a_line_that_names_a_request_has_its_id_as_a_field_too() -> None:
    """JSON logs are searched by `request`: lines that had the id in their text alone weren't found."""
    root = Path(orchestration.__file__).parent
    calls = [
        (f"{file.relative_to(root)}:{call.lineno}", call)
        for file in root.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and _logs_a_uuid(call)
    ]
    assert len(calls) > 3
    bare = [where for where, call in calls if "extra" not in {each.arg for each in call.keywords}]
    assert bare == []


def _logs_a_uuid(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _LEVELS:
        return False
    return ast.unparse(function.value).endswith(".log") and any(
        isinstance(part, ast.FormattedValue) and ast.unparse(part.value).endswith("uuid")
        for argument in call.args
        for part in ast.walk(argument)
    )
