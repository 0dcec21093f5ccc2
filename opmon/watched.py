"""From a configured target to what the service needs of it: the record to start with and what the scraper asks.

Contains no scraping and no storage.
"""

from __future__ import annotations

from dataclasses import replace

from opmon.config import Settings, Target
from opmon.core.model import Ceiling, TargetRecord
from opmon.scrape.scraper import ScrapeTarget


def scrape_target(target: Target, settings: Settings) -> ScrapeTarget:
    """What the scraper needs of a configured target."""
    return ScrapeTarget(
        name=str(target.name),
        url=target.url,
        engine=target.engine,
        timeout_ms=settings.global_.scrape_timeout_ms,
        authorization=target.authorization,
        tls=target.tls,
    )


def record_of(target: Target, settings: Settings, known: TargetRecord | None, now_ms: int) -> TargetRecord:
    """The record to start with: what is configured, over what the database knows from before."""
    base = known or TargetRecord(name=str(target.name), url=target.url)
    return replace(
        base,
        url=target.url,
        job=target.job,
        labels=dict(target.labels),
        content_mix=dict(target.content_mix),
        pulse_interval_ms=settings.global_.pulse_interval_ms,
        full_interval_ms=settings.global_.full_interval_ms,
        stall_after_ms=settings.global_.stall_after_ms,
        ceilings=ceilings_of(target, base, now_ms),
        removed_ms=None,
    )


def ceilings_of(target: Target, known: TargetRecord, now_ms: int) -> tuple[Ceiling, ...]:
    """The known ceilings, and the configured one if it is new; the first is taken to have held since the beginning."""
    configured = target.max_num_seqs
    if configured is None or (known.ceilings and known.ceilings[-1].max_num_seqs == configured):
        return known.ceilings
    return (*known.ceilings, Ceiling(configured, "configured", now_ms if known.ceilings else 0))
