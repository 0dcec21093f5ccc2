"""Which readers there are, in the order in which they are asked.

Contains the list and nothing else. A reader's `recognises` must be true of its own files only, so the order matters for
speed alone.
"""

from __future__ import annotations

from opmon.sweeps.reading import Reader
from opmon.sweeps.sglang import SGLANG
from opmon.sweeps.table import TABLE

READERS: tuple[Reader, ...] = (TABLE, SGLANG)
