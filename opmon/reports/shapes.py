"""Records, epochs, sweeps and steps in the shapes of the answers.

Contains no questions and no reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opmon.core import answers
from opmon.core.answers import CeilingAnswer, EpochSpan, Selector
from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.core.model import Ceiling, Epoch, Health, State, TargetRecord
from opmon.core.occupancy import mean as occupancy_mean
from opmon.core.sums import Sums, TimelinePoint, add


def epoch_span(epoch: Epoch) -> EpochSpan:
    """An epoch as answers tell it."""
    end = None if epoch.end_ms is None else epoch.end_ms / 1000
    return EpochSpan(epoch.start_ms / 1000, end, epoch.cause, epoch.detail)


def ceiling_answer(targets: Sequence[TargetRecord], selector: Selector) -> CeilingAnswer:
    """The ceiling of one server: per-engine limit x engines. Unknown where targets differ or none is known."""
    if not targets:
        return CeilingAnswer()
    kv = targets[0].kv_cache_max_concurrency if len(targets) == 1 else None
    known = {_ceiling_of(target, selector) for target in targets}
    newest = known.pop() if len(known) == 1 else None
    if newest is None:
        return CeilingAnswer(kv_cache_max_concurrency=kv)
    requests, ceiling = newest
    return CeilingAnswer(requests, ceiling.max_num_seqs, ceiling.source, kv)


def _ceiling_of(target: TargetRecord, selector: Selector) -> tuple[int, Ceiling] | None:
    if not target.ceilings:
        return None
    return target.ceilings[-1].max_num_seqs * engines_of([target], selector), replace(target.ceilings[-1], since_ms=0)


def engines_of(targets: Sequence[TargetRecord], selector: Selector) -> int:
    """How many engines one of the targets has; of several, the most."""
    if selector.engine_index is not None:
        return 1
    return max((len(target.engine_indexes) for target in targets), default=0) or 1


def alias_doubles_of(targets: Sequence[TargetRecord]) -> str | None:
    """The names of one signal that disagree, of each target; None where no target has shown a whole page yet."""
    shown = [target for target in targets if target.facts]
    if not shown:
        return None
    told = {target.name: target.facts["alias_doubles"] for target in shown if target.facts.get("alias_doubles")}
    return next(iter(told.values())) if len(targets) == 1 and told else "; ".join(f"{n}: {w}" for n, w in told.items())


def about_pages(targets: Sequence[TargetRecord]) -> tuple[answers.Warning_, ...]:
    """What the last whole page of each target lacks: a figure may lack a series, or a value."""
    return (*_skipped_lines(targets), *_unusable_values(targets))


def _skipped_lines(targets: Sequence[TargetRecord]) -> tuple[answers.Warning_, ...]:
    """A warning where the last whole page of a target had lines that are no samples: a figure may lack a series."""
    return tuple(
        answers.Warning_("skipped_lines", f"the page of {target.name} has {target.facts['skipped']}")
        for target in targets
        if target.facts.get("skipped")
    )


def _unusable_values(targets: Sequence[TargetRecord]) -> tuple[answers.Warning_, ...]:
    """A warning where the last whole page of a target had values that cannot be: what they stand for is not known."""
    return tuple(
        answers.Warning_("unusable_values", f"on the page of {target.name}, {target.facts['unusable']}")
        for target in targets
        if target.facts.get("unusable")
    )


def target_status(target: TargetRecord, epoch_start_ms: int | None) -> answers.TargetStatus:
    """A target as answers tell it. Of one that is watched no more nobody knows how it is now."""
    if target.removed_ms is not None:
        target = replace(target, health=Health.UNKNOWN, state=State.GAP, last_error="")
    return answers.TargetStatus(
        name=target.name,
        url=target.url,
        job=target.job,
        labels=dict(target.labels),
        health=target.health.value,
        state=target.state.value,
        engine=target.engine,
        version=target.version,
        models=target.models,
        engine_indexes=target.engine_indexes,
        epoch_start=_seconds(epoch_start_ms),
        last_scrape=_seconds(target.last_scrape_ms),
        last_error=target.last_error,
        missing=target.missing,
        form=target.form.value,
        pulse_interval_seconds=target.pulse_interval_ms / 1000,
        full_interval_seconds=target.full_interval_ms / 1000,
        last_scrape_seconds=_seconds(target.last_took_ms),
        last_scrape_bytes=target.last_size_bytes,
        ceiling=ceiling_answer([target], Selector()),
        skipped_lines=int(target.facts.get("skipped_lines", 0)) if target.facts else None,
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def concurrency_point(steps: Sequence[TimelinePoint]) -> answers.ConcurrencyPoint:
    """One step over all chosen targets."""
    total = Sums()
    for step in steps:
        add(total, step.sums)
    length_ms = steps[0].step_ms * len(steps)
    return answers.ConcurrencyPoint(
        start=steps[0].start_ms / 1000,
        mean=occupancy_mean(total.running, "time"),
        max=max(total.running) if total.running else None,
        waiting_mean=occupancy_mean(total.waiting, "time"),
        observed_seconds=total.observed_ms / 1000,
        down_seconds=total.down_ms / 1000,
        invalid_seconds=total.invalid_ms / 1000,
        stalled_seconds=total.stalled_ms / 1000,
        gap_seconds=max(length_ms - total.known_ms, 0) / 1000,
    )


def sweep_answer(sweep: Sweep) -> answers.SweepAnswer:
    """A sweep as answers tell it, cells in the order of their files and rows."""
    return answers.SweepAnswer(
        sweep.name,
        sweep.configurations,
        sweep.contents,
        tuple(_import_answer(one) for one in sweep.imports),
        tuple(_cell_answer(cell) for cell in sweep.cells),
    )


def _import_answer(one: SweepImport) -> answers.SweepImportAnswer:
    return answers.SweepImportAnswer(
        one.file_name, one.sha256, one.reader, one.reader_version, one.imported_ms / 1000, one.size_bytes, one.notes
    )


def _cell_answer(cell: Cell) -> answers.CellAnswer:
    return answers.CellAnswer(
        configuration=cell.configuration,
        content=cell.content,
        concurrency=cell.concurrency,
        concurrency_source=cell.concurrency_source,
        prompt_tokens=cell.prompt_tokens,
        output_tokens=cell.output_tokens,
        aggregate_tokens_per_second=cell.aggregate,
        per_stream_tokens_per_second=cell.per_stream,
        decode_tokens_per_second=cell.decode,
        ttft_seconds=cell.ttft,
        ttft_p95_seconds=cell.ttft_p95,
        failed_requests=cell.failed_requests,
        source_row=cell.source_row,
        derived=cell.derived,
        flags=cell.flags,
    )
