"""Turns as clients report them: what may be reported, their sums, and what a client costs beside asking directly.

Contains "Client" of DEFINITIONS 6; no storage. Times are seconds in answers and whole microseconds in sums, so that sums
add exactly. Speeds of turns are end to end: output tokens / (TTFT + decode), sum / sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import floor, log2

from opmon.core.answers import Selector, Window
from opmon.core.names import name_fault
from opmon.core.turn import Limit, asks_for_prepended_tokens, client_tax, prefix_cost
from opmon.errors import ConfigError

DIRECT = "direct"
"""The client's name under which turns are reported that went straight to the server."""
TIME_LIMIT = Limit(0, 86_400, "seconds")
PROMPT_LIMIT = Limit(1, 100_000_000, "tokens")
OUTPUT_LIMIT = Limit(1, 10_000_000, "tokens")
TYPED_LIMIT = Limit(0, 100_000_000, "tokens")
FEW_TURNS = 20
CLASSES_PER_OCTAVE = 8
TEMPLATE_TOKENS = 64
"""What a chat template may add to a typed text: so far apart, two prompts still count as the same."""
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ClientTurn:
    """One turn as its client saw it, received at `at_ms`. `typed_tokens`: of the prompt, what a person typed; None where
    the client does not know."""

    target: str
    model: str
    client: str
    ttft_seconds: float
    decode_seconds: float
    output_tokens: int
    prompt_tokens: int
    typed_tokens: int | None = None
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class TurnSums:
    """Sums over the turns of one client with prompts of about one length. `typed_prompt_tokens`: the prompts of those
    turns whose typed text is known. `whole_turns`: answers that came in one piece, whose time has no two parts; the TTFT
    of the others is `split_ttft_us`."""

    target: str
    model: str
    client: str
    turns: int = 0
    ttft_us: int = 0
    decode_us: int = 0
    output_tokens: int = 0
    prompt_tokens: int = 0
    typed_turns: int = 0
    typed_tokens: int = 0
    typed_prompt_tokens: int = 0
    whole_turns: int = 0
    split_ttft_us: int = 0
    first_ms: int = 0
    last_ms: int = 0

    @property
    def tokens_per_second(self) -> float | None:
        """Output tokens per second of a turn's whole time."""
        elapsed_us = self.ttft_us + self.decode_us
        return MICROSECONDS * self.output_tokens / elapsed_us if elapsed_us else None

    @property
    def mean_prompt_tokens(self) -> float | None:
        return self.prompt_tokens / self.turns if self.turns else None

    @property
    def mean_typed_tokens(self) -> float | None:
        return self.typed_tokens / self.typed_turns if self.typed_turns else None


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """Mean TTFT and decode time of the same turns, and how many they were."""

    ttft_seconds: float
    decode_seconds: float
    turns: int


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """One client with one model of one target. Means are sum / sum; `tokens_per_second` is end to end.

    `prefix_cost_ratio`: direct speed with this client's full prompt / direct speed with the typed text.
    `client_tax_ratio`: this client's speed / direct speed with its full prompt. `direct_ratio`: the product of both, this
    client's speed / direct speed with the typed text. null where no direct turns of that length were reported.
    `prepended_tokens`: a turn's prompt less what was typed, over the turns whose typed text is known.
    """

    client: str
    target: str
    model: str
    turns: int
    first: float
    last: float
    ttft_seconds: float
    decode_seconds: float
    output_tokens: float
    prompt_tokens: float
    typed_tokens: float | None
    prepended_tokens: float | None
    tokens_per_second: float | None
    prefix_cost_ratio: float | None = None
    client_tax_ratio: float | None = None
    direct_ratio: float | None = None
    direct_turns: int = 0
    asks: str | None = None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientTurns:
    """The turns that clients reported in a window, by client, target and model."""

    window: Window
    selector: Selector
    turns: int
    clients: tuple[ClientAnswer, ...]


def check_turn(turn: ClientTurn) -> None:
    """Raises ConfigError naming the field, what is allowed and what it is, for a turn that cannot have been."""
    for field, name in (("target", turn.target), ("model", turn.model), ("client", turn.client)):
        if fault := name_fault(name):
            message = f"{field}: {fault}"
            raise ConfigError(message)
    TIME_LIMIT.check("ttft_seconds", turn.ttft_seconds)
    TIME_LIMIT.check("decode_seconds", turn.decode_seconds)
    OUTPUT_LIMIT.check("output_tokens", turn.output_tokens)
    PROMPT_LIMIT.check("prompt_tokens", turn.prompt_tokens)
    if not microseconds(turn.ttft_seconds) + microseconds(turn.decode_seconds):
        raise ConfigError("ttft_seconds and decode_seconds are both 0: a turn takes time; report what was measured")
    if turn.typed_tokens is None:
        return
    TYPED_LIMIT.check("typed_tokens", turn.typed_tokens)
    if turn.typed_tokens > turn.prompt_tokens:
        message = (
            f"typed_tokens ({turn.typed_tokens}) is more than prompt_tokens ({turn.prompt_tokens}), of which it is a"
            " part; leave it out where it is not known"
        )
        raise ConfigError(message)


def microseconds(seconds: float) -> int:
    """Whole microseconds."""
    return round(seconds * MICROSECONDS)


def prompt_class(prompt_tokens: int) -> int:
    """A number that prompts of about one length share: eighths of an octave."""
    return floor(CLASSES_PER_OCTAVE * log2(prompt_tokens))


def joined(parts: Iterable[TurnSums]) -> TurnSums:
    """The sums of several parts, by the names of the first. Raises ValueError for none."""
    first, *others = parts
    total = first
    for one in others:
        total = replace(
            total,
            turns=total.turns + one.turns,
            ttft_us=total.ttft_us + one.ttft_us,
            decode_us=total.decode_us + one.decode_us,
            output_tokens=total.output_tokens + one.output_tokens,
            prompt_tokens=total.prompt_tokens + one.prompt_tokens,
            typed_turns=total.typed_turns + one.typed_turns,
            typed_tokens=total.typed_tokens + one.typed_tokens,
            typed_prompt_tokens=total.typed_prompt_tokens + one.typed_prompt_tokens,
            whole_turns=total.whole_turns + one.whole_turns,
            split_ttft_us=total.split_ttft_us + one.split_ttft_us,
            first_ms=min(total.first_ms, one.first_ms),
            last_ms=max(total.last_ms, one.last_ms),
        )
    return total


def turn_times(parts: Sequence[TurnSums]) -> TurnTimes | None:
    """The times of the turns that people had: of every client but `direct`, which only is compared with. None without.

    A turn whose answer came in one piece is left out: nobody knows where its first token was.
    """
    counted = [one for one in parts if one.client != DIRECT]
    turns = sum(one.turns - one.whole_turns for one in counted)
    if not turns:
        return None
    ttft_us, decode_us = sum(one.split_ttft_us for one in counted), sum(one.decode_us for one in counted)
    return TurnTimes(ttft_us / turns / MICROSECONDS, decode_us / turns / MICROSECONDS, turns)


def client_turns(parts: Sequence[TurnSums], window: Window, selector: Selector) -> ClientTurns:
    """The summary of a window. Clients are compared with direct turns to the same model of the same target only."""
    clients: list[ClientAnswer] = []
    for _, group in groupby(sorted(parts, key=_place), key=lambda one: (one.target, one.model)):
        there = list(group)
        direct = [one for one in there if one.client == DIRECT]
        for _, of_client in groupby(there, key=lambda one: one.client):
            clients.append(_answer(joined(of_client), direct))
    return ClientTurns(window, selector, sum(one.turns for one in clients), tuple(clients))


def _place(one: TurnSums) -> tuple[str, str, str]:
    return one.target, one.model, one.client


def _answer(sums: TurnSums, direct: Sequence[TurnSums]) -> ClientAnswer:
    turns = sums.turns
    answer = ClientAnswer(
        client=sums.client,
        target=sums.target,
        model=sums.model,
        turns=turns,
        first=sums.first_ms / 1000,
        last=sums.last_ms / 1000,
        ttft_seconds=sums.ttft_us / turns / MICROSECONDS,
        decode_seconds=sums.decode_us / turns / MICROSECONDS,
        output_tokens=sums.output_tokens / turns,
        prompt_tokens=sums.prompt_tokens / turns,
        typed_tokens=sums.mean_typed_tokens,
        prepended_tokens=(
            (sums.typed_prompt_tokens - sums.typed_tokens) / sums.typed_turns if sums.typed_turns else None
        ),
        tokens_per_second=sums.tokens_per_second,
        details=tuple(_about_pieces(sums)),
    )
    return answer if sums.client == DIRECT else _compared(answer, sums, direct)


def _compared(answer: ClientAnswer, sums: TurnSums, direct: Sequence[TurnSums]) -> ClientAnswer:
    """The answer with what the client costs beside asking directly, as far as direct turns tell."""
    if not direct:
        return answer
    full, typed = _full_and_typed(sums, direct)
    full_speed = None if full is None else full.tokens_per_second
    typed_speed = None if typed is None else typed.tokens_per_second
    prefix, tax = prefix_cost(full_speed, typed_speed), client_tax(sums.tokens_per_second, full_speed)
    product = client_tax(sums.tokens_per_second, typed_speed)
    return replace(
        answer,
        prefix_cost_ratio=prefix,
        client_tax_ratio=tax,
        direct_ratio=product,
        direct_turns=sum(one.turns for one in {full, typed} if one is not None),
        asks=_question(answer, product),
        details=(*answer.details, *_about_direct(sums, full, typed)),
    )


def _full_and_typed(sums: TurnSums, direct: Sequence[TurnSums]) -> tuple[TurnSums | None, TurnSums | None]:
    """The direct turns with the client's full prompt, and those with the typed text alone; None where there are none.

    A direct turn belongs to that of the two lengths which is nearer; where the two are about the same, to both. Where
    the typed length is not known, what is shorter than the full prompt counts as the typed text.
    """
    whole, typed = sums.mean_prompt_tokens or 1.0, sums.mean_typed_tokens
    if typed is not None and is_about(whole, typed):
        alike = [one for one in direct if is_about(one.mean_prompt_tokens or 1.0, whole)]
        both = joined(alike) if alike else None
        return both, both
    full_parts, typed_parts = [], []
    for one in direct:
        length = one.mean_prompt_tokens or 1.0
        if typed is None:
            if is_about(length, whole):
                full_parts.append(one)
            elif length < whole:
                typed_parts.append(one)
        elif abs(log2(length / whole)) <= abs(log2(length / max(typed, 1.0))):
            full_parts += [one] if is_about(length, whole) else []
        else:
            typed_parts += [one] if is_about(length, typed) else []
    return (joined(full_parts) if full_parts else None), (joined(typed_parts) if typed_parts else None)


def is_about(length: float, other: float) -> bool:
    """Whether two prompts count as of one length: within an octave, or a chat template apart."""
    return abs(length - other) <= TEMPLATE_TOKENS or abs(log2(max(length, 1.0) / max(other, 1.0))) <= 1


def _question(answer: ClientAnswer, product: float | None) -> str | None:
    """What to ask first where a client is much slower than asking directly; None where it is not, or is not known."""
    if product is None or not asks_for_prepended_tokens(product, 1.0):
        return None
    words = (
        f"through {answer.client!r} a turn runs at {product:.2f} of the speed of asking directly: ask first how many"
        " tokens the client prepends to what is typed"
    )
    if answer.prepended_tokens is None:
        return f"{words}; it does not report typed_tokens, which would tell"
    return (
        f"{words}; by its own report {answer.prepended_tokens:,.0f} of the {answer.prompt_tokens:,.0f} prompt tokens of"
        " a turn"
    )


def _about_pieces(sums: TurnSums) -> Iterable[str]:
    if sums.whole_turns:
        yield (
            f"{sums.whole_turns} of {sums.turns} answers came in one piece (no decode time for several tokens): their TTFT"
            " is the time of the whole turn"
        )


def _about_direct(sums: TurnSums, full: TurnSums | None, typed: TurnSums | None) -> Iterable[str]:
    """What is missing of the comparison, and what is unlike in it."""
    whole, said = sums.mean_prompt_tokens or 0.0, sums.mean_typed_tokens
    if full is None:
        yield f"no direct turn has about the client's full prompt ({whole:,.0f} tokens): its tax is not known"
    if typed is None:
        what = f" ({said:,.0f} tokens)" if said is not None else ""
        yield f"no direct turn has about the typed text{what}: the prefix cost is not known"
    elif said is None:
        yield "typed_tokens is not reported: direct turns with shorter prompts are taken as the typed text"
    for name, other in (("with the full prompt", full), ("with the typed text", typed)):
        if other is not None and abs(log2(sums.output_tokens / sums.turns / (other.output_tokens / other.turns))) > 1:
            yield (
                f"direct turns {name} put out {other.output_tokens / other.turns:,.0f} tokens, the client's"
                f" {sums.output_tokens / sums.turns:,.0f}: over an octave apart, so the ratio says little"
            )
