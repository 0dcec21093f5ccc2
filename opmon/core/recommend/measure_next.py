"""Which cells to measure next, and the commands that measure them at the live lengths.

Contains the doubt that each level contributes, and the commands as text; runs nothing. Server, model and prompts come
from shell variables, each with a default, so a command runs as it stands.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opmon.core.answers import MeasureNext
from opmon.core.cells import octaves
from opmon.core.recommend.ratios import LevelRatio

MOST_PER_CONTENT = 3
MOST = 6
# Levels close to each other answer for one another; the doubt of a group is measured at its heaviest level.
_STEPS_PER_OCTAVE = 2


@dataclass(frozen=True, slots=True)
class Doubt:
    """How much a level adds to the width of the interval: its share of the weight times the log of its own width."""

    level: int
    content: str
    amount: float
    prompt_tokens: int | None
    output_tokens: int | None


def doubts(
    content: str,
    ratios: Sequence[LevelRatio],
    weights: Mapping[int, float],
    lengths: tuple[float | None, float | None],
    *,
    width_if_elsewhere: float | None,
) -> list[Doubt]:
    """The doubt of each level, largest first, levels near each other as one. `width_if_elsewhere`: where the cells
    were measured at other lengths, a measured level is as doubtful as one that was not (log of the whole spread)."""
    total = sum(weights.values())
    if total <= 0:
        return []
    groups: dict[int, list[tuple[float, int]]] = {}
    for one in ratios:
        width = math.log(one.high / one.low)
        if width_if_elsewhere is not None:
            width = max(width, width_if_elsewhere)
        if not one.is_evidence:
            width = max(width, 1e-6)  # a level without evidence is worth measuring however narrow the guess
        amount = weights.get(one.level, 0.0) / total * width
        if amount > 0:
            groups.setdefault(round(_STEPS_PER_OCTAVE * math.log2(one.level)), []).append((amount, one.level))
    prompt, output = (None if length is None else max(1, round(length)) for length in lengths)
    found = [
        Doubt(max(group)[1], content, sum(amount for amount, _ in group), prompt, output) for group in groups.values()
    ]
    return sorted(found, key=lambda doubt: (-doubt.amount, doubt.level))


def measure_next(found: Sequence[Doubt], candidate: str) -> tuple[MeasureNext, ...]:
    """The most doubtful levels of all contents, at most three of each. The commands are labelled with the candidate;
    with CONFIG set to the reference they measure the other side."""
    chosen: list[Doubt] = []
    for doubt in sorted(found, key=lambda one: -one.amount):
        levels = [one.level for one in chosen if one.content == doubt.content]
        is_new = all(octaves(doubt.level, level) >= 1 / _STEPS_PER_OCTAVE for level in levels)
        if is_new and len(levels) < MOST_PER_CONTENT and len(chosen) < MOST:
            chosen.append(doubt)
    return tuple(
        MeasureNext(
            concurrency=doubt.level,
            content=doubt.content,
            prompt_tokens=doubt.prompt_tokens,
            output_tokens=doubt.output_tokens,
            commands={
                "vllm bench serve": vllm_command(doubt, candidate),
                "guidellm": guidellm_command(doubt, candidate),
            },
        )
        for doubt in chosen
    )


def _count(level: int) -> int:
    """Requests to send: enough rounds that ramp and drain do not rule, and never fewer than 32."""
    return max(32, 10 * level)


def _length(variable: str, tokens: int | None, default: int) -> str:
    return str(tokens) if tokens is not None else f"${{{variable}:-{default}}}"


def _lengths(doubt: Doubt) -> tuple[str, str]:
    return (
        _length("PROMPT_TOKENS", doubt.prompt_tokens, 512),
        _length("OUTPUT_TOKENS", doubt.output_tokens, 256),
    )


def _default(variable: str, value: str) -> str:
    """`"${NAME:-value}"`, with what the shell would read in the value made harmless."""
    harmless = "".join(f"\\{letter}" if letter in '\\"$`}' else letter for letter in value)
    return f'"${{{variable}:-{harmless}}}"'


def _file_stem(doubt: Doubt) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in doubt.content) or "content"
    return f"{kept}-c{doubt.level}"


def vllm_command(doubt: Doubt, configuration: str) -> str:
    """For vLLM 0.30 and later. Random text has the length but not the content: PROMPTS, a file of JSON lines with a
    `prompt` each, takes its place. CONFIG names the configuration that is served."""
    prompt, output = _lengths(doubt)
    stem = _file_stem(doubt)
    return " ".join(
        [
            "vllm bench serve",
            f"--base-url {_default('BASE_URL', 'http://127.0.0.1:8000')}",
            "--backend openai-chat --endpoint /v1/chat/completions",
            '${MODEL:+--model "$MODEL"} ${TOKENIZER:+--tokenizer "$TOKENIZER"}',
            f"--dataset-name random --random-input-len {prompt} --random-output-len {output}",
            f'${{PROMPTS:+--dataset-name custom --dataset-path "$PROMPTS" --custom-output-len {output}}}',
            f"--max-concurrency {doubt.level} --num-prompts {_count(doubt.level)} --num-warmups {doubt.level}",
            '--temperature "${TEMPERATURE:-0}"',
            "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,95,99",
            f"--metadata config={_default('CONFIG', configuration)} content={shlex.quote(doubt.content or 'unlabelled')}",
            f"--save-result --save-detailed --result-filename {_default('CONFIG', configuration)}-{stem}.json",
        ]
    )


def guidellm_command(doubt: Doubt, configuration: str) -> str:
    """For GuideLLM 0.7 and later (`guidellm run`). DATA, a data source of its own syntax, replaces synthetic text."""
    prompt, output = _lengths(doubt)
    stem = _file_stem(doubt)
    return " ".join(
        [
            "guidellm run",
            f'--backend kind=openai_http,target={_default("BASE_URL", "http://127.0.0.1:8000")}"${{MODEL:+,model=$MODEL}}"',
            '${TOKENIZER:+--tokenizer kind=huggingface_auto,model="$TOKENIZER"}',
            f"--profile kind=concurrent,streams={doubt.level}",
            f"--constraint kind=max_requests,count={_count(doubt.level)}",
            f'--data "${{DATA:-kind=synthetic_text,prompt_tokens={prompt},output_tokens={output}}}"',
            f"--label config={_default('CONFIG', configuration)} --label content={shlex.quote(doubt.content or 'unlabelled')}",
            f"--output kind=json,path={_default('CONFIG', configuration)}-{stem}.json",
        ]
    )
