"""The UI as an operator uses it: clicks, types and reads what is shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Request, expect
from playwright.sync_api import TimeoutError as NotInTime

from tests.rig.pace import PACE

_HERE = ("http://127.", "ws://127.", "data:", "blob:")
_PICTURES = """dialog => [...dialog.querySelectorAll('img')].map(image => {
  const at = image.getBoundingClientRect();
  return {source: image.src, loaded: image.complete && image.naturalWidth > 0,
          left: at.left, top: at.top, right: at.right, bottom: at.bottom};
})"""
_NOTHING_MOVES = "() => document.getAnimations().every(each => each.playState !== 'running')"
PAGES = "SAMZA_DAGSTER_PAGES_PICTURES"
"""The directory of pictures that README and pages show; they are written where it is given."""
STARTS_S = 300
"""A run's worker is a new process that imports everything."""


@dataclass(frozen=True)
class Picture:
    """A picture as it is rendered; in pixels of the window."""

    source: str
    loaded: bool
    left: float
    top: float
    right: float
    bottom: float

    @property
    def is_seen(self) -> bool:
        """Loaded, and with a size."""
        return self.loaded and self.right - self.left > 100 and self.bottom - self.top > 50

    @property
    def is_whole(self) -> bool:
        """All of it is in a window of 1920 × 1080."""
        inside = self.left >= 0 and self.top >= 0 and self.right <= 1920 and self.bottom <= 1080
        return self.is_seen and inside


@dataclass
class Cockpit:
    """A page of Dagster's UI at `url`; `strangers` are addresses outside of this machine."""

    page: Page
    url: str
    location: str
    pictures: Path
    strangers: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.page.on("request", self._on_request)

    def screenshot(self, name: str) -> None:
        """What the window shows now."""
        self.page.screenshot(path=self.pictures / f"{name}.png")

    def open_launchpad(self, job: str) -> None:
        """The form of a job, with its defaults."""
        path = f"{self.url}/locations/{self.location}/jobs/{job}/playground"
        self.page.goto(path, wait_until="domcontentloaded")
        expect(self._line("reason")).to_be_visible()
        expect(self.page.get_by_role("button", name="Launch Run")).to_be_visible()

    def choose(self, partition: str) -> None:
        """Picks one of the choices that are offered."""
        box = self.page.get_by_placeholder("Partition")
        choice = self.page.get_by_role("menuitem", name=partition, exact=True)
        # The form is drawn anew when its choices have come, which empties the box.
        for _ in range(20):
            box.click()
            box.fill(partition)
            try:
                choice.wait_for(timeout=3_000 * PACE)
            except NotInTime:
                continue
            choice.click()
            expect(box).to_have_value(partition)
            return
        raise AssertionError(f"{partition} is no choice that the form offers")

    def fill(self, **fields: str | int) -> None:
        """Types over the values of the form's config; what isn't asked for is added below `reason`."""
        for name, value in fields.items():
            is_asked = self._line(name).count() > 0
            self._line(name if is_asked else "reason").click()
            self.page.keyboard.press("End")
            self.page.keyboard.press("Shift+Home" if is_asked else "Enter")
            self.page.keyboard.type(f"{name}: {value}")
            self.page.keyboard.press("Escape")
            expect(self._line(name)).to_have_text(re.compile(rf"^\s*{name}: {value}\s*$"))

    def asks_for(self, **fields: str) -> None:
        """The form has these fields, with what is offered for each, as Dagster quotes it."""
        for name, offered in fields.items():
            expect(self._line(name)).to_have_text(f"{name}: '{offered}'", use_inner_text=True)

    def launch(self) -> str:
        """Launches, and is on the run's page: its id."""
        expect(self.page.get_by_text("No errors")).to_be_visible()
        self.page.get_by_role("button", name="Launch Run").click()
        self.page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
        return self.page.url.rpartition("/runs/")[2][:36]

    def open_run(self, run_id: str, *, levels: str = "") -> None:
        """The page of a run; of its log only those `levels`, as `error|info`, where they are given."""
        of_log = f"?levels={levels}" if levels else ""
        self.page.goto(f"{self.url}/runs/{run_id}{of_log}", wait_until="domcontentloaded")

    def open_asset(self, asset: str) -> None:
        """The page of an asset, with its newest metadata."""
        self.page.goto(f"{self.url}/assets/{asset}", wait_until="domcontentloaded")

    def status_is(self, status: str, *, seconds: float) -> None:
        """The run's page says so, by itself."""
        tag = self.page.get_by_text(status, exact=True).first
        expect(tag).to_be_visible(timeout=seconds * 1_000 * PACE)

    def filter_events(self, text: str) -> None:
        """Shows only events that tell of it."""
        box = self.page.get_by_placeholder("Filter…")
        box.fill(text)
        box.press("Enter")

    def reads(self, text: str, *, seconds: float = 60) -> None:
        """The page shows this text."""
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=seconds * 1_000 * PACE)

    def sees(self, text: str) -> None:
        """The text is in the window, without a scroll or a click."""
        shown = self.page.get_by_text(text).last
        expect(shown).to_be_in_viewport(timeout=60_000 * PACE)

    def picture_of_the_pages(self, name: str, *shown: str) -> None:
        """The window as a picture of README and pages, where they are to be made anew.

        Its second look, which has the icons at hand, once all of `shown` is there and nothing moves.
        """
        if os.environ.get(PAGES):
            self.page.reload(wait_until="domcontentloaded")
            for text in shown:
                self.sees(text)
            self.page.wait_for_function(_NOTHING_MOVES)
            self.page.screenshot(path=Path(os.environ[PAGES]) / f"{name}.png")

    def open_markdown(self, key: str) -> Locator:
        """Clicks on the Markdown of a metadata entry: the dialog that opens."""
        row = self.page.locator("tr", has=self.page.get_by_text(key, exact=True))
        row.get_by_text("Show Markdown").first.click()
        dialog = self.page.locator(".dagster-dialog")
        expect(dialog.locator("img").first).to_be_visible()
        # Once it has opened it takes the focus, and a window scrolls to what has it.
        expect(dialog.locator(":focus")).to_have_count(1)
        return dialog

    def close_dialog(self) -> None:
        """With Escape, as one does."""
        self.page.keyboard.press("Escape")
        expect(self.page.locator(".dagster-dialog")).to_have_count(0)

    def pictures_in_place(self, count: int = 1) -> list[Picture]:
        """The pictures that the page shows without a click, once all have come."""
        shown = self.page.locator("img[src*='/logs/']")
        expect(shown).to_have_count(count)
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('img')].every(image => image.complete)"
        )
        return self.pictures_in(self.page.locator("body"))[-count:]

    def pictures_in(self, dialog: Locator) -> list[Picture]:
        """Each picture in it, as rendered."""
        found: list[dict[str, Any]] = dialog.evaluate(_PICTURES)
        return [Picture(**one) for one in found]

    def _line(self, name: str) -> Locator:
        pattern = re.compile(rf"^\s*{name}:")
        return self.page.locator(".CodeMirror-line").filter(has_text=pattern).first

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(_HERE):
            self.strangers.append(request.url)
