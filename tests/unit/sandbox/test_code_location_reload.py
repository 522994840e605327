"""What the web server answers to a reload of a code location decides whether a stack is ready."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.sandbox.graphql import not_reloaded

pytestmark = pytest.mark.unit
LOADED = {
    "__typename": "WorkspaceLocationEntry",
    "locationOrLoadError": {"__typename": "RepositoryLocation"},
}
UNREACHED = {"__typename": "PythonError", "message": "UNAVAILABLE"}


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (LOADED, ""),
        (UNREACHED, "PythonError"),
        (LOADED | {"locationOrLoadError": UNREACHED}, "PythonError"),
        ({"__typename": "ReloadNotSupported"}, "ReloadNotSupported"),
    ],
    ids=["loaded", "an error", "a load error", "a refusal"],
)
def test_a_location_is_loaded_anew_or_what_kept_it_is_told(
    answer: dict[str, Any], missing: str
) -> None:
    """The web server still shows what it had from the code server before."""
    found = not_reloaded(answer)
    assert missing in found if missing else not found
