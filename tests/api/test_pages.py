"""What the server writes into a page; what a browser makes of it is tests/e2e."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from opmon.core import answers as a
from opmon.core.beside import InferredContent, LevelBeside, LookFirst
from opmon.errors import ConfigError
from tests.api.conftest import application, client_of
from tests.api.stage import HOSTILE, NOW, Scene, content_answer, operating_point, recommendation, status, sweep

VOID = {"meta", "link", "input", "br", "img", "path", "line", "rect"}


class Page(HTMLParser):
    """A page's text by the id of its section, its tags, its links; and whether its tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()[0], f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        for _, name in self.open:
            if name:
                self.texts.setdefault(name, []).append(data)

    def text(self, name: str) -> str:
        return " ".join(" ".join(self.texts.get(name, [])).split())

    def attributes(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name))]


async def page(client: httpx.AsyncClient, address: str = "/") -> Page:
    answer = await client.get(address, headers={"Accept": "text/html"})
    assert (200, "text/html; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    read = Page(answer.text)
    assert [] == read.open
    return read


async def test_the_first_screen_answers_where_ceiling_cell_verdict_and_why(client: httpx.AsyncClient) -> None:
    said = (await page(client)).text("answer")
    for part in (
        "1 to 4 requests at once for 100 % of the busy time",
        "Ceiling 64 never reached",
        "Switch to int8-dflash7",
        "cell 1 , per-stream speed",
        "1.42× (1.31 to 1.55)",
        "per-stream speed at concurrency 1 decides for code",
        "Coverage 98\N{NO-BREAK SPACE}%".replace("\N{NO-BREAK SPACE}", " "),
    ):
        assert part in said, part


async def test_every_level_has_its_three_shares_and_the_ceiling_its_row(client: httpx.AsyncClient) -> None:
    levels = (await page(client)).text("levels")
    assert "66.7 % 10 min" in levels
    assert "p50 1 · p95 4 · mean 1.36" in levels
    assert "58.8 %" in levels
    assert "64 ceiling never reached" in levels
    assert "33–63 never" in levels


async def test_the_levels_of_the_sweep_are_marked_and_the_cell_among_them(client: httpx.AsyncClient) -> None:
    levels = (await page(client)).text("levels")
    assert "1 ◆ , the cell that applies" in levels
    assert "8 ◇ , measured by the sweep" in levels


async def test_the_ceiling_is_a_limit_of_running_and_not_of_in_system(client: httpx.AsyncClient) -> None:
    assert "ceiling never reached" not in (await page(client, "/?of=in_system")).text("levels")


async def test_many_levels_become_ranges_whose_shares_add_up(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.point = operating_point(dict.fromkeys(range(257), 1000))
    read = await page(client)
    rows = re.findall(r"(\d+)–(\d+)", read.text("levels"))
    assert ("193", "256") == rows[-1]
    assert len(rows) < 15


async def test_the_cell_and_the_column_that_apply_are_outlined_once_a_content(client: httpx.AsyncClient) -> None:
    classes = [attrs.get("class") or "" for tag, attrs in (await page(client)).tags if tag == "td"]
    assert 2 == sum("applies first" in one for one in classes)
    assert 2 == sum("applies last" in one for one in classes)


async def test_a_refused_pair_is_struck_and_says_why(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.answer = recommendation(unfair_pairs=(a.UnfairPair(a.CellRef(8.0, "code", 33.0, None), ("hardware",)),))
    read = await page(client)
    assert "not a fair pair: differs in hardware" in read.text("sweep-tables")
    assert "unfair" in [attrs.get("class") for tag, attrs in read.tags if tag == "tr"]


async def test_a_refused_pair_without_a_concurrency_is_not_shown_at_0(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.answer = recommendation(unfair_pairs=(a.UnfairPair(a.CellRef(None, "code", 33.0, None), ("hardware",)),))
    assert "code at a concurrency that is not known: differs in hardware" in (await page(client)).text("unfair")


async def test_an_unknown_live_configuration_shows_both_readings(scene: Scene, client: httpx.AsyncClient) -> None:
    both = a.ByLiveIs(a.LiveIsAnswer(1.41, 1.3, 1.5, "switch"), a.LiveIsAnswer(1.44, 1.3, 1.6, "switch"))
    column = a.ColumnAnswer(137.4, 194.5, 1.416, None, None, None, 0.6, by_live_is=both)
    scene.answer = recommendation(
        contents=(content_answer("code", "switch", columns=a.Columns(column, a.ColumnAnswer())),)
    )
    verdict = (await page(client)).text("verdict")
    assert "per-stream speed, if the live server runs the reference" in verdict
    assert "1.44× (1.30 to 1.60)" in verdict


async def test_the_verdict_tells_reasons_columns_knee_turn_readings_and_commands(
    scene: Scene, client: httpx.AsyncClient
) -> None:
    turn = a.WholeTurn(1.068, 1.05, 1.09, 6.084, 10.003, "after", "tpot", "server_sums")
    scene.answer = recommendation(contents=(content_answer("code", "switch", whole_turn=turn),))
    verdict = (await page(client)).text("verdict")
    for part in (
        "p90 of in-system requests (4) is below the knee",
        "fp8-mtp5 29.4, int8-dflash7 6.29",
        "122.6 → 111.2 tok/s, 0.91×",
        "the whole turn this one is judged 1.07×",
        "reading the best cell of the sweep (8, aggregate throughput): 2.58×",
        "prompt tokens: the cell has 33, the server 8 112",
        "vllm bench serve --backend openai",
        "hardware and tool are unknown on both sides",
    ):
        assert part in verdict.replace("\N{NARROW NO-BREAK SPACE}", " "), part


async def test_gaps_break_every_line_and_show_in_the_band(client: httpx.AsyncClient) -> None:
    read = await page(client)
    lines = {attrs["class"]: attrs.get("d") or "" for tag, attrs in read.tags if tag == "path" and attrs.get("class")}
    assert 3 == (lines["mean"] or "").count("M")
    assert {"observed", "stalled", "down", "gap"} <= set(lines)
    assert "not watched" in read.text("timeline")
    assert "1 restart or change" in read.text("timeline")


async def test_an_epoch_is_marked_on_the_picture_and_told_in_the_table(client: httpx.AsyncClient) -> None:
    read = await page(client)
    assert 1 == len([attrs for tag, attrs in read.tags if tag == "svg" and attrs.get("class") == "restart"])
    assert 1 == len([attrs for tag, attrs in read.tags if tag == "tr" and attrs.get("class") == "epoch"])
    assert "restart: the process started +86400 s from the one before" in read.text("timeline-table")


async def test_without_a_sweep_the_page_says_how_to_add_one(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.stored = {}
    read = await page(client)
    assert "No benchmark yet" in read.text("answer")
    assert "opmon sweeps import FILE" in read.text("upload")


async def test_a_choice_that_is_missing_is_said_where_it_is_made(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.answer = ConfigError("three configurations: a, b, c; name reference and candidate")
    read = await page(client)
    assert "three configurations: a, b, c" in read.text("sweep")
    assert "1 to 4 requests at once" in read.text("answer")
    assert "122.6" in read.text("sweep-tables")


async def test_without_a_target_the_page_says_how_to_begin(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.all_targets = ()
    text = (await page(client)).text("empty")
    assert "No server is watched yet" in text
    assert "opmon serve --target" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"health": "down", "state": "down", "last_error": "connect: refused"}, "Nothing listens there"),
        ({"health": "down", "state": "down", "last_error": "content_type: text/html"}, "no metrics page"),
        ({"state": "stalled"}, "nothing moves"),
        ({"state": "invalid", "last_error": "not_finite: NaN"}, "cannot be used"),
        ({"last_scrape": NOW - 400}, "The data is 6 min 40 s old"),
        (
            {"last_scrape": None, "epoch_start": None, "health": "unknown", "state": "gap"},
            "Waiting for the first answer",
        ),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do(
    scene: Scene, client: httpx.AsyncClient, changes: dict[str, Any], words: str
) -> None:
    scene.all_targets = (status(**changes),)
    if changes.get("health") == "unknown":
        scene.point = operating_point({}, running=a.Distribution(), in_system=a.Distribution())
    said = (await page(client)).text("conditions")
    assert words in said.replace("\N{NO-BREAK SPACE}", " ")


async def test_no_data_is_not_shown_as_idle(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.point = operating_point({}, sentence="nothing was observed", running=a.Distribution())
    read = await page(client)
    assert "not the same as idle" in read.text("levels")
    assert "Idle —" in read.text("answer")


async def test_the_demo_says_how_far_it_is(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.share = 0.37
    read = await page(client)
    assert "37 % replayed" in read.text("conditions").replace("\N{NO-BREAK SPACE}", " ")
    first = (await client.get("/")).headers["etag"]
    scene.share = 0.38
    assert first != (await client.get("/")).headers["etag"]


async def test_names_from_outside_are_text_everywhere(scene: Scene, client: httpx.AsyncClient) -> None:
    clean = await page(client)
    scene.all_targets = (status(HOSTILE, models=(HOSTILE,), last_error=HOSTILE, health="down"), status("other"))
    scene.stored = {HOSTILE: a.SweepAnswer(HOSTILE, ("fp8-mtp5", HOSTILE), (HOSTILE,), sweep().imports, sweep().cells)}
    scene.answer = recommendation(candidate=HOSTILE, contents=(content_answer(HOSTILE, "switch", reasons=(HOSTILE,)),))
    scene.point = operating_point(sentence=HOSTILE)
    read = await page(client)
    assert HOSTILE in read.text("answer")
    assert "49" not in re.sub(r"\d{3,}", "", read.text("answer"))
    assert [] == [tag for tag, _ in read.tags if tag == "img"]
    assert len([t for t, _ in clean.tags if t == "script"]) == len([t for t, _ in read.tags if t == "script"])
    assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)


async def test_a_page_has_no_inline_script_or_style_and_no_address_elsewhere(client: httpx.AsyncClient) -> None:
    read = await page(client)
    assert [] == read.attributes("style")
    assert all("src" in attrs for tag, attrs in read.tags if tag == "script")
    assert [] == [tag for tag, _ in read.tags if tag == "style"]
    assert [] == [u for u in read.attributes("href") + read.attributes("src") if "//" in u]


@pytest.mark.parametrize("path", ["/", "/targets/gpu-1%3A8000", "/targets/a%2Fb", "/targets/a/b"])
async def test_every_link_of_a_page_leads_somewhere_below_any_prefix(scene: Scene, path: str) -> None:
    scene.all_targets = (status(), status("a/b"))
    async with client_of(application(scene)) as client:
        read = await page(client, path)
        base = httpx.URL(f"http://127.0.0.1:8917/deep/below{path}")
        links = {
            u for u in read.attributes("href") + read.attributes("src") + read.attributes("data-src") if u[0] != "#"
        }
        assert len(links) > 15
        for link in links:
            full = str(base.join(link))
            assert full.startswith("http://127.0.0.1:8917/deep/below/"), (link, full)
            answer = await client.get(full.replace("/deep/below", ""))
            assert 200 == answer.status_code, (link, answer.text)


async def test_the_whole_view_is_in_the_address(scene: Scene, client: httpx.AsyncClient) -> None:
    read = await page(client, "/?window=6h&of=in_system&content=code&live_is=candidate")
    links = [u for u in read.attributes("href") if u.startswith("?")]
    assert "?of=in_system&content=code&live_is=candidate&window=1h".count("&") == links[0].count("&")
    assert all("content=code" in u for u in links)
    assert 21_600_000 in {ask.window_ms for _, ask in scene.asks}
    chosen = [attrs for tag, attrs in read.tags if tag == "a" and attrs.get("aria-current") == "true"]
    assert "?" in (chosen[0]["href"] or "")


async def test_an_unknown_target_is_a_page_that_names_those_there_are(client: httpx.AsyncClient) -> None:
    answer = await client.get("/targets/gpu-9", headers={"Accept": "text/html"})
    assert (404, "text/html; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    assert "watched are: gpu-1:8000" in Page(answer.text).text("main")


async def test_a_page_refuses_unknown_parameters_by_name_too(client: httpx.AsyncClient) -> None:
    answer = await client.get("/?widow=1h", headers={"Accept": "text/html"})
    assert 422 == answer.status_code
    assert "unknown query parameter 'widow'" in Page(answer.text).text("main")


async def test_an_unchanged_page_is_304(scene: Scene, client: httpx.AsyncClient) -> None:
    tag = (await client.get("/")).headers["etag"]
    assert 304 == (await client.get("/", headers={"If-None-Match": tag})).status_code
    scene.version += 1
    assert 200 == (await client.get("/", headers={"If-None-Match": tag})).status_code


async def test_files_are_kept_for_good_under_their_digest_and_not_under_another(client: httpx.AsyncClient) -> None:
    address = next(u for u in (await page(client)).attributes("href") if u.endswith("opmon.css"))
    kept = await client.get("/" + address.removeprefix("./"))
    assert "immutable" in kept.headers["cache-control"]
    other = await client.get("/static/another/opmon.css")
    assert ("no-store", kept.content) == (other.headers["cache-control"], other.content)


async def test_a_page_and_all_its_files_stay_under_150_kb_compressed(client: httpx.AsyncClient) -> None:
    files = ["opmon.css", "theme.js", "page.js", "live.js", "times.js", "copy.js", "switch.js", "upload.js", "timeline.js",
             "vendor/uplot/uPlot.esm.js", "vendor/uplot/uPlot.min.css"]  # fmt: skip
    total = 0
    for address in ["/", *(f"/static/x/{name}" for name in files)]:
        async with client.stream("GET", address, headers={"Accept-Encoding": "gzip"}) as answer:
            total += sum([len(chunk) async for chunk in answer.aiter_raw()])
    assert 10_000 < total < 150_000


def described(**changes: Any) -> a.Recommendation:
    """An answer whose live curve was seen at two of three levels, and differs at one."""
    levels = (
        LevelBeside("code", "fp8-mtp5", 1.0, 240.0, 118.0, 120.0, 122.0, -0.033, True, "agrees (3 % slower live)"),
        LevelBeside(
            "code", "fp8-mtp5", 4.0, 90.0, 150.0, 300.0, 305.0, -0.508, False, "51 % slower live: not this workload"
        ),
        LevelBeside("code", "fp8-mtp5", 8.0, 12.0, None, 380.0, 390.0, None, None, "too little data: 12 s"),
    )
    look = (LookFirst("content", 4.6, 2.1, 1.13, "2.10 tokens a step live and 4.60 in the cell"),)
    code = content_answer("code", "undecided", live_curve=levels, look_first=look)
    return recommendation("undecided", contents=(code, content_answer("prose", "undecided")), **changes)


async def test_the_live_curve_is_drawn_and_told_beside_the_benchmark() -> None:
    async with client_of(application(Scene(answer=described()))) as client:
        read = await page(client)
    lines = [attrs["points"] for tag, attrs in read.tags if tag == "polyline"]

    assert [2, 3] == [len((points or "").split()) for points in lines]
    assert "51 % slower live: not this workload" in read.text("curve")
    assert "too little data: 12 s" in read.text("curve")
    assert "Where to look first 2.10 tokens a step live and 4.60 in the cell" in read.text("curve")


async def test_without_a_level_that_was_seen_there_is_no_curve() -> None:
    async with client_of(application(Scene())) as client:
        assert "curve" not in (await page(client)).texts


async def test_an_inferred_content_is_shown_as_inferred() -> None:
    words = "inferred from 2.10 tokens a step, within fp8-mtp5: prose (code 4.60, prose 2.10)"
    inferred = InferredContent("fp8-mtp5", 2.1, {"code": 4.6, "prose": 2.1}, "prose", {"prose": 1.0}, words)
    async with client_of(application(Scene(answer=described(inferred_content=inferred)))) as client:
        assert f"Content {words}. A reading, which decides nothing." in (await page(client)).text("verdict")
