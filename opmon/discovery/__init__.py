"""Lists of targets from files, HTTP, DNS and Kubernetes: what each source names now.

Contains no schedule and no watching: `opmon.service` asks the sources and turns what changed into work.
"""

from __future__ import annotations

from opmon.discovery.listed import Listed
from opmon.discovery.lists import Lists, Status
from opmon.discovery.remembered import Memory
from opmon.discovery.sources import Source, sources_of
from opmon.discovery.usable import usable_sources

__all__ = ["Listed", "Lists", "Memory", "Source", "Status", "sources_of", "usable_sources"]
