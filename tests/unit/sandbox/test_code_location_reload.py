"""What the web server answers to a reload of a code location decides whether a stack is ready."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.sandbox.graphql import not_reloaded

pytestmark = pytest.mark.unit
LOADED: dict[str, Any] = {
    "__typename": "WorkspaceLocationEntry",
    "locationOrLoadError": {"__typename": "RepositoryLocation"},
}
UNREACHED: dict[str, Any] = {"__typename": "PythonError", "message": "UNAVAILABLE"}


def test_a_location_that_was_loaded_anew_lacks_nothing() -> None:
    """Its code server was reached."""
    assert not_reloaded(LOADED) == ""


@pytest.mark.parametrize(
    "answer",
    [UNREACHED, LOADED | {"locationOrLoadError": UNREACHED}, {"__typename": "ReloadNotSupported"}],
    ids=["an error", "a load error", "a refusal"],
)
def test_what_kept_a_location_from_being_loaded_is_told(answer: dict[str, Any]) -> None:
    """The web server still shows what it had from the code server before."""
    found = answer.get("locationOrLoadError", answer)
    assert found["__typename"] in not_reloaded(answer)
