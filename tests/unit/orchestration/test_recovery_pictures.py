"""What recovery would cost, drawn: hosts × containers, and if a host died now."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from samza_dagster.orchestration.show.gallery import IN_PLACE, Gallery
from samza_dagster.orchestration.show.pictures import WIDTH
from samza_dagster.orchestration.show.recovery import heat_svg, loss_svg

pytestmark = pytest.mark.unit
SVG = "{http://www.w3.org/2000/svg}"


def forecast(processor: str, host: str | None, took: float | None, *, warm: bool = False) -> Any:
    return {
        "job_name": "demo",
        "job_id": "1",
        "processor_id": processor,
        "host": host,
        "is_warm": warm,
        "restore_s": took,
    }


def loss(host: str, took: float | None, *, standby: bool = True) -> Any:
    return {
        "job_name": "demo",
        "job_id": "1",
        "host": host,
        "processor_id": "0",
        "has_standby": standby,
        "downtime_s": took,
    }


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    assert all(float(each.get("x", 0)) < WIDTH for each in root.iter(f"{SVG}text"))
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def test_the_heat_map_has_a_cell_for_each_container_and_host() -> None:
    """Warm is bold; what isn't known is a question; any other host stands last."""
    rows = [
        forecast("0", "host-2", 4.0, warm=True),
        forecast("0", None, 700.0),
        forecast("1", "host-2", None),
    ]
    drawn = heat_svg(rows)
    told = texts(drawn)
    assert told[-1] == "12 min"
    assert "4 s" in told
    assert "?" in told
    assert told.index("host-2") < told.index("any other host")
    assert drawn.count('font-weight="bold"') == 1


def test_of_many_containers_those_are_drawn_that_need_longest() -> None:
    """How many aren't is said."""
    drawn = texts(heat_svg([forecast(f"{n}", "host-1", float(n)) for n in range(100)]))
    assert "99" in drawn
    assert "3" not in drawn
    assert any("86 quicker not drawn" in text for text in drawn)


def test_the_host_whose_death_hurts_most_comes_first() -> None:
    """What isn't known hurts more than anything that is."""
    rows = [loss("host-1", 4.0), loss("host-2", 90.0, standby=False), loss("host-3", None)]
    told = [text for text in texts(loss_svg(rows)) if text.startswith(("host", "1 active"))]
    assert told[::2] == ["host-3", "host-2", "host-1"]
    assert told[1] == "1 active, down for how long isn't known"
    assert "1 without a standby" in told[3]
    both = texts(loss_svg([loss("host-1", 4.0), loss("host-1", None)]))
    assert both[-1] == "2 actives, down up to 4 s, 1 not known"


def test_a_picture_in_place_is_shorter_than_what_the_ui_hides(tmp_path: Any) -> None:
    """Where logs are files; elsewhere the picture itself is in the Markdown."""

    class Logs:
        def get_captured_local_path(self, key: list[str], kind: str) -> str:
            return str(tmp_path.joinpath(*key[:-1], f"{key[-1]}.{kind}"))

    class Instance:
        compute_log_manager: Any = Logs()

    instance: Any = Instance()
    drawn = loss_svg([loss(f"host-{n}", 1.0) for n in range(40)])
    shown = Gallery(instance, "run").hang(drawn, "if_a_host_dies")
    assert len(shown.value or "") < IN_PLACE < len(drawn)
    assert (tmp_path / "run" / "pictures" / "if_a_host_dies.svg").read_text() == drawn
    instance.compute_log_manager = object()
    assert "base64" in (Gallery(instance, "run").hang(drawn, "x").value or "")
