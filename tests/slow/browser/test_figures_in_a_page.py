"""Test figures on a separate page in a real browser: light, dark, by pointer and by key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.transforms import Bbox
from tests.fast.figures.test_figures import MADE, lost, nodelay, small_writes
from tests.fast.figures.test_pipes import chain
from tests.support.figures.readable import assert_apart
from tests.support.nonempty import each

from tcplab import figures
from tcplab.experiments import Result

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.timeout(300)]

#: Return the size, the box and the contrast of each text on the page, by figure.
READ = (Path(__file__).parent / "texts.js").read_text()


@pytest.fixture(scope="module")
def html() -> str:
    """Return a page with figures of several kinds."""
    pictures = [figures.timeline(make()) for make in MADE.values()]
    pictures.append(figures.in_flight(lost()))
    result = Result([chain("dd-nc", 900), chain("warm", 1900)], {})
    pictures += [figures.copy_path(result, "dd-nc"), figures.draw_bars(result, "mb_per_s")]
    return "".join(picture.html() for picture in pictures)


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    yield page
    page.close()


def show(page: Page, html: str) -> Locator:
    style = "body { margin: 16px; font-family: system-ui; background: Canvas }"
    page.set_content(f"<style>:root {{ color-scheme: light dark }} {style}</style>{html}")
    shown = page.locator("tcplab-figure")
    page.locator("tcplab-figure svg").nth(shown.count() - 1).wait_for()
    return shown


def test_text_is_legible_and_does_not_overlap_at_any_width(page: Page, html: str) -> None:
    for width, scheme in ((390, "light"), (672, "dark"), (1280, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        show(page, html)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for texts in each(page.evaluate(READ)):
            for text in each(texts):
                assert text["px"] >= 12 - 1e-6, text
                assert text["contrast"] >= 4.5, (scheme, text)
            boxes = [Bbox.from_extents(*text["box"]) for text in texts]
            assert_apart([*zip((text["text"] for text in texts), boxes, strict=True)], 0.15)


def test_dark_page_is_printed_in_black(page: Page) -> None:
    html = figures.timeline(nodelay()).html()
    dark = "body { --jp-content-font-color0: #ffffff; --jp-layout-color0: #111111 }"
    shown = show(page, f"<style>{dark}</style>{html}")
    letters = shown.locator("text").first
    colour = "(element) => getComputedStyle(element).fill"
    assert letters.evaluate(colour) == "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert letters.evaluate(colour) == "rgb(0, 0, 0)"
    assert page.locator("figure").evaluate("it => getComputedStyle(it).breakInside") == "avoid"
    font_px = "it => parseFloat(getComputedStyle(it).fontSize)"
    title_px = page.locator("figcaption").evaluate(font_px)
    assert title_px > page.locator("body").evaluate(font_px)


def test_pointer_and_keys_reach_every_reason(page: Page) -> None:
    picture = figures.timeline(small_writes())
    page.set_viewport_size({"width": 900, "height": 844})
    shown = show(page, picture.html())
    status = shown.locator("[role=status]")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")  # from the button back to the first part
    shown.locator(".part[tabindex='0']").focus()
    read = {status.inner_text()}
    for _part in each(list(picture.parts)):
        page.keyboard.press("ArrowRight")
        read.add(status.inner_text())
    assert read == set(picture.parts.values())
    hold = shown.locator("[data-part=hold-0]").first
    hold.locator("path").first.hover(position={"x": 12, "y": 8}, force=True)
    assert status.inner_text() == picture.parts["hold-0"]
    assert "2 bytes unacknowledged, 28 < MSS 1448" in status.inner_text()
    before = status.inner_text()
    shown.get_by_role("button", name="Next").click()
    assert status.inner_text() != before
    shown.get_by_role("button", name="Back").click()
    assert status.inner_text() == before


LINE_IS_ON_THE_SCREEN = """figure => {
    const line = figure.shadowRoot.querySelector(".now")?.getBoundingClientRect();
    return !line || (line.left >= 0 && line.left <= innerWidth);
}"""


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_play_shows_holds_in_time_and_respects_reduced_motion(page: Page, motion: Any) -> None:
    page.clock.install()
    page.emulate_media(reduced_motion=motion)
    shown = show(page, figures.timeline(small_writes()).html())
    shown.get_by_role("button", name="Play").click()
    status, hold = shown.locator("[role=status]"), shown.locator("[data-part=hold-0]")
    seen, dots = set(), 0
    edges = set()
    while shown.locator(".playing").count():
        # This adds to the time that passes anyway, which is longer on a slow machine.
        page.clock.run_for(100)
        text = status.inner_text()
        held = "28 bytes held by Nagle" in text
        # The reason is in the bar as soon as it is known.
        seen.add((held, hold.last.is_visible()))
        dots += shown.locator("circle.dot").count()
        assert shown.evaluate(LINE_IS_ON_THE_SCREEN)
        edges.add(
            shown.evaluate("it => ['before', 'more'].filter((edge) => edge in it.dataset)[0]")
        )
    assert edges == {"before", "more"}  # a drawing that goes on beyond the screen has an edge
    assert (False, False) in seen
    assert (True, True) in seen
    assert (dots > 0) is (motion == "no-preference")
    assert shown.get_by_role("button", name="Play").is_visible()


def test_page_without_scripts_shows_a_static_image(browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 600})
    page = context.new_page()
    page.set_content(figures.timeline(nodelay()).html())
    image = page.locator("tcplab-figure img")
    assert "The numbers are in the table" in image.get_attribute("alt")
    assert image.bounding_box()["width"] == 640
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # it scrolls in its box
    context.close()
