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
Seconds = Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)]
Tokens = Annotated[float | None, Field(ge=0, le=1e9, allow_inf_nan=False)]
LABEL = r"^[^:]+:.*$"


class Query(BaseModel):
    """A query string in which every name is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FormatQuery(Query):
    """Only the form of the answer can be chosen."""

    format: Format = "json"


class SelectorQuery(FormatQuery):
    """Which servers, and which stretch of time."""

    target: str | None = None
    model: str | None = None
    engine_index: str | None = None
    job: str | None = None
    label: Annotated[list[Annotated[str, Field(pattern=LABEL)]], Field(description="`key:value`, repeatable, AND")] = []
    fleet: str | None = None
    scope: Literal["replica", "fleet"] = "replica"
    epoch: Literal["current", "all"] = "all"
    window: Annotated[str | None, Field(description="a duration of at least 1s, as 90s, 15m, 6h, 7d; default 7d")] = (
        None
    )
    start: Annotated[str | None, Field(description="RFC 3339 or Unix seconds")] = None
    end: Annotated[str | None, Field(description="RFC 3339 or Unix seconds")] = None

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

    sweep: str | None = None


class ChoiceQuery(SelectorQuery):
    """What a recommendation is asked with, besides the name of the sweep."""

    reference: str | None = None
    candidate: str | None = None
    content: Annotated[str | None, Field(description="one content, or a mix as `code=0.3,prose=0.7`")] = None
    live_is: Literal["reference", "candidate"] | None = None
    prompt_tokens: Tokens = None
    output_tokens: Tokens = None
    ttft_seconds: Seconds = None
    decode_seconds: Seconds = None
    measured: Literal["before", "after"] | None = None
    ceiling: Annotated[int | None, Field(ge=1, le=1_000_000)] = None

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

    sweep: str


class TurnQuery(FormatQuery):
    """The turn calculator's inputs."""

    ttft_seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    decode_seconds: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
    speedup_ratio: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    measured: Literal["before", "after"] = "after"
    ttft_ratio: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0


class ImportQuery(Query):
    """How an uploaded benchmark file is taken in."""

    sweep: Annotated[str | None, Field(description="name; default: the file's stem")] = None
    config: Annotated[str | None, Field(description="configuration, where the file names none")] = None
    content: Annotated[str | None, Field(description="content, where the file names none")] = None
    reader: Annotated[str, Field(max_length=50)] = "auto"


class PageQuery(ChoiceQuery):
    """What a page is asked with: everything that it shows is in its address."""

    sweep: str | None = None
    of: Literal["running", "in_system", "waiting"] = "running"
