"""The picture of a bounce: who is at what, and for how long who was down."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from samza_dagster.orchestration.operations.schedule import Progress, UnitStatus
from samza_dagster.orchestration.operations.shown import progress_svg
from samza_dagster.orchestration.show.pictures import MOST_BYTES, picture
from samza_dagster.orchestration.show.timeline import DRAWN_AT_MOST
from samza_dagster.orchestration.text import in_words

pytestmark = pytest.mark.unit
BEGAN_MS = 1_700_000_000_000


def back(processor: str, second: int, down_s: float = 4.0) -> Progress:
    """Asked for at that second, down from the next one, back 10 s after it was asked for."""
    asked = BEGAN_MS + second * 1000
    return Progress(
        processor,
        "host-1",
        "active",
        status=UnitStatus.BACK,
        asked_ms=asked,
        stop_ms=asked + 1000,
        in_ms=asked + 1000 + round(down_s * 1000),
        back_ms=asked + 10_000,
        down_s=down_s,
    )


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter() if each.text]


def bars(svg: str, kind: str) -> list[tuple[float, float]]:
    """(x, width) of the bars of a kind, the legend's left out."""
    found = re.findall(rf'class="{kind}" x="([0-9.]+)" y="([0-9]+)" width="([0-9.]+)"', svg)
    return [(float(x), float(wide)) for x, y, wide in found if int(y) > 40]


def test_each_processor_has_its_time_and_its_time_down_to_one_scale() -> None:
    """4 s down of 10 s, one after the other."""
    drawn = progress_svg([back("0", 0), back("1", 10, down_s=2.0)])
    (first, wide), (second, as_wide) = bars(drawn, "s")
    assert second == pytest.approx(first + wide, abs=0.2)
    assert wide == pytest.approx(as_wide, abs=0.2)
    downs = [width for _, width in bars(drawn, "d")]
    assert downs == [pytest.approx(wide * 0.4, abs=0.2), pytest.approx(wide * 0.2, abs=0.2)]
    assert {"2 of 2 back", "4.0 s down", "2.0 s down"} <= set(texts(drawn))


def test_who_waits_flies_or_failed_is_told() -> None:
    """A bounce in progress: the one in flight is drawn up to the last moment known."""
    flying = Progress("1", "h", "active", status=UnitStatus.IN_FLIGHT, asked_ms=BEGAN_MS + 2000)
    failed = Progress("2", "h", "active", status=UnitStatus.FAILED, asked_ms=BEGAN_MS + 3000)
    drawn = progress_svg([Progress("3", "h", "active"), failed, flying, back("0", 0)])
    assert "1 of 4 back, 1 in flight, 1 failed" in texts(drawn)
    ((x, wide),) = bars(drawn, "s")
    ((from_x, to_end),) = bars(drawn, "o")
    assert from_x + to_end == pytest.approx(x + wide, abs=0.2)
    names = [text for text in texts(drawn) if text in ("0", "1", "2", "3")]
    assert names == ["0", "1", "2", "3"], "in the order in which they were asked for"


def test_before_anybody_is_asked_for_there_is_a_picture_too() -> None:
    """All wait."""
    drawn = progress_svg([Progress(str(n), "h", "active") for n in range(3)])
    assert "0 of 3 back" in texts(drawn)
    assert texts(drawn).count("waiting") == 3


def test_of_a_thousand_those_are_drawn_that_matter_now() -> None:
    """Whoever isn't back, then who came back last; the rest is counted."""
    flying = Progress("f", "h", "active", status=UnitStatus.IN_FLIGHT, asked_ms=BEGAN_MS)
    rows = [flying, *[back(str(n), n) for n in range(900)]]
    rows += [Progress(f"w{n}", "h", "active") for n in range(99)]
    drawn = progress_svg(rows)
    assert f"900 of 1000 back, 1 in flight, {1000 - DRAWN_AT_MOST} not drawn" in texts(drawn)
    assert {"f", "899"} <= set(texts(drawn))
    assert "0" not in texts(drawn)
    assert len(picture(drawn)) < MOST_BYTES


def test_names_are_text_and_nothing_else() -> None:
    """A processor may be called as it likes."""
    drawn = progress_svg([Progress("<b>&", "<i>", "active")])
    assert {"<b>&", "<i>"} <= set(texts(drawn))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (89, "89 s"),
        (600, "10 min"),
        (12_000, "3 h 20 min"),
        (95_356_651, "1,103 d"),
    ],
)
def test_a_span_is_told_as_people_tell_it(seconds: int, words: str) -> None:
    """Of a span of years a picture said 95,356,651 s."""
    assert in_words(seconds) == words
