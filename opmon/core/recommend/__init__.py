"""The verdict: which cell and column of a sweep apply to where a server runs, what the ratio is, and what to do.

Contains the assembly of the parts beside it (`ask`, `ratios`, `case`, `content`, `whole_turn`, `verdicts`, `mix`, ...); pure, as
the whole core. The rules are DEFINITIONS 4 to 6 (docs/concepts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opmon.core.answers import CellRef, OperatingPointSummary, Recommendation, UnfairPair, Warning_
from opmon.core.beside import InferredContent
from opmon.core.cells import Sweep
from opmon.core.client_turns import FEW_TURNS
from opmon.core.occupancy import busy_ms, distribution
from opmon.core.recommend.ask import (
    Ask,
    LivePoint,
    Times,
    as_in_sweep,
    check_ask,
    live_point,
    live_point_of,
    parse_mix,
    resolve_times,
    with_client_times,
)
from opmon.core.recommend.case import Setting
from opmon.core.recommend.content import ContentResult, answer_content
from opmon.core.recommend.doubts_of_files import notes_of
from opmon.core.recommend.look_first import infer_content
from opmon.core.recommend.measure_next import measure_next
from opmon.core.recommend.missing import not_in_the_sweep
from opmon.core.recommend.mix import each_content, mixed, unknown_content
from opmon.core.recommend.ratios import REFERENCE
from opmon.core.recommend.verdicts import NO_DATA, Finding
from opmon.errors import SweepError

__all__ = [
    "Ask",
    "LivePoint",
    "Times",
    "choose_configurations",
    "live_point",
    "live_point_of",
    "parse_mix",
    "recommend",
    "with_client_times",
]


def recommend(sweep: Sweep, live: LivePoint | None, ask: Ask | None = None) -> Recommendation:
    """The recommendation for a live point. Without a live point, or without busy time in it, the verdict is `no_data`.

    Raises SweepError for configurations that the sweep does not hold, ConfigError for an ask that cannot be answered.
    """
    ask = ask or Ask()
    check_ask(ask)
    reference, candidate = choose_configurations(sweep, ask.reference, ask.candidate)
    tokens = as_in_sweep(parse_mix(ask.content), sweep.contents) if ask.content else None
    if live is None or not busy_ms(live.in_system):
        reason = "no live point" if live is None else "the server was never seen busy in this window"
        finding = Finding(NO_DATA, (f"{reason}: nothing can be said about which cell applies",))
        return _shell(sweep, live, ask, (reference, candidate), finding)
    setting = Setting(
        sweep=sweep,
        reference=reference,
        candidate=candidate,
        live=live,
        live_is=ask.live_is,
        prompt_tokens=ask.prompt_tokens or live.prompt_tokens,
        output_tokens=ask.output_tokens or live.output_tokens,
        ceiling=ask.ceiling or live.ceiling_requests,
        times=resolve_times(live, ask),
    )
    return _answer(setting, ask, tokens)


def choose_configurations(sweep: Sweep, reference: str | None, candidate: str | None) -> tuple[str, str]:
    """The two configurations: as named; of two, the one left over; none named: the first in the file is the reference.

    Raises SweepError listing what there is.
    """
    there = sweep.configurations
    listed = ", ".join(repr(name) for name in there) or "none"
    for name in (reference, candidate):
        if name is not None and name not in there:
            message = f"sweep {sweep.name!r} has no configuration {name!r}; it has {listed}"
            raise SweepError(message)
    if len(there) < 2:
        has = f"one configuration ({listed})" if there else "no cells"
        message = (
            f"sweep {sweep.name!r} has {has}, and a comparison needs two: measure a second configuration with the same"
            " settings, and add its rows, or its file, to this sweep"
        )
        raise SweepError(message)
    if reference is not None and reference == candidate:
        message = f"reference and candidate are both {reference!r}; sweep {sweep.name!r} has {listed}"
        raise SweepError(message)
    if reference is not None and candidate is not None:
        return reference, candidate
    if len(there) != 2:
        message = f"sweep {sweep.name!r} has {len(there)} configurations ({listed}); name a reference and a candidate"
        raise SweepError(message)
    if reference is not None:
        return reference, next(name for name in there if name != reference)
    if candidate is not None:
        return next(name for name in there if name != candidate), candidate
    return there[0], there[1]


def _answer(setting: Setting, ask: Ask, tokens: dict[str, float] | None) -> Recommendation:
    """The contents' answers, and the one above them."""
    there, combined = setting.sweep.contents, None
    declared = next(iter(tokens)) if tokens and len(tokens) == 1 else None
    if tokens is None:
        results = [answer_content(setting, content) for content in there]
        finding = unknown_content(results)
    elif declared is not None and declared not in there:
        results = [answer_content(setting, content, declared=declared) for content in there]
        of_others = unknown_content(results).capped(not_in_the_sweep(declared, there))
        finding = Finding(of_others.verdict, (of_others.reasons[-1], *each_content(results)))
    else:
        known = [content for content in there if content in tokens]
        results = [answer_content(setting, content, share_ratio=tokens[content]) for content in known]
        finding, combined = mixed(setting, {one.answer.content: one for one in results}, tokens)
        if declared is not None:
            finding = unknown_content(results)
    answer = _shell(setting.sweep, setting.live, ask, (setting.reference, setting.candidate), finding)
    return replace(
        answer,
        combined=combined,
        contents=tuple(result.answer for result in results),
        unfair_pairs=_unfair_pairs(results),
        measure_next=measure_next([doubt for result in results for doubt in result.doubts], setting.candidate),
        warnings=_warnings(setting, results),
        inferred_content=_inferred(setting),
    )


def _shell(sweep: Sweep, live: LivePoint | None, ask: Ask, names: tuple[str, str], finding: Finding) -> Recommendation:
    """The recommendation without its contents."""
    return Recommendation(
        operating_point=None if live is None else _summary(live, ask),
        sweep=sweep.name,
        reference=names[0],
        candidate=names[1],
        live_is=ask.live_is,
        verdict=finding.verdict,
        reasons=tuple(dict.fromkeys(finding.reasons)),
        combined=None,
        contents=(),
        warnings=tuple(Warning_("import_note", words) for words in notes_of(sweep)),
    )


def _summary(live: LivePoint, ask: Ask) -> OperatingPointSummary:
    return OperatingPointSummary(
        sentence=live.sentence,
        coverage_ratio=live.coverage_ratio,
        window_seconds=live.window_seconds,
        in_system=distribution(live.in_system, sum(live.in_system.values())),
        limited_ratio=live.limited_ratio,
        prompt_tokens=ask.prompt_tokens or live.prompt_tokens,
        output_tokens=ask.output_tokens or live.output_tokens,
        ceiling_requests=ask.ceiling or live.ceiling_requests,
        source=live.source,
    )


def _inferred(setting: Setting) -> InferredContent | None:
    """What the live acceptance length says of content, where it is known which configuration runs."""
    if setting.live_is is None:
        return None
    running = setting.reference if setting.live_is == REFERENCE else setting.candidate
    return infer_content(setting.live.acceptance_length, setting.sweep.cells, running)


def _unfair_pairs(results: Sequence[ContentResult]) -> tuple[UnfairPair, ...]:
    """Every refused pair, by the cell of its candidate."""
    return tuple(
        UnfairPair(
            CellRef(
                refusal.candidate.concurrency,
                refusal.candidate.content,
                refusal.candidate.prompt_tokens,
                refusal.candidate.output_tokens,
            ),
            refusal.fields,
        )
        for result in results
        for refusal in result.pairing.refusals
    )


def _warnings(setting: Setting, results: Sequence[ContentResult]) -> tuple[Warning_, ...]:
    """Doubts that the verdict does not contain, each once."""
    found = [Warning_(code, detail) for result in results for code, detail in result.warnings]
    assumed = sorted({name for result in results for name in result.pairing.assumed_equal})
    if assumed:
        detail = f"not stated in the file and taken as equal on both sides: {', '.join(assumed)}"
        found.append(Warning_("assumed_equal", detail))
    single = sorted({level for result in results for level in result.pairing.single_levels})
    if single:
        detail = (
            f"measured for one configuration only, and not used: concurrency {', '.join(f'{one:g}' for one in single)}"
        )
        found.append(Warning_("unpaired_cells", detail))
    duplicates = sum(result.pairing.duplicates for result in results)
    if duplicates:
        detail = (
            f"{duplicates} rows say in every field what another row says, and count once: a repeat differs in a figure,"
            " its instant, or a column that numbers the runs"
        )
        found.append(Warning_("duplicate_rows", detail))
    unlimited = sum(cell.concurrency is None for cell in setting.sweep.cells)
    if unlimited:
        detail = f"{unlimited} cells state no concurrency (unlimited, or not known) and are not used"
        found.append(Warning_("no_concurrency", detail))
    if setting.live_is is None:
        detail = (
            "it is not declared which configuration the live server runs (live_is); figures are those of a live"
            " reference, and both readings stand beside each column"
        )
        found.append(Warning_("live_is_unknown", detail))
    if setting.live.limited_ratio is None:
        found.append(
            Warning_("limited_unknown", "how long requests were held back by a limit is not known; counted as 0")
        )
    if setting.times is not None and setting.times.source == "client" and setting.live.reported_turns < FEW_TURNS:
        detail = f"the times of a turn are the mean of {setting.live.reported_turns} turns that clients reported"
        found.append(Warning_("few_turns", detail))
    if setting.live.is_lower_bound:
        detail = "the server was busier while it was not observed: the operating point is a lower bound"
        found.append(Warning_("lower_bound", detail))
    found += [Warning_("import_note", words) for words in notes_of(setting.sweep)]
    return tuple(dict.fromkeys(found))
