"""The one door: windows, selection, memory, several targets; over a real store filled by the simulator."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from opmon.clock import ManualClock
from opmon.core.answers import EpochSpan, OperatingPoint, Selector, Speculation
from opmon.core.model import Ceiling, Lane, TargetRecord, View
from opmon.core.sums import Sums
from opmon.errors import ConfigError, InvalidWindow, NotFound, StoreError
from opmon.pipeline import Observer, attempt_of_page
from opmon.reports import RecommendationAsk, Reports, WindowAsk, ceiling_answer, select_targets
from opmon.simulator import scenarios
from opmon.simulator.simulation import Simulation
from opmon.store import Store
from opmon.store.database import Database
from opmon.sweeps.detect import example_sweep_bytes, read_sweep
from tests.scenarios.virtual import NAME, Observed, observe, scrape, watch

START_MS = 1_800_000_000_000
END_MS = START_MS + 600_000


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """Ten minutes of one person, and the example sweep."""
    simulation = Simulation(scenarios.chat(), start_ms=START_MS)
    observed = observe(simulation, tmp_path_factory.mktemp("reports"), start_ms=START_MS, end_ms=END_MS, ceiling=64)
    observed.store.import_sweep("example", read_sweep(example_sweep_bytes(), "example.csv"), START_MS)
    return observed


def _at(observed: Observed, now_ms: int) -> Reports:
    return Reports(observed.store, ManualClock(now_ms))


def test_a_window_longer_than_what_is_known_is_clipped_to_the_first_scrape(watched: Observed) -> None:
    point = _at(watched, END_MS).operating_point(Selector(), WindowAsk(7 * 86_400_000))
    assert point.window.start == START_MS / 1000
    assert point.window.requested_seconds == 7 * 86_400
    assert point.coverage.ratio == 1


def test_a_short_relative_window_ends_on_a_grid_of_five_seconds_behind_the_last_commit(watched: Observed) -> None:
    point = _at(watched, END_MS - 1).operating_point(Selector(), WindowAsk(60_000))
    assert point.window.end * 1000 == END_MS - 5000
    assert point.window.seconds == 60


def test_a_long_relative_window_ends_on_a_full_minute(watched: Observed) -> None:
    point = _at(watched, END_MS + 7_200_000).operating_point(Selector(), WindowAsk(86_400_000))
    assert point.window.end % 60 == 0


def test_a_target_that_is_watched_for_seconds_has_its_first_sentence_at_once(watched: Observed) -> None:
    point = _at(watched, START_MS + 9_000).operating_point(Selector(), WindowAsk())
    assert point.window.seconds == 5
    assert point.coverage.ratio == 1


def test_absolute_ends_are_taken_as_they_are(watched: Observed) -> None:
    ask = WindowAsk(None, START_MS + 12_345, START_MS + 99_999)
    point = _at(watched, END_MS).operating_point(Selector(), ask)
    assert (point.window.start, point.window.end) == (ask.start_ms / 1000, ask.end_ms / 1000)  # type: ignore[operator]
    states = point.coverage.observed_seconds + point.coverage.gap_seconds
    assert states == pytest.approx(point.window.seconds)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (WindowAsk(None, END_MS, START_MS), "before it starts"),
        (WindowAsk(None, END_MS, END_MS), "is empty"),
        (WindowAsk(None, END_MS + 1_000_000), "begins in the future"),
        (WindowAsk(60_000, END_MS + 1_000_000), "begins in the future"),
        (WindowAsk(60_000, None, END_MS + 1_000_000), "begins in the future"),
        (WindowAsk(None, END_MS + 1, END_MS + 60_000), "begins in the future"),
    ],
    ids=["reversed", "empty", "from the future", "length in the future", "end in the future", "both in the future"],
)
def test_a_window_without_length_is_refused(watched: Observed, ask: WindowAsk, words: str) -> None:
    with pytest.raises(InvalidWindow, match=words):
        _at(watched, END_MS).operating_point(Selector(), ask)


@pytest.mark.parametrize(
    ("ask", "requested_seconds"),
    [
        (WindowAsk(3_600_000, END_MS - 60_000), 3600),
        (WindowAsk(None, END_MS - 60_000, END_MS + 86_400_000), 86_460),
    ],
    ids=["a start and a length", "an end tomorrow"],
)
def test_time_to_come_is_no_time_that_was_not_watched(
    watched: Observed, ask: WindowAsk, requested_seconds: float
) -> None:
    reports = _at(watched, END_MS)
    point = reports.operating_point(Selector(), ask)
    assert (END_MS / 1000 - 60, END_MS / 1000, requested_seconds) == (
        point.window.start,
        point.window.end,
        point.window.requested_seconds,
    )
    assert (1, 0) == (point.coverage.ratio, point.coverage.gap_seconds)
    series = reports.concurrency(Selector(), ask, 10_000)
    assert [0.0] * 6 == [one.gap_seconds for one in series.points]
    assert "coverage_low" not in [warning.code for warning in point.warnings]


def test_what_may_not_be_written_yet_is_left_out_and_what_is_written_counts(watched: Observed) -> None:
    ask = WindowAsk(None, END_MS - 60_000, END_MS + 60_000)
    behind = _at(watched, END_MS + 2_000).operating_point(Selector(), ask)
    assert (END_MS / 1000, 1) == (behind.window.end, behind.coverage.ratio)
    later = _at(watched, END_MS + 10_000).operating_point(Selector(), ask)
    assert (END_MS / 1000 + 7, 7) == (later.window.end, later.coverage.gap_seconds)


def test_a_target_whose_first_figures_are_still_to_come_says_when_they_come(watched: Observed) -> None:
    point = _at(watched, START_MS + 4_000).operating_point(Selector(), WindowAsk())
    assert "No data yet: watched for 4 s so far; the first figures come within 10 s" == point.sentence
    past = WindowAsk(None, START_MS - 60_000, START_MS - 30_000)
    assert "no scrape was made" in _at(watched, START_MS + 4_000).operating_point(Selector(), past).sentence


def test_after_ten_seconds_there_is_a_figure(watched: Observed) -> None:
    point = _at(watched, START_MS + 10_000).operating_point(Selector(), WindowAsk())
    assert (5, 1) == (point.window.seconds, point.coverage.ratio)


def test_an_outage_before_the_window_is_no_doubt_about_the_window(tmp_path: Path) -> None:
    store = Store(Database.open(str(tmp_path / "outage.db"), read_only=False, create=True))
    simulation = Simulation(scenarios.steady(4), start_ms=START_MS)
    observer = Observer(TargetRecord(NAME, "http://127.0.0.1:1"))
    watched_seconds = (*range(60), *range(240, 300))
    steps = [
        observer.observe(scrape(simulation, NAME, START_MS + 1000 * second, 1000, Lane.FULL))
        for second in watched_seconds
    ]
    store.save_target(observer.record)
    store.append(NAME, steps)
    reports = Reports(store, ManualClock(START_MS + 300_000))

    def doubts(start_ms: int, end_ms: int) -> dict[str, str]:
        point = reports.operating_point(Selector(), WindowAsk(None, START_MS + start_ms, START_MS + end_ms))
        return {one.code: one.detail for one in point.warnings}

    assert not {"missing_while_busy", "uncovered_tokens", "coverage_low"} & set(doubts(240_000, 250_000))
    assert {"uncovered_tokens", "coverage_low"} <= set(doubts(0, 300_000))


def test_a_window_before_everything_has_no_data_and_says_so(watched: Observed) -> None:
    ask = WindowAsk(None, START_MS - 7_200_000, START_MS - 3_600_000)
    point = _at(watched, END_MS).operating_point(Selector(), ask)
    assert point.running.occupancy == ()
    assert point.running.busy.p50 is None
    assert "no data" in point.sentence.lower()


@pytest.mark.parametrize(
    "selector",
    [
        Selector(target="b"),
        Selector(model="gpt"),
        Selector(engine_index="7"),
        Selector(job="j"),
        Selector(label=("a:b",)),
    ],
    ids=["target", "model", "engine", "job", "label"],
)
def test_what_does_not_exist_is_told_with_what_does(watched: Observed, selector: Selector) -> None:
    with pytest.raises(NotFound, match=NAME):
        _at(watched, END_MS).operating_point(selector, WindowAsk())


@pytest.mark.parametrize(
    "selector",
    [Selector(scope="fleet"), Selector(fleet="f"), Selector(scope="x"), Selector(epoch="x")],
    ids=["scope fleet", "a fleet", "another scope", "another epoch"],
)
def test_what_this_version_cannot_answer_is_refused(watched: Observed, selector: Selector) -> None:
    with pytest.raises(ConfigError):
        _at(watched, END_MS).operating_point(selector, WindowAsk())


def test_the_same_question_is_answered_from_memory_until_something_is_committed(watched: Observed) -> None:
    reports = _at(watched, END_MS)
    first = reports.operating_point(Selector(), WindowAsk())
    tag = reports.version_tag(Selector(), WindowAsk())
    assert reports.operating_point(Selector(), WindowAsk()) is first
    watched.store.save_target(watched.store.target(NAME))
    assert reports.version_tag(Selector(), WindowAsk()) != tag
    assert reports.operating_point(Selector(), WindowAsk()) is not first


def test_the_timeline_adds_up_to_the_window(watched: Observed) -> None:
    series = _at(watched, END_MS).concurrency(Selector(), WindowAsk(None, START_MS, END_MS), 60_000)
    assert len(series.points) == 10
    assert sum(point.observed_seconds for point in series.points) == 600
    point = _at(watched, END_MS).operating_point(Selector(), WindowAsk(None, START_MS, END_MS))
    assert max(one.max or 0 for one in series.points) == point.running.time.max


def test_too_fine_a_step_is_refused(watched: Observed) -> None:
    now_ms = START_MS + 20_000_000
    with pytest.raises(InvalidWindow, match="points"):
        _at(watched, now_ms).concurrency(Selector(), WindowAsk(None, START_MS, now_ms), 1000)


def test_two_targets_add_and_their_windows_too(tmp_path: Path) -> None:
    store = Store(Database.open(str(tmp_path / "two.db"), read_only=False, create=True))
    for seed, name in enumerate(("a", "b")):
        simulation = Simulation(scenarios.chat(seed), start_ms=START_MS)
        record = TargetRecord(name, "http://127.0.0.1:1")
        watch(simulation, store, record, start_ms=START_MS, end_ms=START_MS + 120_000)
    reports = Reports(store, ManualClock(START_MS + 120_000))
    ask = WindowAsk(None, START_MS, START_MS + 120_000)
    both = reports.operating_point(Selector(), ask)
    each = [reports.operating_point(Selector(target=name), ask) for name in ("a", "b")]
    assert both.coverage.observed_seconds == sum(one.coverage.observed_seconds for one in each)
    assert both.coverage.ratio == 1
    for share in both.running.occupancy:
        parts = sum(part.seconds for one in each for part in one.running.occupancy if part.level == share.level)
        assert share.seconds == parts


def test_a_recommendation_cites_the_operating_point_that_it_is_for(watched: Observed) -> None:
    reports = _at(watched, END_MS)
    window = WindowAsk(None, START_MS, END_MS)
    answer = reports.recommendation(RecommendationAsk("example", window=window))
    point = reports.operating_point(Selector(), window)
    assert answer.operating_point is not None
    assert answer.operating_point.sentence == point.sentence
    assert {content.content for content in answer.contents} == {"code", "prose"}


def test_the_acceptance_length_of_a_live_point_is_that_of_what_runs_now(
    watched: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = _at(watched, END_MS)
    whole = reports.operating_point(Selector(), WindowAsk())
    restarted = replace(whole, epochs=(EpochSpan(0.0, 1.0, "start"), EpochSpan(1.0, None, "restart")))

    def point(selector: Selector, _ask: WindowAsk) -> OperatingPoint:
        length = 2.1 if selector.epoch == "current" else 3.0
        return replace(restarted, speculation=Speculation(length))

    monkeypatch.setattr(reports, "operating_point", point)

    assert 2.1 == reports.live_point(Selector(), WindowAsk()).acceptance_length


def test_a_sweep_that_is_not_there_is_told_with_those_that_are(watched: Observed) -> None:
    with pytest.raises(NotFound, match="example"):
        _at(watched, END_MS).recommendation(RecommendationAsk("other"))


def test_the_list_of_sweeps_leaves_their_cells_out(watched: Observed) -> None:
    reports = _at(watched, END_MS)
    assert [(sweep.name, sweep.cells) for sweep in reports.sweeps()] == [("example", ())]
    assert len(reports.sweep("example").cells) == 16


def test_the_status_of_a_target_says_since_when_its_epoch_runs(watched: Observed) -> None:
    (status,) = _at(watched, END_MS).targets()
    assert (status.health, status.state, status.engine) == ("up", "observed", "vllm")
    assert status.epoch_start == START_MS / 1000


def test_the_ceiling_of_targets_that_differ_is_not_known() -> None:
    one = TargetRecord("a", "u", ceilings=(Ceiling(64, "configured"),), engine_indexes=("0", "1"))
    other = TargetRecord("b", "u", ceilings=(Ceiling(32, "configured"),), engine_indexes=("0",))
    assert ceiling_answer([one], Selector()).requests == 128
    assert ceiling_answer([one], Selector(engine_index="1")).requests == 64
    assert ceiling_answer([one, one], Selector()).requests == 128
    assert ceiling_answer([one, other], Selector()).requests is None
    assert ceiling_answer([], Selector()).requests is None


def test_labels_select_by_all_of_them() -> None:
    one = TargetRecord("a", "u", labels={"x": "1", "y": "2"})
    other = TargetRecord("b", "u", labels={"x": "1"})
    assert select_targets([one, other], Selector(label=("x:1",))) == (one, other)
    assert select_targets([one, other], Selector(label=("x:1", "y:2"))) == (one,)


def test_a_configured_content_mix_is_taken_where_no_content_is_asked_for(watched: Observed) -> None:
    reports = _at(watched, END_MS)
    record = watched.store.target(NAME)
    watched.store.save_target(replace(record, content_mix={"code": 0.25, "prose": 0.75}))
    window = WindowAsk(None, START_MS, END_MS)
    mixed = reports.recommendation(RecommendationAsk("example", window=window))
    assert mixed.combined is not None
    assert [content.share_ratio is None for content in mixed.contents] == [False, False]
    asked = reports.recommendation(RecommendationAsk("example", content="code", window=window))
    assert ["code"] == [content.content for content in asked.contents]
    watched.store.save_target(replace(record, content_mix={"poetry": 1.0}))
    other = reports.recommendation(RecommendationAsk("example", window=window))
    assert other.combined is None
    watched.store.save_target(record)


def test_many_who_ask_the_same_at_once_are_answered_by_one_computation(watched: Observed) -> None:
    reads: list[int] = []

    class Counted(Store):
        def window(self, view: View, start_ms: int, end_ms: int) -> Mapping[int, Sums]:
            reads.append(start_ms)
            time.sleep(0.2)
            return super().window(view, start_ms, end_ms)

    reports = Reports(Counted(watched.store.database), ManualClock(END_MS))
    with ThreadPoolExecutor(8) as pool:
        points = list(pool.map(lambda _: reports.operating_point(Selector(), WindowAsk()), range(8)))
    assert len(reads) == 1
    assert all(point is points[0] for point in points)


def test_an_answer_that_fails_fails_for_all_and_is_tried_again(watched: Observed) -> None:
    class Failing(Store):
        fails = True

        def window(self, view: View, start_ms: int, end_ms: int) -> Mapping[int, Sums]:
            if self.fails:
                raise StoreError("the disk is gone")
            return super().window(view, start_ms, end_ms)

    store = Failing(watched.store.database)
    reports = Reports(store, ManualClock(END_MS))
    for _ in range(2):
        with pytest.raises(StoreError):
            reports.operating_point(Selector(), WindowAsk())
    store.fails = False
    assert reports.operating_point(Selector(), WindowAsk()).coverage.ratio == 1


def test_a_line_that_is_no_sample_is_told_at_the_target_and_at_its_figures(tmp_path: Path) -> None:
    store = Store(Database.open(str(tmp_path / "lines.db"), read_only=False, create=True))
    simulation = Simulation(scenarios.steady(1), start_ms=START_MS)
    observer = Observer(TargetRecord(NAME, "http://127.0.0.1:1"))

    def told(bad: bytes, second: int) -> tuple[int | None, list[str]]:
        at_ms = START_MS + 1000 * second + 500
        page = simulation.page(at_ms, None) + bad
        step = observer.observe(attempt_of_page(page, at_ms=at_ms, took_ms=1, interval_ms=1000))
        store.save_target(observer.record)
        store.append(NAME, [step])
        reports = Reports(store, ManualClock(START_MS + 60_000))
        point = reports.operating_point(Selector(), WindowAsk())
        (status,) = reports.targets()
        return status.skipped_lines, [one.detail for one in point.warnings if one.code == "skipped_lines"]

    assert (0, []) == told(b"", 1)
    count, (words,) = told(b"this is no sample\n", 2)
    assert count == 1
    assert "the page of simulated has" in words
    assert "'this is no sample'" in words
    assert (0, []) == told(b"", 3)


def test_a_value_that_cannot_be_is_told_at_the_figures_of_its_target(tmp_path: Path) -> None:
    store = Store(Database.open(str(tmp_path / "values.db"), read_only=False, create=True))
    observer = Observer(TargetRecord(NAME, "http://127.0.0.1:1"))
    page = b'vllm:num_requests_running{model_name="m"} 1\nvllm:generation_tokens_total{model_name="m"} -5\n'
    step = observer.observe(attempt_of_page(page, at_ms=START_MS + 500, took_ms=1, interval_ms=1000))
    store.save_target(observer.record)
    store.append(NAME, [step])
    point = Reports(store, ManualClock(START_MS + 60_000)).operating_point(Selector(), WindowAsk())

    told = f"on the page of {NAME}, vllm:generation_tokens_total is -5, below 0: not used"
    assert [told] == [one.detail for one in point.warnings if one.code == "unusable_values"]
    assert point.throughput.output_tokens_per_second is None
