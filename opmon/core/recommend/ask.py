"""What a recommendation is asked: the live point it is for, and what the asker knows or declares.

Contains the inputs and their reading (a content mix, default times); no judgement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opmon.core.answers import CeilingAnswer, Coverage, CurvePoint, OperatingPoint
from opmon.core.client_turns import TurnTimes
from opmon.core.occupancy import busy_ms
from opmon.core.recommend.ratios import CANDIDATE, REFERENCE
from opmon.core.sentence import sentence
from opmon.core.sums import Sums
from opmon.core.turn import AFTER, BEFORE, CEILING_LIMIT, DECODE_LIMIT, TOKENS_LIMIT, TTFT_LIMIT, check_times
from opmon.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LivePoint:
    """Where the server runs. Occupancies map a level to milliseconds; what is not known is None.

    `limited_ratio` is of in-system busy time. `ttft_seconds` and `decode_seconds` are means over the same requests;
    `times_source` says whose they are (`server`: queue + prefill and decode; `client`: as a client reported them).
    `server_ttft_seconds`: the server's part of a client's TTFT. `reported_turns`: how many turns a client's times are of. `peak_minute_tokens_per_second`: the best minute's
    output rate, None for no capacity stop. `curve`: the live speed at each level, also at
    those that were seen for a moment. `acceptance_length`: tokens a step, None where the server does not speculate.
    `is_lower_bound`: the server was busier while it was not observed. `source`: `live`, or the name of a file.
    """

    running: Mapping[int, int] = field(default_factory=dict)
    in_system: Mapping[int, int] = field(default_factory=dict)
    limited_ratio: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    ttft_seconds: float | None = None
    decode_seconds: float | None = None
    times_source: str = "server"
    server_ttft_seconds: float | None = None
    reported_turns: int = 0
    peak_minute_tokens_per_second: float | None = None
    ceiling_requests: int | None = None
    curve: tuple[CurvePoint, ...] = ()
    acceptance_length: float | None = None
    sentence: str = ""
    coverage_ratio: float | None = None
    window_seconds: float = 0.0
    is_lower_bound: bool = False
    source: str = "live"


@dataclass(frozen=True, slots=True)
class Ask:
    """What can be said beside sweep and live point; None: not said.

    `content`: a content of the sweep, or a mix by share of output tokens (`code=0.3,prose=0.7`). `live_is`:
    `reference` or `candidate`, what the live server runs. `ttft_seconds`, `decode_seconds`: of a typical turn, and
    `measured`, on which side of the switch (`before`, `after`). Lengths and ceiling override the live ones.
    """

    reference: str | None = None
    candidate: str | None = None
    content: str | None = None
    live_is: str | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    ttft_seconds: float | None = None
    decode_seconds: float | None = None
    measured: str | None = None
    ceiling: int | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """The two parts of a turn in seconds, on which side they were measured, and whose they are.

    `server_part_ratio`: the server's part of the TTFT, None where it is not known.
    """

    ttft_seconds: float
    decode_seconds: float
    measured: str
    source: str
    server_part_ratio: float | None


def live_point(point: OperatingPoint, curve: tuple[CurvePoint, ...] = ()) -> LivePoint:
    """The live point of an operating point; levels go back to milliseconds, of which they were made."""
    queue, prefill, decode = (
        spread.mean
        for spread in (point.latency.queue_seconds, point.latency.prefill_seconds, point.latency.decode_seconds)
    )
    has_times = queue is not None and prefill is not None and decode is not None
    return LivePoint(
        running={share.level: round(share.seconds * 1000) for share in point.running.occupancy},
        in_system={share.level: round(share.seconds * 1000) for share in point.in_system.occupancy},
        limited_ratio=point.queue.limited_ratio,
        prompt_tokens=point.lengths.prompt_tokens.mean,
        output_tokens=point.lengths.output_tokens.mean,
        ttft_seconds=(queue or 0.0) + (prefill or 0.0) if has_times else None,
        decode_seconds=decode if has_times else None,
        peak_minute_tokens_per_second=point.throughput.peak_minute_output_tokens_per_second,
        ceiling_requests=point.ceiling.requests,
        curve=curve,
        acceptance_length=point.speculation.acceptance_length if point.speculation else None,
        sentence=point.sentence,
        coverage_ratio=point.coverage.ratio,
        window_seconds=point.window.seconds,
        is_lower_bound=any(warning.code == "missing_while_busy" for warning in point.warnings),
    )


def with_client_times(live: LivePoint, times: TurnTimes | None) -> LivePoint:
    """The live point with the times that clients report, the first source of all; unchanged without any.

    What the server takes of the client's TTFT stays known where the server tells it.
    """
    if times is None or not DECODE_LIMIT.holds(times.decode_seconds):
        return live
    return replace(
        live,
        ttft_seconds=times.ttft_seconds,
        decode_seconds=times.decode_seconds,
        times_source="client",
        server_ttft_seconds=live.ttft_seconds,
        reported_turns=times.turns,
    )


def live_point_of(occupancy: Mapping[int, int], source: str, ceiling: int | None = None) -> LivePoint:
    """The live point of a bare occupancy (level -> milliseconds): running and in system alike, everything else unknown.

    So there is no time limited (counted 0), and no capacity stop.
    """
    total, busy = sum(occupancy.values()), busy_ms(occupancy)
    at_ceiling = sum(ms for level, ms in occupancy.items() if ceiling is not None and level >= ceiling)
    sums = Sums(observed_ms=total, running=dict(occupancy))
    answer = CeilingAnswer(requests=ceiling, reached_ratio=at_ceiling / busy if busy else None)
    coverage = Coverage(1.0, total / 1000, 0.0, 0.0, 0.0, 0.0)
    return LivePoint(
        running=occupancy,
        in_system=occupancy,
        ceiling_requests=ceiling,
        sentence=sentence(sums, coverage, answer, lower_bound=False),
        window_seconds=total / 1000,
        source=source,
    )


def resolve_times(live: LivePoint, ask: Ask) -> Times | None:
    """The times of a turn: typed in where they were typed, else the live ones; None without both parts, or where a live
    one is beyond its limit.

    `measured` defaults to `before` if the live server is the reference, else to `after`.
    """
    measured = ask.measured or (BEFORE if ask.live_is == REFERENCE else AFTER)
    if ask.ttft_seconds is not None and ask.decode_seconds is not None:
        server = live.server_ttft_seconds if live.times_source == "client" else live.ttft_seconds
        part = None if server is None or not ask.ttft_seconds else min(1.0, server / ask.ttft_seconds)
        return Times(ask.ttft_seconds, ask.decode_seconds, measured, "typed", part)
    if live.ttft_seconds is None or live.decode_seconds is None:
        return None
    if not TTFT_LIMIT.holds(live.ttft_seconds) or not DECODE_LIMIT.holds(live.decode_seconds):
        return None
    part = 1.0
    if live.times_source == "client":
        server = live.server_ttft_seconds
        part = None if server is None or not live.ttft_seconds else min(1.0, server / live.ttft_seconds)
    return Times(live.ttft_seconds, live.decode_seconds, measured, live.times_source, part)


def check_ask(ask: Ask) -> None:
    """Raises ConfigError for values that no answer could be given to."""
    if ask.live_is not in (None, REFERENCE, CANDIDATE):
        message = f"live_is must be `reference` or `candidate`, not {ask.live_is!r}"
        raise ConfigError(message)
    if ask.measured not in (None, BEFORE, AFTER):
        message = f"measured must be `before` or `after`, not {ask.measured!r}"
        raise ConfigError(message)
    for name, value, limit in (
        ("prompt_tokens", ask.prompt_tokens, TOKENS_LIMIT),
        ("output_tokens", ask.output_tokens, TOKENS_LIMIT),
        ("the ceiling", ask.ceiling, CEILING_LIMIT),
    ):
        if value is not None:
            limit.check(name, value)
    if (ask.ttft_seconds is None) != (ask.decode_seconds is None):
        message = "a turn has two parts: give both the TTFT and the decode time, or neither"
        raise ConfigError(message)
    if ask.ttft_seconds is not None and ask.decode_seconds is not None:
        check_times(ask.ttft_seconds, ask.decode_seconds)


def as_in_sweep(tokens: Mapping[str, float], there: Sequence[str]) -> dict[str, float]:
    """A mix by the sweep's own names, upper and lower case alike where that leaves no doubt; other names stay."""
    found: dict[str, float] = {}
    for name, share in tokens.items():
        alike = [one for one in there if one.casefold() == name.casefold()]
        own = alike[0] if name not in there and len(alike) == 1 else name
        found[own] = found.get(own, 0.0) + share
    return found


def parse_mix(text: str) -> dict[str, float]:
    """`code=0.3,prose=0.7` (or `code=30%,...`) as shares that sum to 1, a bare name as all of it. Raises ConfigError."""
    if "=" not in text:
        return {text.strip(): 1.0}
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            share = float(number.strip().removesuffix("%")) / (100 if number.strip().endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not name.strip() or not 0 <= share < float("inf") or name.strip() in shares:
            message = f"{text!r} is no content mix: write shares of the output tokens like code=0.3,prose=0.7"
            raise ConfigError(message)
        shares[name.strip()] = share
    total = sum(shares.values())
    if not 0.98 <= total <= 1.02:
        message = f"the shares of the content mix {text!r} sum to {total:g}, not to 1"
        raise ConfigError(message)
    return {name: share / total for name, share in shares.items() if share > 0}
