from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from opmon.core.exposition import LONGEST_HEAD, MOST_HEADS, Page, Reader, parse_labels, parse_value
from tests.needs import NEEDS

# Where a counter lacks its `_total`, as in every page but vLLM's, the library adds it.
PAGES = sorted((Path(__file__).parents[1] / "data" / "expositions").glob("vllm-*.prom"))

Families = list[tuple[str, dict[tuple[tuple[str, str], ...], float]]]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], str]


def values(page: Page) -> Samples:
    """Every sample of a page; the values as text, so that NaN equals NaN."""
    return {
        (series.name, frozenset(series.labels.items())): repr(value)
        for rows in page.samples.values()
        for series, value in rows
    }


def library_values(text: str) -> Samples:
    """The same as prometheus_client reads it."""
    return {
        (sample.name, frozenset(sample.labels.items())): repr(float(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(text: str) -> tuple[str, dict[str, str], float]:
    """The only sample of a page."""
    page = Reader().read(text)
    assert page.skipped == 0
    ((series, value),) = [row for rows in page.samples.values() for row in rows]
    return series.name, dict(series.labels), value


LABELS = st.dictionaries(st.sampled_from(["engine", "model_name", "le", "pid"]), st.text(max_size=12), max_size=3)
VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.integers(0, 10**6).map(float)
FAMILIES = st.lists(
    st.tuples(
        st.from_regex(r"[a-z_:][a-z0-9_:]{0,9}", fullmatch=True),
        st.dictionaries(LABELS.map(lambda labels: tuple(sorted(labels.items()))), VALUES, max_size=4),
    ),
    max_size=5,
    unique_by=lambda family: family[0],
)


def exposed(families: Families) -> str:
    """A valid page, as prometheus_client itself writes it."""

    class Given(Collector):
        def collect(self) -> list[Metric]:
            made = []
            for name, samples in families:
                metric = Metric(name, "given", "gauge")
                for labels, value in samples.items():
                    metric.add_sample(name, dict(labels), value)
                made.append(metric)
            return made

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given())
    return generate_latest(registry).decode()


@given(FAMILIES)
def test_a_valid_page_has_the_values_that_the_library_reads(families: Families) -> None:
    text = exposed(families)
    page = Reader().read(text)
    assert library_values(text) == values(page)
    assert (0, set()) == (page.skipped, page.duplicates)


@given(FAMILIES)
def test_a_reader_that_knows_the_heads_reads_the_same_as_a_new_one(families: Families) -> None:
    text = exposed(families)
    reader = Reader()
    reader.read(text)
    assert values(Reader().read(text)) == values(reader.read(text))


@given(FAMILIES, st.data())
def test_one_bad_line_is_counted_and_changes_no_other_value(families: Families, data: st.DataObject) -> None:
    lines = exposed(families).split("\n")
    bad = data.draw(st.sampled_from(["this is not a metric line", 'open{a="b 1', "x{a=1} 2", "name", "x 1 2 3 4z"]))
    lines.insert(data.draw(st.integers(0, len(lines))), bad)
    page = Reader().read("\n".join(lines))
    assert library_values(exposed(families)) == values(page)
    assert (1, bad) == (page.skipped, page.first_skipped)


@given(st.text() | st.binary())
def test_no_text_and_no_bytes_make_a_reader_raise(anything: str | bytes) -> None:
    page = Reader().read(anything)
    assert page.skipped >= 0


@given(FAMILIES, st.sampled_from([("\n", "\r\n"), ("# HELP", "\ufeff# HELP")]))
def test_carriage_returns_and_a_byte_order_mark_change_nothing(families: Families, change: tuple[str, str]) -> None:
    text = exposed(families)
    assert values(Reader().read(text)) == values(
        Reader().read(text.replace(change[0], change[1], -1 if change[0] == "\n" else 1))
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_of_a_real_server_has_the_values_that_the_library_reads(path: Path) -> None:
    text = path.read_text()
    reader = Reader()
    for _ in range(2):
        page = reader.read(path.read_bytes())
        assert library_values(text) == values(page)
        assert 0 == page.skipped


@pytest.mark.needs("shared")
def test_pages_of_other_versions_have_the_values_that_the_library_reads() -> None:
    # Of the public pages only vLLM's: where a counter lacks its `_total`, the library adds it.
    shared = Path(NEEDS["shared"].find() or "")
    paths = [*shared.glob("data/generated/*.prom"), *shared.glob("data/public/vllm*.prom")]
    assert len(paths) > 40
    for path in paths:
        text = path.read_text()
        page = Reader().read(text)
        # In the mixed fixture families come twice; the library gives both, and so do `duplicates`.
        assert library_values(text).keys() == values(page).keys(), path.name
        if not page.duplicates:
            assert library_values(text) == values(page), path.name


def test_only_wanted_names_are_kept_and_the_others_are_counted() -> None:
    page = Reader(["a", "b_sum"]).read('a{x="1"} 1\nab 2\nb_sum 3\nb_count 4\na_created 5\n')
    assert {"a", "b_sum"} == page.samples.keys()
    assert 5 == page.sample_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2e+01", 12.0),
        ("12", 12.0),
        ("+Inf", math.inf),
        ("-Inf", -math.inf),
        ("-1", -1.0),
        ("1_000", None),
        ("twelve", None),
        ("", None),
    ],
)
def test_a_value_is_read_as_the_format_has_it(text: str, expected: float | None) -> None:
    assert expected == parse_value(text)


@pytest.mark.parametrize("text", ["NaN", "nan", "-nan"])
def test_not_a_number_is_a_value(text: str) -> None:
    value = parse_value(text)
    assert value is not None
    assert math.isnan(value)


def test_a_label_keeps_commas_braces_quotes_backslashes_and_newlines() -> None:
    line = r'm{model_name="org/a,b \"q\" {x} \\ \n",engine="0"} 3'
    assert ("m", {"model_name": 'org/a,b "q" {x} \\ \n', "engine": "0"}, 3.0) == one(line)


def test_an_unknown_escape_stands_for_itself() -> None:
    assert ("", {"a": r"C:\dir"}) == parse_labels(r'a="C:\dir"')


def test_a_quoted_name_stands_inside_the_braces() -> None:
    assert ("my.weird metric", {"engine": "0"}, 1.0) == one('{"my.weird metric",engine="0"} 1')
    assert ("vllm:x", {}, 1.0) == one('{"vllm:x"} 1')
    assert ("x", {"my label": "y"}, 1.0) == one('x{"my label"="y"} 1')


@pytest.mark.parametrize("labels", ['a="1",a="2"', 'a="1" b="2"', "a", 'a="1",,', '"x","y"', 'a="1","x"', 'a="\\"'])
def test_malformed_labels_are_refused(labels: str) -> None:
    assert parse_labels(labels) is None


def test_a_trailing_comma_and_spaces_between_labels_are_fine() -> None:
    assert ("m", {"a": "1", "b": "2"}, 1.0) == one('m { a = "1" , b="2", } 1')


def test_timestamps_are_ignored_also_where_they_change() -> None:
    reader = Reader(["m"])
    for second in range(3):
        page = reader.read(f'm{{a="1"}} {second} 15000000000{second}0\n')
        assert [float(second)] == [value for _, value in page.samples["m"]]


def test_exemplars_are_ignored() -> None:
    text = '# TYPE x counter\nx_total 7 # {trace_id="a b",span="} 1"} 0.5 1.7e9\n# EOF\n'
    assert ("x_total", {}, 7.0) == one(text)
    ((sample,),) = [family.samples for family in openmetrics_families(text)]  # type: ignore[no-untyped-call]
    assert 7.0 == sample.value


def test_a_series_given_twice_is_reported_and_its_values_are_not_added() -> None:
    page = Reader().read('m{a="1",b="2"} 1\nm{b="2",a="1"} 99\nm{a="1"} 5\n')
    assert [1.0, 5.0] == [value for _, value in page.samples["m"]]
    assert [{"a": "1", "b": "2"}] == [dict(series.labels) for series in page.duplicates]


def test_a_bad_value_of_a_known_head_is_skipped_and_named() -> None:
    reader = Reader(["m"])
    reader.read('m{a="1"} 1\n')
    page = reader.read('m{a="1"} one\n')
    assert (1, {"m"}, {}) == (page.skipped, page.skipped_names, page.samples)


def test_a_page_without_a_last_newline_keeps_its_last_sample() -> None:
    assert ("m", {}, 3.0) == one("# TYPE m gauge\nm 3")


@pytest.mark.parametrize("timestamp", ["", " 1500000000000"])
def test_what_a_reader_remembers_stays_small(timestamp: str) -> None:
    reader = Reader(["m"])
    for page in range(3):
        lines = [f'm{{i="{page} {number}"}} 1{timestamp}' for number in range(MOST_HEADS)]
        reader.read("\n".join([*lines, f'm{{i="{"x" * LONGEST_HEAD}"}} 1']))
    assert len(reader._heads) <= MOST_HEADS  # noqa: SLF001
    assert len(reader._series) <= 2 * MOST_HEADS + 1  # noqa: SLF001
    assert LONGEST_HEAD >= max(map(len, reader._heads), default=0)  # noqa: SLF001


def test_a_page_of_very_many_other_lines_still_gives_the_wanted_ones() -> None:
    reader = Reader(["m"])
    junk = "\n".join(f'junk{{i="{number}"}} 1' for number in range(2 * MOST_HEADS))
    for value in (1.0, 2.0):
        page = reader.read(f'{junk}\nm{{a="1"}} {value}\n')
        assert [value] == [found for _, found in page.samples["m"]]
        assert 2 * MOST_HEADS + 1 == page.sample_lines


def test_a_long_broken_line_takes_no_longer_than_its_length() -> None:
    page = Reader().read("m{" + 'a="1",' * 100_000 + '"\n' + 'm{a="' + "\\" * 1_000_001 + "\n")
    assert 2 == page.skipped
