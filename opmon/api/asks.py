"""What may stand in a query string, once: names, types, meanings, and how they become asks.

Contains no answering. An unknown name is refused, so that a typing error never reads as a default.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from opmon.core.answers import Selector
from opmon.core.recommend.quote import ClaimAsk
from opmon.core.saving import SavingAsk, parse_bandwidth, parse_bytes, parse_seconds, parse_share
from opmon.core.units import parse_duration, parse_window
from opmon.errors import NotFound
from opmon.reports import RecommendationAsk, WindowAsk

Format = Annotated[Literal["json", "csv"], Field(description="`csv`: the table of the answer")]
Seconds = Annotated[float | None, Field(ge=0, le=1e6, allow_inf_nan=False)]
Tokens = Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)]
LABEL = r"^[^:]+:.*$"


class Query(BaseModel):
    """A query string in which every name is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FormatQuery(Query):
    """Only the form of the answer can be chosen."""

    format: Format = "json"


class SelectorQuery(FormatQuery):
    """Which servers, and which stretch of time."""

    target: Annotated[str | None, Field(description="a target's name; default: all targets")] = None
    model: Annotated[
        str | None, Field(description="one model of the targets, by the name that they serve it under")
    ] = None
    engine_index: Annotated[str | None, Field(description="one engine of a data-parallel server, as `0`")] = None
    job: Annotated[str | None, Field(description="targets of this job, as configured")] = None
    label: Annotated[list[Annotated[str, Field(pattern=LABEL)]], Field(description="`key:value`, repeatable, AND")] = []
    fleet: Annotated[str | None, Field(description="not supported in this version: refused")] = None
    scope: Annotated[
        Literal["replica", "fleet"],
        Field(description="`replica`: the targets' occupancies add; `fleet` is not supported in this version"),
    ] = "replica"
    epoch: Annotated[
        Literal["current", "all"],
        Field(description="`current`: only since the server's last restart or change; `all`: the whole window"),
    ] = "all"
    window: Annotated[str | None, Field(description="a duration of at least 1s, as 90s, 15m, 6h, 7d; default 7d")] = (
        None
    )
    start: Annotated[str | None, Field(description="RFC 3339 or Unix seconds; not in the future")] = None
    end: Annotated[str | None, Field(description="RFC 3339 or Unix seconds; clipped to the present")] = None

    def selector(self) -> Selector:
        """The selector that reports understand. Raises NotFound for an empty name: nothing is called so."""
        for name in ("target", "model", "engine_index"):
            if getattr(self, name) == "":
                message = f"{name} is given and empty: nothing is called ''; leave it out to select all"
                raise NotFound(message)
        return Selector(
            target=self.target,
            model=self.model,
            engine_index=self.engine_index,
            job=self.job,
            label=tuple(self.label),
            fleet=self.fleet,
            scope=self.scope,
            epoch=self.epoch,
        )

    def window_ask(self) -> WindowAsk:
        """The window that reports understand. Raises InvalidWindow where window, start and end contradict."""
        return WindowAsk(*parse_window(self.window, self.start, self.end))


class ConcurrencyQuery(SelectorQuery):
    """Over time."""

    step: Annotated[str | None, Field(description="a duration; without it, one that gives a few hundred points")] = None

    def step_ms(self) -> int | None:
        """The step in milliseconds; None lets reports choose."""
        return None if self.step is None else parse_duration(self.step)


class CurveQuery(SelectorQuery):
    """The live curve, beside a sweep's cells if one is named."""

    sweep: Annotated[str | None, Field(description="a stored sweep, whose cells are given beside the curve")] = None


class PairQuery(SelectorQuery):
    """Two configurations, and what is known of the server and of a turn."""

    reference: Annotated[
        str | None, Field(description="the configuration to compare with; default: the sweep's first, if it has two")
    ] = None
    candidate: Annotated[
        str | None, Field(description="the configuration on trial; default: the sweep's other, if it has two")
    ] = None
    live_is: Annotated[
        Literal["reference", "candidate"] | None,
        Field(description="which of the two the server runs now; default: not known"),
    ] = None
    ttft_seconds: Annotated[Seconds, Field(description="a turn's time to the first token; default: as observed")] = None
    decode_seconds: Annotated[Seconds, Field(description="a turn's time from there on; default: as observed")] = None
    measured: Annotated[
        Literal["before", "after"] | None,
        Field(description="whether the turn's times are from before or after the change to the candidate"),
    ] = None
    ceiling: Annotated[
        int | None,
        Field(ge=1, le=1_000_000, description="requests that can run at once; default: as known of the target"),
    ] = None


class ChoiceQuery(PairQuery):
    """What a recommendation is asked with, besides the name of the sweep."""

    content: Annotated[str | None, Field(description="one content, or a mix as `code=0.3,prose=0.7`")] = None
    prompt_tokens: Annotated[Tokens, Field(description="prompt tokens of a request; default: as observed")] = None
    output_tokens: Annotated[Tokens, Field(description="output tokens of a request; default: as observed")] = None

    def ask(self, sweep: str) -> RecommendationAsk:
        """The ask that reports understand."""
        return RecommendationAsk(
            sweep=sweep,
            reference=self.reference or None,
            candidate=self.candidate or None,
            content=self.content or None,
            live_is=self.live_is,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            ttft_seconds=self.ttft_seconds,
            decode_seconds=self.decode_seconds,
            measured=self.measured,
            ceiling=self.ceiling,
            selector=self.selector(),
            window=self.window_ask(),
        )


class RecommendationQuery(ChoiceQuery):
    """A recommendation from one sweep."""

    sweep: Annotated[str, Field(description="a stored sweep")]


class TurnQuery(FormatQuery):
    """The turn calculator's inputs."""

    ttft_seconds: Annotated[
        float, Field(ge=0, le=1e6, allow_inf_nan=False, description="a turn's time to the first token")
    ]
    decode_seconds: Annotated[
        float, Field(gt=0, le=1e6, allow_inf_nan=False, description="a turn's time from the first token on")
    ]
    speedup_ratio: Annotated[
        float, Field(gt=0, le=1e6, allow_inf_nan=False, description="decode speed after the change over that before")
    ]
    measured: Annotated[
        Literal["before", "after"], Field(description="whether the times are from before or after the change")
    ] = "after"
    ttft_ratio: Annotated[
        float,
        Field(gt=0, le=1e6, allow_inf_nan=False, description="time to the first token before over that after"),
    ] = 1.0


class ClaimQuery(PairQuery):
    """A quoted speed-up, what the quote says of itself, and what is known of the live server."""

    sweep: Annotated[str, Field(description="a stored sweep")]
    speedup_ratio: Annotated[str, Field(description="the quoted speed-up: `2.58`, `+158%`, or `708.4/274.7`")]
    content: Annotated[str | None, Field(description="the content, if the quote says it")] = None
    column: Annotated[str | None, Field(description="the metric column, if the quote says it: `aggregate`, ...")] = None
    concurrency: Annotated[float | None, Field(description="the concurrency, if the quote says it")] = None
    prompt_tokens: Annotated[Tokens, Field(description="the prompt length, if the quote says it")] = None
    output_tokens: Annotated[Tokens, Field(description="the output length, if the quote says it")] = None
    live_content: Annotated[str | None, Field(description="what the server serves: one content, or a mix")] = None
    live_prompt_tokens: Annotated[Tokens, Field(description="prompt tokens of a live request; default: observed")] = (
        None
    )
    live_output_tokens: Annotated[Tokens, Field(description="output tokens of a live request; default: observed")] = (
        None
    )

    def ask(self) -> RecommendationAsk:
        """The recommendation that the claim is compared with."""
        return RecommendationAsk(
            sweep=self.sweep,
            reference=self.reference or None,
            candidate=self.candidate or None,
            content=self.live_content or None,
            live_is=self.live_is,
            prompt_tokens=self.live_prompt_tokens,
            output_tokens=self.live_output_tokens,
            ttft_seconds=self.ttft_seconds,
            decode_seconds=self.decode_seconds,
            measured=self.measured,
            ceiling=self.ceiling,
            selector=self.selector(),
            window=self.window_ask(),
        )

    def quote(self) -> ClaimAsk:
        """The quote."""
        return ClaimAsk(
            speedup=self.speedup_ratio,
            content=self.content or None,
            column=self.column or None,
            concurrency=self.concurrency,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )


class SavingQuery(FormatQuery):
    """The saving calculator's inputs. Those that are text may carry their unit."""

    bytes: Annotated[str, Field(description="bytes that a step no longer reads: `2.7GB`, `2.5GiB`, `2700000000`")]
    bandwidth: Annotated[str, Field(description="bytes a second that the memory delivers: `1133GB/s`")]
    step_seconds: Annotated[str, Field(description="a decoding step before the change: `0.0176` or `17.6ms`")]
    share_ratio: Annotated[str, Field(description="how much of the saving is realised: `0.37` or `37%`")] = "1"
    fits: Annotated[
        Literal["yes", "no"] | None, Field(description="whether the weights fit into memory without the saving")
    ] = None
    kind: Annotated[
        Literal["bandwidth", "capacity"],
        Field(description="`bandwidth`: bytes no longer read; `capacity`: memory no longer filled"),
    ] = "bandwidth"
    stage_seconds: Annotated[
        str | None, Field(description="the stage of a step in which the bytes are read; default: all of it")
    ] = None
    speed_tokens_per_second: Annotated[
        float | None, Field(description="tokens a second of one stream before the change")
    ] = None
    speed_after_tokens_per_second: Annotated[float | None, Field(description="the same, measured after the change")] = (
        None
    )
    acceptance_length: Annotated[float | None, Field(description="tokens a step before the change")] = None
    acceptance_length_after: Annotated[float | None, Field(description="tokens a step after the change")] = None

    def ask(self) -> SavingAsk:
        """The ask that the core understands. Raises ConfigError for what is no quantity."""
        return SavingAsk(
            bytes=parse_bytes(self.bytes),
            bandwidth=parse_bandwidth(self.bandwidth, "bandwidth"),
            step_seconds=parse_seconds(self.step_seconds, "step_seconds"),
            share_ratio=parse_share(self.share_ratio, "share_ratio"),
            fits=None if self.fits is None else self.fits == "yes",
            kind=self.kind,
            stage_seconds=None if self.stage_seconds is None else parse_seconds(self.stage_seconds, "stage_seconds"),
            speed_tokens_per_second=self.speed_tokens_per_second,
            speed_after_tokens_per_second=self.speed_after_tokens_per_second,
            acceptance_length=self.acceptance_length,
            acceptance_length_after=self.acceptance_length_after,
        )


class ImportQuery(Query):
    """How an uploaded benchmark file is taken in."""

    sweep: Annotated[str | None, Field(description="name; default: the file's stem")] = None
    config: Annotated[str | None, Field(description="configuration, where the file names none")] = None
    content: Annotated[str | None, Field(description="content, where the file names none")] = None
    reader: Annotated[str, Field(max_length=50, description="the reader to use; `auto` finds out")] = "auto"


class PageQuery(ChoiceQuery):
    """What a page is asked with: everything that it shows is in its address."""

    sweep: str | None = None
    of: Literal["running", "in_system", "waiting"] = "running"
