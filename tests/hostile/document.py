"""Writes docs/cases.md from the expectations: `python -m tests.hostile.document --write`, or says what differs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.hostile.cases import CASES, Case
from tests.needs import ROOT

PAGE = ROOT / "docs" / "cases.md"
TEST = "tests/hostile/test_hostile.py::test_a_hostile_answer_is_read_right_or_refused_with_its_reason"

BEGIN = """\
# Cases

What opmon does when a target does not answer as it should. Each line is held by a test that drives the production
path (scraper, tracker, database, report) over real sockets against a server of our own, `tests/hostile/badserver.py`;
`python -m tests.hostile.badserver 18900` serves all of it at `http://127.0.0.1:18900/MODE/metrics`.

The rule behind the lines: what cannot be read is never a number. A failed answer is `down`, an answer without usable
values `invalid`, each with its kind and its reason in words; neither is in a level, and neither stops other targets.
States and kinds are explained in [concepts](concepts.md).

## Answers

"observed" means: in its level, as the page says. The test is
`{test}[MODE]` unless another one is named.

| case | mode | what opmon does |
| --- | --- | --- |
"""

MORE = """
## What takes time

| case | what opmon does | test |
| --- | --- | --- |
| a target is away for a while | its strata are `down`, in no level; shares are of observed time, and coverage stands beside them | `tests/hostile/test_hostile.py::test_a_target_that_goes_away_is_unknown_for_that_time_and_the_share_is_of_observed_time` |
| a restart within a long gap leaves higher counters | a new epoch, known by the start of the process | `tests/core/test_states.py::test_a_restart_in_a_long_gap_shows_by_the_process_start_although_counters_are_higher` |
| a server that is up for long becomes slower | means and quantiles are those of the window, never of the server's life | `tests/hostile/test_hostile.py::test_a_mean_is_that_of_the_window_and_not_of_the_servers_whole_life` |
| a scrape outlasts its interval | that target loses a stratum, counted; the next one is attempted; nothing piles up | `tests/hostile/test_hostile.py::test_an_attempt_that_outlasts_its_stratum_costs_the_next_one_and_no_more` |
| the wall clock steps by an hour, back or forth | the schedule is made anew; a step back begins an epoch, and nothing is compared across it | `tests/core/test_states.py::test_a_clock_that_was_set_back_begins_an_epoch_and_one_that_leapt_forward_does_not` |
| requests stand while the clock steps | they are not said to have stood for as long | `tests/core/test_states.py::test_requests_that_stand_across_a_step_are_not_said_to_have_stood_for_as_long` |
| a long prefill: nothing moves for minutes | stalled at first, load again once its first token came | `tests/core/test_states.py::test_a_long_prefill_is_load` |
| two servers behind one address | invalid until one alone has answered ten times | `tests/core/test_alternation.py::test_once_one_server_alone_answers_it_is_observed_again` |
| twenty such targets beside twenty good ones | the good ones lose no stratum, memory stays flat, a line in the log per change | `tests/hostile/test_flood.py::test_twenty_hostile_targets_cost_twenty_good_ones_nothing` |
| two engines on one page, busy or idle | invalid (`not_an_engine`), naming both; read where the settings name one | `tests/core/test_recognise.py::test_a_page_with_requests_of_two_engines_is_refused_and_names_both_and_the_remedy` |
| one engine under two names that disagree | invalid (`not_an_engine`): neither added nor halved | `tests/core/test_recognise.py::test_two_prefixes_that_disagree_are_neither_added_nor_halved` |
| a counter below 0, a KV cache at 170 % | not known, and the report warns (`unusable_values`) | `tests/core/test_unusable.py::test_a_counter_below_0_is_not_known_and_told` |

## What no table can hold

`make fuzz` looks for more: a coverage-guided fuzzer changes pages byte by byte, and an oracle compares the reading with
that of the Python client of Prometheus: never a crash, never a level that is negative, not finite or beyond a count,
and never a number where a line of the gauge is broken or repeated. Whatever it finds stays as a test
(`tests/fuzz/test_fuzz.py::test_what_was_once_read_wrongly_is_read_right`), and a seeded piece of it runs with every
test run (`tests/fuzz/test_fuzz.py::test_mutations_of_real_lines_are_read_right_or_refused`).
"""


def row_of(case: Case) -> str:
    """A line of the table."""
    states = set(case.states)
    does = f"observed: {case.does}" if states == {"observed"} and len(case.causes) == 1 else case.does
    return f"| {case.case} | `{case.mode}` | {does} |"


def text() -> str:
    """The whole page."""
    rows = sorted(CASES, key=lambda case: case.case)
    return BEGIN.replace("{test}", TEST) + "\n".join(map(row_of, rows)) + "\n" + MORE


def main() -> int:
    """Writes the page, or 1 if it is not what the expectations say."""
    if "--write" in sys.argv:
        Path(PAGE).write_text(text(), encoding="utf-8")
        return 0
    return int(PAGE.read_text(encoding="utf-8") != text())


if __name__ == "__main__":
    sys.exit(main())
