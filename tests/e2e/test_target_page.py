"""The page of a target in real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from opmon.api.static_files import packaged_files, static_files
from opmon.core import answers as a
from tests.api.conftest import application, metrics
from tests.api.stage import HOSTILE, NOW, Scene, operating_point, recommendation, status
from tests.e2e.conftest import Seen, serving

pytestmark = pytest.mark.needs("chromium")
Look = Callable[..., tuple[Page, Seen]]
SENTENCE = (
    "1 to 4 requests at once for 100 % of the busy time (median 1, p95 4, max 4); the ceiling of 64 was never reached"
)
FILE = b"config,content,concurrency,prompt_tokens,aggregate_tok_s\nold,code,1,33,122.6\nnew,code,1,33,111.2\n"


def scene_of(kind: str) -> Scene:
    """Scenes by name."""
    scene = Scene()
    if kind == "empty":
        scene.all_targets, scene.stored = (), {}
    elif kind == "down":
        scene.all_targets = (status(health="down", state="down", last_error="connect: refused"), status("gpu-2:8000"))
    elif kind == "first minute":
        scene.point = operating_point({0: 12_000, 1: 8_000}, ceiling=a.CeilingAnswer(), latency=a.Latency())
        scene.stored, scene.share = {}, 0.37
    elif kind == "fleet":
        scene.point = operating_point({n: 1000 * (1 + n % 7) for n in range(257)}, dict.fromkeys(range(64), 500))
        scene.answer = recommendation("undecided")
    elif kind == "hostile":
        scene.all_targets = (status(HOSTILE * 3, models=(HOSTILE, "x" * 300)),)
    return scene


def without_chart(scene: Scene) -> FastAPI:
    """The application of a package that was built without npm."""
    contents = {name: body for name, body in packaged_files().contents.items() if not name.startswith("vendor/")}
    return create_app(
        scene,
        metrics=metrics,
        ready=lambda: True,
        sweep_import=scene.take_in,
        sweep_delete=scene.remove,
        security=SecuritySettings(),
        files=static_files(contents),
    )


@contextmanager
def shown(scene: Scene) -> Iterator[str]:
    with serving(application(scene)) as address:
        yield address


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_sentence_bars_and_verdict_and_stays_at_home(
    look: Look, scheme: str, width: int, tmp_path: Path
) -> None:
    with shown(Scene()) as address:
        page, seen = look(address, width=width, scheme=scheme)
        expect(page.get_by_role("heading", level=1)).to_have_text(SENTENCE)
        expect(page.locator("#levels .bar").first).to_be_visible()
        assert 10 == page.locator("#levels .bar").count()
        expect(page.locator(".verdict-card .big")).to_contain_text("Switch to int8-dflash7")
        expect(page.locator("#fresh")).to_have_attribute("data-live-state", "live")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert 0 >= overflow(page)
        assert [] == seen.console
        assert [] == seen.elsewhere(address)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("kind", ["empty", "down", "first minute", "fleet", "hostile"])
def test_every_state_of_the_page_fits_and_runs_clean(look: Look, kind: str, width: int) -> None:
    with shown(scene_of(kind)) as address:
        page, seen = look(address, width=width, scheme="dark")
        page.wait_for_load_state("networkidle")
        assert 0 >= overflow(page)
        assert [] == seen.console


def test_bars_are_as_long_as_their_shares(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address)
        widths = page.evaluate(
            "[...document.querySelectorAll('.bar.busy rect')].map(r => r.getBoundingClientRect().width)"
        )
    assert pytest.approx([1.0, 36 / 240, 24 / 240], rel=0.02) == [one / widths[0] for one in widths]


def test_everything_can_be_read_without_scripts(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address, width=390, scripts=False)
        expect(page.get_by_role("heading", level=1)).to_have_text(SENTENCE)
        expect(page.locator("svg.lines path.mean")).to_be_visible()
        expect(page.locator("#fresh-text")).to_contain_text("as of 2026-11-29")
        expect(page.locator("#theme")).to_be_hidden()
        assert 0 >= overflow(page)
        page.get_by_role("link", name="24h").click()
        assert page.url.endswith("?window=24h")


def test_without_the_chart_library_the_picture_stays_and_says_so(look: Look) -> None:
    with serving(without_chart(Scene())) as address:
        page, seen = look(address)
        expect(page.locator("svg.lines")).to_be_visible()
        expect(page.locator("#timeline")).to_contain_text("the interactive chart was not built into this package")
        expect(page.locator("#fresh")).to_have_attribute("data-live-state", "live")
        assert [] == seen.console


@pytest.mark.needs("chart")
def test_the_chart_reads_off_values_by_keyboard(look: Look) -> None:
    with shown(Scene()) as address:
        page, seen = look(address)
        page.locator(".chart").focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".readout")).to_contain_text(re.compile(r"2026-11-\d\d .*mean \d"))
        assert [] == seen.console


@pytest.mark.needs("chart")
def test_a_dragged_part_of_the_chart_becomes_the_window_of_the_page(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(f"{address}/?window=7d&of=running")
        box = page.locator(".u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 60, steps=5)
        page.mouse.up()
        page.wait_for_url(re.compile("start="))
        start, end = (float(one) for one in re.findall(r"(?:start|end)=(\d+)", page.url))
        assert pytest.approx(Scene().point.window.seconds / 2, rel=0.05) == end - start
        assert "window=" not in page.url
        assert "of=running" in page.url


def test_the_theme_switch_holds_over_reloads_and_windows_are_links(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address, scheme="light")
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.locator("#theme").click()
        page.locator("#theme").click()
        expect(page.locator("#theme")).to_have_text("Theme: dark")
        assert light != page.evaluate(ground)
        page.get_by_role("link", name="6h").click()
        expect(page.locator("#theme")).to_have_text("Theme: dark")
        expect(page.get_by_role("link", name="6h")).to_have_attribute("aria-current", "true")
        assert light != page.evaluate(ground)


def test_a_change_arrives_by_itself_and_an_open_detail_stays_open(look: Look) -> None:
    scene = Scene()
    with shown(scene) as address:
        page, seen = look(address)
        page.locator("#timeline-table summary").click()
        page.locator("#how-1 summary").click()
        scene.point = operating_point(sentence="5 requests at once")
        scene.answer = recommendation("stay")
        scene.breaks = False
        scene.version += 1
        expect(page.get_by_role("heading", level=1)).to_have_text("5 requests at once", timeout=15_000)
        expect(page.locator(".verdict-card .big")).to_contain_text("Stay with fp8-mtp5")
        expect(page.locator("#timeline-table")).to_have_attribute("open", "")
        expect(page.locator("#how-1")).to_have_attribute("open", "")
        assert [] == seen.console


def test_an_unchanged_page_is_asked_for_by_its_tag(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address)
        with page.expect_response(lambda answer: answer.status == 304, timeout=15_000):
            pass
        expect(page.locator("#fresh-text")).to_have_text(re.compile(r"updated [012] s ago"))


def test_a_server_that_stops_answering_is_said_and_its_return_too(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address)
        expect(page.locator("#stale")).to_be_hidden()
        page.context.set_offline(True)
        expect(page.locator("#stale")).to_be_visible(timeout=20_000)
        expect(page.locator("#fresh")).to_have_attribute("data-live-state", "lost")
        page.context.set_offline(False)
        expect(page.locator("#stale")).to_be_hidden(timeout=20_000)


def test_a_hidden_page_does_not_ask(look: Look) -> None:
    with shown(Scene()) as address:
        page, seen = look(address)
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        page.wait_for_load_state("networkidle")
        before = len(seen.requests)
        page.wait_for_timeout(6500)
        assert before == len(seen.requests)
        expect(page.locator("#fresh")).to_have_attribute("data-live-state", "paused")


def test_old_data_is_never_shown_as_live(look: Look) -> None:
    scene = Scene(all_targets=(status(last_scrape=NOW - 3600),))
    with shown(scene) as address:
        page, _ = look(address)
        expect(page.get_by_role("alert").filter(has_text="The data is 1")).to_be_visible()


def test_a_benchmark_file_is_added_from_the_page(look: Look) -> None:
    scene = Scene(stored={})
    with shown(scene) as address:
        page, seen = look(address)
        page.set_input_files(
            "form.upload input[type=file]", {"name": "mine.csv", "mimeType": "text/csv", "buffer": FILE}
        )
        page.locator("form.upload button").click()
        page.wait_for_url(re.compile("sweep=mine"))
        expect(page.locator("#sweep-title")).to_contain_text("mine")
        assert ["mine"] == list(scene.stored)
        assert [] == seen.console


def test_a_file_that_cannot_be_read_is_refused_in_words_beside_the_form(look: Look) -> None:
    with shown(Scene(stored={})) as address:
        page, _ = look(address)
        page.set_input_files(
            "form.upload input[type=file]", {"name": "x.bin", "mimeType": "a/b", "buffer": b"\x00\x01" * 99}
        )
        page.locator("form.upload button").click()
        expect(page.locator(".upload-answer")).to_contain_text("x.bin")


def test_a_benchmark_file_can_be_added_without_scripts(look: Look) -> None:
    scene = Scene(stored={})
    with shown(scene) as address:
        page, _ = look(address, scripts=False)
        page.set_input_files(
            "form.upload input[type=file]", {"name": "mine.csv", "mimeType": "text/csv", "buffer": FILE}
        )
        page.locator("form.upload button").click()
        expect(page.locator("#sweep-title")).to_contain_text("mine")
        assert ["mine"] == list(scene.stored)


def test_hostile_names_run_nothing(look: Look) -> None:
    with shown(scene_of("hostile")) as address:
        page, seen = look(address)
        page.wait_for_load_state("networkidle")
        assert 0 == page.locator("img").count()
        assert [] == seen.console


def test_every_control_can_be_reached_by_keyboard_and_every_part_has_a_heading(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the answer")).to_be_focused()
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 30)"))
        assert {"24h", "in system", "Compare", "How this came about"} <= reached
        names = [
            "How many at once",
            "Over time",
            "The benchmark",
            "The verdict",
            "Speed, lengths",
            "Can this be trusted?",
        ]
        for name in names:
            expect(page.get_by_role("heading", level=2).filter(has_text=name)).to_be_visible()


def contrast_of(page: Page) -> list[tuple[str, float]]:
    """Texts whose contrast against what is behind them is under 4.5 to 1 (WCAG AA), with the ratio."""
    found: list[tuple[str, float]] = page.evaluate(
        """() => {
          const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
          const rgb = (color) => {
            canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
          };
          const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
            .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = (element) => {
            for (let one = element; one; one = one.parentElement) {
              const color = rgb(getComputedStyle(one).backgroundColor);
              if (color[3] > 250) return color;
            }
            return [255, 255, 255];
          };
          const weak = [];
          for (const element of document.querySelectorAll("main *, header *, footer *")) {
            const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
            if (!text || element.closest("svg, [hidden], .unseen") || !element.checkVisibility()) continue;
            const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < 4.5) weak.push([text.slice(0, 40), ratio]);
          }
          return weak;
        }"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["full", "down", "fleet"])
def test_every_text_has_enough_contrast(look: Look, kind: str, scheme: str) -> None:
    with shown(scene_of(kind)) as address:
        page, _ = look(address, scheme=scheme)
        assert [] == contrast_of(page)


def test_the_page_prints_light_and_without_controls(look: Look) -> None:
    with shown(Scene()) as address:
        page, _ = look(address, scheme="dark")
        page.emulate_media(media="print")
        expect(page.locator("#theme")).to_be_hidden()
        expect(page.locator(".choices")).to_be_hidden()
        assert "rgb(255, 255, 255)" == page.evaluate(
            "getComputedStyle(document.querySelector('.card')).backgroundColor"
        )


def test_below_a_prefix_everything_is_found(look: Look) -> None:
    with serving(application(Scene(), prefix="/opmon")) as address:
        page, seen = look(f"{address}/opmon/targets/gpu-1%3A8000")
        page.wait_for_load_state("networkidle")
        assert [] == seen.console
        assert [] == [url for url in seen.requests if not url.startswith(f"{address}/opmon/")]
        assert replace(status()).name in page.title()
