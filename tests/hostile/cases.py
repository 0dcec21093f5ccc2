"""What opmon makes of every way in which a target answers wrongly: the expectations, as data.

`cases` are those of the table in docs/cases.md, which is written from here (`python -m tests.hostile.document`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.hostile.badserver import LONG_MODEL, MANY_MODELS
from tests.hostile.pages import level

STRATA = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A mode of the server and what becomes of it.

    `states`: strata per state, or per kind of failure; `levels`: observed strata per running level, those of the
    played pattern where not given; `causes` of the epochs; `says`: part of the last reason; `does`: in words.
    """

    mode: str
    case: str
    does: str
    states: Mapping[str, int] = field(default_factory=lambda: {"observed": STRATA})
    levels: Mapping[int, int] | None = None
    causes: tuple[str, ...] = ("start",)
    says: str = ""
    models: tuple[str, ...] | None = None
    strata: int = STRATA
    timeout_ms: int = 1500


def pattern(strata: int = STRATA, more: int = 0, first: int = 0) -> dict[int, int]:
    """Strata per level of the played pattern, `more` requests added to each."""
    return dict(Counter(level(step) + more for step in range(first, strata)))


def read(mode: str, case: str, does: str = "read as it stands", **other: object) -> Case:
    """A page that is odd, and right."""
    return Case(mode, case, does, **other)  # type: ignore[arg-type]


def failed(mode: str, case: str, kind: str, says: str, does: str = "", **other: object) -> Case:
    """An answer that is no page: `down`, with its kind."""
    strata = int(other.pop("strata", 5))  # type: ignore[call-overload]
    words = does or f"down (`{kind}`)"
    return Case(mode, case, words, {kind: strata}, {}, (), says, strata=strata, **other)  # type: ignore[arg-type]


def unusable(mode: str, case: str, kind: str, says: str, **other: object) -> Case:
    """A page whose values cannot be used: `invalid`, with its kind."""
    return Case(mode, case, f"invalid (`{kind}`), no level stored", {kind: 5}, {}, (), says, strata=5, **other)  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    read("engines", "C01", "the sum of the engines; each is kept too", levels=pattern(more=5)),
    Case(
        "engine_vanishes",
        "C01",
        "invalid (`engine_absent`) for ten strata in which the others progress, then an epoch without it",
        {"observed": 10, "engine_absent": 10},
        dict(Counter([level(step) + 3 for step in range(6)] + [level(step) for step in range(16, 20)])),
        ("start", "engines"),
    ),
    Case(
        "engine_blinks",
        "C01",
        "the strata without it are invalid (`engine_absent`); the epoch goes on",
        {"observed": 16, "engine_absent": 4},
        dict(Counter([1] + [level(step) + 3 for step in range(20) if step % 4])),
        ("start", "engines"),
    ),
    Case(
        "engine_joins",
        "C01",
        "counts from its first sample, in an epoch of its own",
        {"observed": 20},
        dict(Counter([level(step) for step in range(6)] + [level(step) + 3 for step in range(6, 20)])),
        ("start", "engines"),
    ),
    Case(
        "engines_in_turn",
        "C01",
        "each page shows one engine alone: invalid (`several_servers`), dated back to the first",
        {"several_servers": 20},
        {},
        ("start", "engines"),
        "watch each by itself",
    ),
    Case(
        "servers_in_turn",
        "C06",
        "two servers behind one address are no restart a second: invalid (`several_servers`)",
        {"several_servers": 20},
        {},
        ("start", "restart"),
        "watch each by itself",
    ),
    read("odd_model", "C02", "the exact name", models=('org/a,b "q" {x} \\ \n=#',)),
    read("null_in_a_label", "C02", "the exact name", models=("a\x00b",)),
    read("long_model", "C02", "the exact name, of 10,000 characters", models=(LONG_MODEL,)),
    failed("html", "C04", "content_type", "text/html, not metrics"),
    failed("html_as_text", "C04", "content_type", "looks like HTML"),
    failed("redirect_to_the_login", "C04", "content_type", "text/html"),
    failed("json", "C04", "content_type", "application/json"),
    failed("protobuf", "C04", "content_type", "protobuf"),
    failed("plain_words", "C04", "parse", "all is well here"),
    failed("binary", "C04", "parse", "no line of"),
    failed("utf16", "C11", "parse", "no line of"),
    Case(
        "frozen",
        "C05",
        "stalled from the first sample that stands, dated back when it has stood for 120 s; in no level",
        {"observed": 7, "stalled": 133},
        dict(Counter([level(step) for step in range(6)] + [106])),
        strata=140,
    ),
    Case("stands_still", "C45", "stalled from the first sample on, dated back", {"stalled": 130}, {}, strata=130),
    Case(
        "waits_while_nothing_runs",
        "C45",
        "running 0 with requests waiting and no progress is stalled, not idle",
        {"stalled": 130},
        {},
        strata=130,
    ),
    Case(
        "restarts",
        "C06",
        "a new epoch; nothing is compared across it",
        causes=("start", "restart"),
        levels=dict(Counter([level(step) for step in range(6)] + [level(step) for step in range(14)])),
    ),
    Case(
        "restarts_without_a_start",
        "C06",
        "known by the counters that fell",
        causes=("start", "restart"),
        levels=dict(Counter([level(step) for step in range(6)] + [level(step) for step in range(14)])),
    ),
    Case(
        "restarts_higher", "C06", "known by the start instant although counters are higher", causes=("start", "restart")
    ),
    Case("counter_wraps", "C06", "a new epoch: never a negative rate", causes=("start", "restart")),
    read("counter_rounded", "C06", "a fall by rounding is no restart"),
    read("start_zero", "C06", "a start at 0 is none"),
    read("start_now_and_then", "C06", "a start of 0, NaN or none is no restart"),
    unusable("not_a_number", "C07", "not_finite", "is nan"),
    unusable("minus_nan", "C07", "not_finite", "is nan"),
    unusable("infinite", "C07", "not_finite", "is inf"),
    unusable("beyond_a_double", "C07", "not_finite", "is inf"),
    unusable("negative", "C07", "negative", "is -1"),
    unusable("half_a_request", "C07", "not_finite", "no number of requests"),
    unusable("too_many_requests", "C07", "not_finite", "no number of requests"),
    read("minus_zero", "C07", "0", levels={0: STRATA}),
    read("exponent", "C08", "12", levels={12: STRATA}),
    unusable("hexadecimal", "C08", "no_known_metrics", "could not be read"),
    unusable("underscore", "C08", "no_known_metrics", "could not be read"),
    unusable("decimal_comma", "C08", "no_known_metrics", "could not be read"),
    unusable("other_digits", "C08", "no_known_metrics", "could not be read"),
    unusable("no_value", "C08", "no_known_metrics", "could not be read"),
    read("old_timestamp", "C09", "stored at the instant of the scrape"),
    read("future_timestamp", "C09", "stored at the instant of the scrape"),
    unusable("twice", "C10", "duplicate", "is given twice"),
    unusable("twice_the_same", "C10", "duplicate", "is given twice"),
    unusable("twice_in_another_order", "C10", "duplicate", "is given twice"),
    read("crlf", "C11"),
    read("bom", "C11"),
    read("no_last_newline", "C11"),
    read("blank_lines", "C11"),
    read("odd_spaces", "C11"),
    read("not_utf8", "C11", "bytes that are no UTF-8 spoil their own label alone"),
    read("quoted_names", "C12"),
    read("quoted_running", "C12", "the same signal"),
    read("openmetrics", "C12", "exemplars are left out"),
    read("help_and_type_twice", "C12", "comments decide nothing"),
    read("type_is_a_lie", "C12", "comments decide nothing"),
    read("bad_line", "C13", "a bad line of another name is skipped, counted and told"),
    unusable("one_engine_unreadable", "C13", "not_finite", "could not be read"),
    unusable("two_lines_run_together", "C13", "no_known_metrics", "could not be read"),
    unusable("cut_in_the_gauge", "C13", "no_known_metrics", "has no"),
    failed("too_much", "C14", "too_large", "larger than", "read no further than the limit: down (`too_large`)"),
    failed("too_much_announced", "C14", "too_large", "larger than", "not read at all: down (`too_large`)"),
    read("label_of_a_megabyte", "C14"),
    failed("drip", "C15", "timeout", "bytes so far", "one deadline for the whole attempt", strata=2, timeout_ms=400),
    failed("slow_headers", "C15", "timeout", "waiting for the answer", strata=2, timeout_ms=400),
    failed("silence", "C15", "timeout", "waiting for the answer", strata=2, timeout_ms=400),
    Case(
        "late",
        "C15",
        "an answer that begins after its stratum is invalid (`late`): a starved server answers when it is idle",
        {"late": 2},
        {},
        (),
        "answered after",
        strata=2,
    ),
    failed("endless_headers", "C15", "protocol", "too long", strata=2),
    read("gzipped", "C16", "read, although it was not asked for"),
    read("deflated", "C16", "read, although it was not asked for"),
    read("chunked", "C16"),
    read("chunked_with_trailers", "C16"),
    read("chunk_extensions", "C16"),
    read("byte_by_byte", "C16"),
    read("early_hints", "C16"),
    read("http_1_0", "C16"),
    read("until_close", "C16"),
    read("closes_each_time", "C16"),
    read("closes_without_saying", "C16", "asked again on a new connection, in the same attempt"),
    failed("gzip_cut_off", "C16", "encoding", "cut off"),
    failed("gzip_with_a_wrong_sum", "C16", "encoding", "broken gzip"),
    failed("gzip_is_a_lie", "C16", "encoding", "broken gzip"),
    failed("gzip_bomb", "C16", "too_large", "larger than", "unpacked no further than the limit: down (`too_large`)"),
    failed("brotli", "C16", "encoding", "not asked for"),
    failed("shorter_than_announced", "C16", "truncated", "is cut off"),
    failed("chunks_cut_off", "C16", "truncated", "is cut off"),
    failed("reset", "C16", "truncated", "reset by peer"),
    failed("openmetrics_without_its_end", "C16", "truncated", "# EOF"),
    failed("until_close_in_the_middle_of_a_line", "C16", "truncated", "no end"),
    unusable("copy_of_a_minute_ago", "C16", "stale_page", "its Age is 60 s"),
    unusable("copy_that_is_said_to_be_old", "C16", "stale_page", "its Warning says so"),
    read("copy_of_now", "C16", "a copy of at most 5 s, or of the interval, is taken for the present"),
    read("filter_by_its_first_name_alone", "C19", "less than the whole page shows: the whole page is asked for"),
    failed("chunk_size_is_no_number", "C16", "protocol", "chunk"),
    failed("negative_length", "C16", "protocol", "Content-Length"),
    failed("length_is_no_number", "C16", "protocol", "Content-Length"),
    failed("two_lengths", "C16", "protocol", "Content-Length"),
    failed("another_protocol", "C16", "protocol", "is it the right port"),
    failed("tls_where_none_is_asked_for", "C16", "protocol", "http or https"),
    failed("not_http", "C16", "connect", "closed the connection without an answer"),
    failed("early_close", "C16", "connect", "closed the connection without an answer"),
    failed("reset_before_the_answer", "C16", "connect", "reset by peer"),
    read("redirected_to_the_slash", "C17", "followed within the origin"),
    failed("redirect_loop", "C17", "redirect", "more than 5 redirects"),
    failed("redirect_to_another_port", "C17", "redirect", "another origin"),
    failed("redirect_without_a_place", "C17", "redirect", "without a place"),
    failed("redirect_nowhere", "C17", "redirect", "no address"),
    failed("redirect_to_a_port_that_is_none", "C17", "redirect", "another origin"),
    failed("redirect_to_a_name_that_is_none", "C17", "redirect", "no address"),
    failed("redirect_to_a_file", "C37", "redirect", "another origin"),
    failed("redirect_to_gopher", "C37", "redirect", "another origin"),
    failed("redirect_to_metadata", "C37", "redirect", "metadata service, which opmon never asks"),
    failed("redirect_to_metadata_by_number", "C37", "redirect", "metadata service, which opmon never asks"),
    failed("redirect_to_metadata_in_ipv6", "C37", "redirect", "metadata service, which opmon never asks"),
    failed("redirect_to_metadata_by_name", "C37", "redirect", "metadata service, which opmon never asks"),
    unusable("empty", "C18", "no_known_metrics", "no samples"),
    unusable("comments_only", "C18", "no_known_metrics", "no samples"),
    unusable("no_log_stats", "C18", "no_known_metrics", "--disable-log-stats"),
    unusable("another_program", "C18", "no_known_metrics", "none of a known engine"),
    unusable("no_running_line", "C18", "no_known_metrics", "none says how many requests run"),
    failed("status_204", "C18", "http_status", "HTTP 204"),
    failed("status_206", "C18", "http_status", "HTTP 206"),
    failed("status_304", "C18", "http_status", "HTTP 304"),
    failed("status_401", "C18", "http_status", "auth"),
    failed("status_404", "C18", "http_status", "HTTP 404"),
    failed("status_429", "C18", "http_status", "HTTP 429"),
    failed("status_500", "C18", "http_status", "HTTP 500"),
    failed(
        "status_503", "C18", "http_status", "HTTP 503", "a good page under a bad status is none: down (`http_status`)"
    ),
    read("old_names", "C19"),
    read("ray", "C19"),
    read("ray_with_a_colon", "C19"),
    read("filtered", "C19", "a pulse asks for what it needs alone"),
    read("filter_answers_nothing", "C19", "an empty filtered answer is never zero load: the whole page is asked for"),
    read("filter_is_refused", "C19", "the whole page is asked for"),
    read(
        "two_models",
        "C20",
        "each model has its own levels; the target has their sum",
        levels=pattern(more=3),
        models=("big", "small"),
    ),
    Case("model_swap", "C20", "a new epoch", causes=("start", "models")),
    read(
        "many_models",
        "C20",
        "500 models, each by itself",
        levels={500: 5},
        states={"observed": 5},
        strata=5,
        models=tuple(sorted(MANY_MODELS)),
    ),
    Case(
        "kv_blocks_change",
        "C20",
        "a new epoch, seen by the next full scrape",
        states={"observed": 40},
        levels=pattern(40),
        causes=("start", "kv_blocks"),
        strata=40,
    ),
    read("created", "C21", "a date, never a counter"),
    read("created_ahead", "C21", "a date, never a counter"),
    read("without_content_type", "C23"),
    read("no_type", "C23"),
    read("octets", "C23"),
    read("wrong_charset", "C23"),
    read("odd_content_type", "C23"),
    read(
        "html_model",
        "C34",
        "kept as text",
        models=("<img src=x onerror=alert(1)><script>document.title='no'</script>",),
    ),
    read("engine_label_on_half_of_the_lines", "C01", "lines without the label are an engine without a name"),
    read("engine_with_and_without_label", "C01", "two engines, added", levels=pattern(more=2)),
)
