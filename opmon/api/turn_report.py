"""What a client sends to report a turn: names, types and limits of the fields, once.

Contains no storing. An unknown field is refused by name, so that a typing error never reads as "not known".
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from opmon.core.client_turns import OUTPUT_LIMIT, PROMPT_LIMIT, TIME_LIMIT, TYPED_LIMIT, ClientTurn, check_turn
from opmon.core.names import MOST_CHARACTERS

Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Time = Annotated[float, Field(ge=TIME_LIMIT.smallest, le=TIME_LIMIT.largest, allow_inf_nan=False)]


class TurnReport(BaseModel):
    """One turn as its client saw it. Numbers are numbers, not text; tokens are whole."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    target: Annotated[Name, Field(description="the target that served the turn, by its name in opmon")]
    model: Annotated[Name, Field(description="the model that was asked, by the name that the target serves it under")]
    client: Annotated[
        Name, Field(description="what the turn went through; `direct` for one that was sent straight to the server")
    ]
    ttft_seconds: Annotated[Time, Field(description="from sending the turn to its first token")]
    decode_seconds: Annotated[Time, Field(description="from the first token to the last")]
    output_tokens: Annotated[int, Field(ge=OUTPUT_LIMIT.smallest, le=OUTPUT_LIMIT.largest)]
    prompt_tokens: Annotated[
        int,
        Field(ge=PROMPT_LIMIT.smallest, le=PROMPT_LIMIT.largest, description="of the whole prompt, as usage tells it"),
    ]
    typed_tokens: Annotated[
        int | None,
        Field(
            ge=TYPED_LIMIT.smallest, le=TYPED_LIMIT.largest, description="what a person typed of it; default: not known"
        ),
    ] = None

    def turn(self, at_ms: int) -> ClientTurn:
        """The turn, received at that instant. Raises ConfigError for one that cannot have been."""
        turn = ClientTurn(**self.model_dump(), at_ms=at_ms)
        check_turn(turn)
        return turn
