"""What benchmarks leave behind."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results_file import keep


def test_the_first_results_of_a_clone_are_kept(tmp_path: Path) -> None:
    """Its directory isn't there yet: all that the cockpit's benchmark had measured was lost."""
    file = tmp_path / "results" / "cockpit_reaction.json"
    keep("{}", file)
    assert file.read_text() == "{}\n"
