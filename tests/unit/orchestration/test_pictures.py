"""Pictures: everything on them, found by its text, small enough for metadata."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree as ET

import pytest

from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.show.map_picture import (
    IN_PLACE,
    WIDTH,
    map_svg,
    shared_domain,
    shown_map,
    shown_maps,
)
from samza_dagster.orchestration.show.pictures import MOST_BYTES, picture
from samza_dagster.orchestration.show.timeline import timeline_svg

pytestmark = pytest.mark.unit
SVG = "{http://www.w3.org/2000/svg}"


DOMAIN = ".prod.dc1.example.com"


def fleet(hosts: int, containers: int = 1_000, domain: str = "") -> list[HostRow]:
    of: list[list[str]] = [[] for _ in range(hosts)]
    for number in range(containers):
        standby = number % 2
        ident = f"{number // 2}-0" if standby else f"{number // 2}"
        of[number % hosts].append(f"{ident} {'standby' if standby else 'active'} running")
    return [HostRow(f"host-{n}{domain}", "alive", tuple(here)) for n, here in enumerate(of)]


@pytest.mark.parametrize("hosts", [1, 4, 10, 40, 100, 250])
@pytest.mark.parametrize("room", [WIDTH, IN_PLACE])
def test_a_thousand_containers_are_on_one_view_and_each_is_found_by_its_text(
    hosts: int, room: int
) -> None:
    """No higher than a screen where it may be as wide; no text outside of it, the Markdown under 300 kB."""
    cells = fleet(hosts)
    svg = map_svg(cells, "demo/1", room=room)
    root = ET.fromstring(svg)
    left, top, wide, high = map(int, root.get("viewBox", "").split())
    assert (left, top) == (0, 0)
    assert wide <= room
    assert room != WIDTH or high <= 1080
    texts = [
        (t.text or "", float(t.get("x", 0)), float(t.get("y", 0))) for t in root.iter(f"{SVG}text")
    ]
    names = [text for text, _, _ in texts]
    for cell in cells:
        assert names.count(cell.host) == 1
        for ident, _, _ in cell.cells:
            assert names.count(ident) == 1
    assert all(0 <= x <= wide and 0 <= y <= high for _, x, y in texts)
    assert len(shown_map(cells)) < MOST_BYTES


@pytest.mark.parametrize("hosts", [100, 1_000])
def test_a_domain_that_all_hosts_are_in_is_told_once_and_takes_no_room(hosts: int) -> None:
    """It is as without one; the text below the picture has each name whole."""
    cells = fleet(hosts, domain=DOMAIN)
    svg = map_svg(cells)
    assert svg.count(DOMAIN) == 1
    assert ET.fromstring(svg).get("viewBox") == ET.fromstring(map_svg(fleet(hosts))).get("viewBox")
    shown = shown_map(cells)
    assert len(shown) < MOST_BYTES
    assert shown.count(f"{DOMAIN}:") == hosts


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (("a.x.org", "b.x.org"), ".x.org"),
        (("a.1.x.org", "b.2.x.org"), ".x.org"),
        (("x.org", "b.x.org"), ".org"),
        (("a", "b"), ""),
        (("a.x.org", "b.x.com"), ""),
        (("10.0.0.1", "10.0.1.1"), ""),
        (("a.x.org",), ""),
        ((), ""),
    ],
)
def test_what_is_shared_is_a_domain_and_never_a_whole_name(
    names: tuple[str, ...], shared: str
) -> None:
    """Nor the end of an address."""
    assert shared_domain(names) == shared


def test_no_two_containers_are_drawn_over_each_other() -> None:
    """Each box is a place of its own."""
    svg = map_svg(fleet(40))
    places = re.findall(r"M(\d+) (\d+)h", svg)
    assert len(places) == len(set(places)) == 1_000


def test_a_picture_is_an_image_of_a_data_address() -> None:
    """As the UI's Markdown shows it; the same bytes come out."""
    svg = timeline_svg([("RESERVING", "IN_PROGRESS", 0), ("ENDED", "SUCCEEDED", 4_000)])
    found = re.fullmatch(
        r"!\[x\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", picture(svg, "x")
    )
    assert found is not None
    assert base64.b64decode(found[1]).decode() == svg
    assert "4.00 s from first to last" in svg


def test_both_colour_schemes_have_ground_and_text() -> None:
    """An image doesn't know the page's theme: it brings its own ground."""
    for svg in (map_svg(fleet(2, 4)), timeline_svg([])):
        assert '<rect class="g"' in svg
        assert "prefers-color-scheme:dark" in svg


def test_a_host_without_a_container_is_on_the_map() -> None:
    """It is where one could move to; the caption says how many hosts have any."""
    cells = [*fleet(3, 4), HostRow("host-3", "last-seen", ())]
    texts = [text.text for text in ET.fromstring(map_svg(cells)).iter(f"{SVG}text")]
    assert texts.count("host-3") == 1
    assert texts[0] == "4 containers on 3 of 4 hosts"
    assert shown_map(cells).endswith("host-3: -")
    empty = ET.fromstring(map_svg([HostRow("host-3", "alive", ())]))
    assert next(empty.iter(f"{SVG}text")).text == "0 containers on 0 of 1 host"


def test_names_are_escaped() -> None:
    """A host may be named anything."""
    svg = map_svg([HostRow("<b>&", "lost", ('"<x active running',))])
    texts = [t.text for t in ET.fromstring(svg).iter(f"{SVG}text")]
    assert "<b>& lost" in texts
    assert '"<x' in texts


def test_a_run_s_map_is_drawn_as_it_is_told() -> None:
    """The same rows as its table: `<id> <mode> <state>`."""
    row = HostRow("h1", "alive", ("0 active running", "1-0 standby starting"))
    assert row.cells == (("0", True, "running"), ("1-0", False, "starting"))


def test_a_large_map_is_as_wide_as_its_dialog_and_a_small_one_as_it_is() -> None:
    """The UI's dialog cuts off what is wider; what has no width fills the line of the text below."""
    assert "width" not in ET.fromstring(map_svg(fleet(50))).attrib
    small = ET.fromstring(map_svg(fleet(4, 8)))
    assert int(small.get("width", 0)) <= 1_000
    assert len({r.get("y") for r in small.iter(f"{SVG}rect") if r.get("class") == "p"}) == 1
    assert int(small.get("height", 0)) <= 300
    few = shown_map(fleet(4, 8))
    assert ET.fromstring(base64.b64decode(few.split("base64,")[1].split(")")[0])).get("width")


def test_every_container_is_found_by_text_below_its_picture() -> None:
    """A search in the page doesn't look into a picture."""
    _, _, caption = shown_map(fleet(50)).partition(")\n\n")
    found = re.split(r"[:,·\s]+", caption)
    assert all(found.count(str(n)) == found.count(f"{n}-0") == 1 for n in range(500))


@pytest.mark.parametrize(("hosts", "domain"), [(50, ""), (250, DOMAIN), (1_000, DOMAIN)])
def test_the_text_of_a_large_map_beside_a_table_leaves_its_picture_in_sight(
    hosts: int, domain: str
) -> None:
    """63 lines of text had moved the picture out of the UI's dialog as it opens."""
    cells = fleet(hosts, domain=domain)
    _, _, caption = shown_map(cells, has_table=True).partition(")\n\n")
    assert 400 <= len(caption) <= 1_300
    (more,) = re.findall(r"and (\d+) more hosts: the table", caption)
    assert caption.count(" · ") + int(more) == hosts


def test_who_moved_is_outlined_in_the_map_after() -> None:
    """Before has no outline; both are told while they have room."""
    before = (HostRow("h1", "alive", ("0 active running",)), HostRow("h2", "alive", ()))
    after = (HostRow("h1", "alive", ()), HostRow("h2", "alive", ("0 active running",)))
    told = shown_maps(before, after)
    drawn = [base64.b64decode(d).decode() for d in re.findall(r"base64,([^)]*)", told)]
    assert [svg.count('path class="c"') for svg in drawn] == [0, 1]
    assert "moved" in drawn[1]
