"""What may stand in a query string, once: names, types, meanings, and how they become asks.

Contains no answering. An unknown name is refused, so that a typing error never reads as a default.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from opmon.core.answers import Selector
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


class ChoiceQuery(SelectorQuery):
    """What a recommendation is asked with, besides the name of the sweep."""

    reference: Annotated[
        str | None, Field(description="the configuration to compare with; default: the sweep's first, if it has two")
    ] = None
    candidate: Annotated[
        str | None, Field(description="the configuration on trial; default: the sweep's other, if it has two")
    ] = None
    content: Annotated[str | None, Field(description="one content, or a mix as `code=0.3,prose=0.7`")] = None
    live_is: Annotated[
        Literal["reference", "candidate"] | None,
        Field(description="which of the two the server runs now; default: not known"),
    ] = None
    prompt_tokens: Annotated[Tokens, Field(description="prompt tokens of a request; default: as observed")] = None
    output_tokens: Annotated[Tokens, Field(description="output tokens of a request; default: as observed")] = None
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
