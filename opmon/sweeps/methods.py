"""The ways in which a per-stream speed is taken, and how people write them.

Contains the names as data; what follows from a method is `rows`.
"""

from __future__ import annotations

import re

from opmon.core.names import quoted
from opmon.sweeps.numbers import Unreadable

AGGREGATE_OVER_CONCURRENCY, MEAN = "agg_over_conc", "mean"
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "e2e_median": ("median", "end_to_end", "e2e", "end_to_end_median", "median_e2e", "p50"),
    MEAN: ("average", "avg", "e2e_mean", "mean_e2e", "mean_over_requests"),
    "rows": (),
    "tool_p50": (),
    "ttft_plus_tpot": (),
    "mean_out_over_median_e2e": (),
    "decode_only": ("decode_speed", "without_ttft", "without_first_token", "excluding_ttft"),
    "decode": (),
    "tpot": ("1_tpot", "1_over_tpot", "inverse_tpot", "1000_tpot"),
    "itl": ("1_itl", "1_over_itl", "inverse_itl", "1000_itl"),
    AGGREGATE_OVER_CONCURRENCY: (
        "agg_conc",
        "agg_c",
        "agg_concurrency",
        "aggregate_conc",
        "aggregate_c",
        "aggregate_concurrency",
        "aggregate_over_concurrency",
        "agg_over_concurrency",
        "aggregate_over_conc",
        "agg_per_conc",
        "aggregate_per_concurrency",
    ),
}
_BY_SPELLING = {one: name for name, spellings in _SPELLINGS.items() for one in (name, *spellings)}


def known_method(text: str) -> str:
    """The method that a text means, whatever its case, spaces and hyphens. Raises Unreadable for one that is not known:
    whether a speed counts the first token decides what it may be compared with."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower().removeprefix("declared:")).strip("_")
    name = _BY_SPELLING.get(plain)
    if name is None:
        message = f"{quoted(text)} is no known way of taking a per-stream speed; write one of {', '.join(_SPELLINGS)}"
        raise Unreadable(message)
    return name
