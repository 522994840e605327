"""Takes into the site what stands beside `docs/`: changes, contributing, measurements.

The pages link each other as files of the repository, so that a reader of the source follows them
too; what leads out of `docs/` is led back into the site here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "project/results.md",
    "benchmarks/downtime.svg": "project/downtime.svg",
}
"""Path in the repository → path in the site."""
_INSIDE = {there: here for here, there in OUTSIDE.items() if here != "README.md"}
_LINK = re.compile(r"(\]\()((?!https?:|#)[^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds them; the README is the site's own first page already."""
    for there, here in _INSIDE.items():
        files.append(File.generated(config, there, abs_src_path=str(ROOT / here)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Each relative link, as it is from the page's place in the site."""
    uri = page.file.src_uri
    at = PurePosixPath(_INSIDE.get(uri, f"docs/{uri}")).parent

    def led(match: re.Match[str]) -> str:
        meant = os.path.normpath(at / match[2])
        inside = OUTSIDE.get(meant, meant.removeprefix("docs/"))
        return match[1] + os.path.relpath(inside, PurePosixPath(uri).parent)

    return _LINK.sub(led, markdown)
