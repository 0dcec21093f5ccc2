"""Asks an OpenAI-compatible API through several paths, and takes the time of each piece of the answers.

Contains nothing but the names that others use; what the figures mean is `opmon.core.probed`.
"""

from __future__ import annotations

from opmon.probe.paths import Ask, Path, by_path, endpoint, named
from opmon.probe.run import Runner

__all__ = ["Ask", "Path", "Runner", "by_path", "endpoint", "named"]
