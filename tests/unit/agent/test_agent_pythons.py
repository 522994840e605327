"""A run that couldn't try the agent on the oldest Python says so."""

from __future__ import annotations

import sys

import pytest

from tests.contract.agent.pythons import OLDER, parameters

pytestmark = pytest.mark.unit

RUNNING = {"running": sys.executable}


@pytest.mark.parametrize(
    ("found", "tried_on"),
    [(RUNNING, ""), ({"3.9": "/usr/bin/python3.9", **RUNNING}, "3.9 and ")],
    ids=["none", "a later one"],
)
def test_a_python_that_isnt_installed_is_a_skip_that_says_what_was_tried(
    found: dict[str, str], tried_on: str
) -> None:
    """Not a green run like any other."""
    missing, *others = parameters(found)
    assert missing.id == OLDER[0]
    (mark,) = missing.marks
    assert mark.name == "skip"
    running = "{}.{}".format(*sys.version_info)
    assert mark.kwargs["reason"].startswith(f"no python{OLDER[0]} is installed here")
    assert mark.kwargs["reason"].endswith(f"tried on {tried_on}the running {running}")
    assert {each.id: each.values for each in others} == {k: (v,) for k, v in found.items()}


def test_with_the_oldest_nothing_is_skipped() -> None:
    """It and the running one are all that is promised."""
    found = {OLDER[0]: "/usr/bin/python3.8", **RUNNING}
    assert [(each.id, list(each.marks)) for each in parameters(found)] == [(k, []) for k in found]
