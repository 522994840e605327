"""One stage and one Chromium for all browser tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import chromium, flags
from tests.browser.cockpit import Cockpit
from tests.browser.stage import Stage, staged
from tests.rig.pace import PACE

SCREENSHOTS = "SAMZA_DAGSTER_TEST_SCREENSHOTS"
PATIENCE_MS = 60_000 * PACE


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=flags())
        yield running
        running.close()


@pytest.fixture(scope="session")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A job of four real containers, and Dagster with the repository's definitions.

    After the browser: without one nothing is started.
    """
    with staged(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture
def cockpit(
    browser: Browser, stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Cockpit]:
    """A page of the UI; what it looked like in the end is kept where a person can look at it."""
    pictures = Path(os.environ.get(SCREENSHOTS, tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    page = browser.new_page(viewport={"width": 1920, "height": 1080})
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    made = Cockpit(page, stage.stack.url, stage.stack.location, pictures)
    yield made
    made.screenshot(f"{request.node.name}-end")
    page.close()
    assert made.strangers == [], "the UI asked for something outside of this machine"
