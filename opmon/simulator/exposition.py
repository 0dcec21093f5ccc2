"""The metrics of a simulated server: the families, labels and bounds of vLLM 0.32, in its order.

Contains no mechanics: each family is a name, a type, a text and where its numbers stand in an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from opmon.simulator.books import FINISH_REASONS, Books, Histogram
from opmon.simulator.engine import Engine
from opmon.simulator.page import Family, Lines, Page, Read, Scrape, Values, header, label_text, number
from opmon.simulator.stream import EngineConfig

_HANDLER = {"handler": "/v1/chat/completions"}
_LOADING_SECONDS = 22.5  # a real server registers its metrics after the weights are loaded


_COUNTERS: tuple[tuple[str, str, Read], ...] = (
    ("prefix_cache_queries", "Tokens asked of the prefix cache.", lambda s: (s.engine.books.prefix_queries,)),
    ("prefix_cache_hits", "Tokens found in the prefix cache.", lambda s: (s.engine.books.prefix_hits,)),
    ("external_prefix_cache_queries", "Tokens asked of a connector's cache.", lambda _s: (0.0,)),
    ("external_prefix_cache_hits", "Tokens found in a connector's cache.", lambda _s: (0.0,)),
    ("mm_cache_queries", "Items asked of the multi-modal cache.", lambda _s: (0.0,)),
    ("mm_cache_hits", "Items found in the multi-modal cache.", lambda _s: (0.0,)),
    ("num_preemptions", "Preemptions.", lambda s: (s.engine.books.preemptions,)),
    ("prompt_tokens", "Prompt tokens.", lambda s: (s.engine.books.prompt_tokens,)),
)

_HISTOGRAMS: tuple[tuple[str, str, Callable[[Books], Histogram]], ...] = (
    ("request_prompt_tokens", "Prompt tokens of a request.", lambda b: b.prompt_length),
    ("request_generation_tokens", "Output tokens of a request.", lambda b: b.output_length),
    ("iteration_tokens_total", "Tokens of a step.", lambda b: b.iterations),
    ("request_max_num_generation_tokens", "Largest output of a request's choices.", lambda b: b.max_output_length),
    ("request_params_n", "Choices asked for.", lambda b: b.choices),
    ("request_params_max_tokens", "The limit asked for.", lambda b: b.max_tokens),
    ("time_to_first_token_seconds", "Time to the first token.", lambda b: b.ttft),
    ("inter_token_latency_seconds", "Time between outputs.", lambda b: b.itl),
    ("request_time_per_output_token_seconds", "Decode time by token of a request.", lambda b: b.tpot),
    ("e2e_request_latency_seconds", "Whole time of a request.", lambda b: b.e2e),
    ("request_queue_time_seconds", "Time in the queue.", lambda b: b.queue),
    ("request_inference_time_seconds", "Time being executed.", lambda b: b.inference),
    ("request_prefill_time_seconds", "Time of the prefill.", lambda b: b.prefill),
    ("request_decode_time_seconds", "Time of the decode.", lambda b: b.decode),
    ("request_num_preemptions", "Preemptions of a request.", lambda b: b.request_preemptions),
    ("request_prefill_kv_computed_tokens", "Prompt tokens computed.", lambda b: b.prefill_computed),
)


def exposition(engines: Sequence[Engine], start_seconds: float) -> Page:
    """The page of a process that started at `start_seconds` (Unix time) with these engines."""
    return Page(engines, _Builder(engines, start_seconds).build())


class _Builder:
    """Puts the families together, in the order of a real page."""

    def __init__(self, engines: Sequence[Engine], start_seconds: float) -> None:
        self._engines = engines
        self._start = start_seconds
        self._families: list[Family] = []
        self._created = start_seconds + _LOADING_SECONDS
        self._positions = max(engine.config.draft_positions for engine in engines)

    def build(self) -> tuple[Family, ...]:
        self._process()
        if self._positions:
            self._speculation()
        self._gauges()
        self._counters()
        self._rejections()
        self._histograms()
        self._cache_config()
        self._http()
        return tuple(self._families)

    # --- ways to add a family --------------------------------------------------------------------------------------

    def _series(self, index: int) -> dict[str, str]:
        config = self._engines[index].config
        return {"engine": config.engine_index, "model_name": config.model_name}

    def _constant(self, name: str, kind: str, text: str, samples: Mapping[str, float]) -> None:
        """Samples that never change: `samples` maps the text after the name to the value."""
        values = tuple(samples.values())
        prefixes = tuple(f"{name}{labels} " for labels in samples)
        self._families.append(
            Family(header(name, kind, text), (Lines((name,) * len(values), prefixes, lambda _s, _u: values),))
        )

    def _moments(self, base: str, text: str, labels: Sequence[str]) -> None:
        """The `_created` gauges that the Python client adds to counters, histograms and summaries."""
        self._constant(
            f"{base}_created", "gauge", text, {tail: self._created + 1e-5 * i for i, tail in enumerate(labels)}
        )

    def _plain(
        self, kind: str, name: str, text: str, read: Read, label: str = "", values: Sequence[str] = ("",)
    ) -> list[str]:
        """A gauge or counter of every engine, one sample per value of the extra label. Returns the label texts."""
        tails: list[str] = []
        groups: list[Lines] = []
        for index in range(len(self._engines)):
            mine = [label_text(self._series(index) | ({label: value} if label else {})) for value in values]
            prefixes = tuple(f"{name}{tail} " for tail in mine)
            groups.append(Lines((name,) * len(mine), prefixes, _of_engine(index, read)))
            tails += mine
        self._families.append(Family(header(name, kind, text), tuple(groups)))
        return tails

    def _counter(self, base: str, text: str, read: Read, label: str = "", values: Sequence[str] = ("",)) -> None:
        self._moments(base, text, self._plain("counter", f"{base}_total", text, read, label, values))

    def _histogram(
        self, base: str, text: str, of: Callable[[Books], Histogram], count: Callable[[Scrape], int] | None = None
    ) -> None:
        tails = [label_text(self._series(index)) for index in range(len(self._engines))]
        groups = [
            _bucket_lines(
                base, self._series(index), of(engine.books), _of_engine(index, lambda s: _observations(s, of, count))
            )
            for index, engine in enumerate(self._engines)
        ]
        self._families.append(Family(header(base, "histogram", text), tuple(groups)))
        self._moments(base, text, tails)

    # --- the families ----------------------------------------------------------------------------------------------

    def _process(self) -> None:
        generations = [label_text({"generation": str(number)}) for number in range(3)]
        for name, text, numbers in (
            ("python_gc_objects_collected_total", "Objects that the collector freed.", (15453.0, 2836.0, 523.0)),
            ("python_gc_objects_uncollectable_total", "Objects that it could not free.", (0.0, 0.0, 0.0)),
            ("python_gc_collections_total", "Collections of each generation.", (1574.0, 142.0, 10.0)),
        ):
            self._constant(name, "counter", text, dict(zip(generations, numbers, strict=True)))
        version = {"implementation": "CPython", "major": "3", "minor": "12", "patchlevel": "7", "version": "3.12.7"}
        self._constant("python_info", "gauge", "The Python that runs this.", {label_text(version): 1.0})
        self._constant("process_virtual_memory_bytes", "gauge", "Virtual memory.", {"": 2178723840.0})
        self._constant("process_resident_memory_bytes", "gauge", "Resident memory.", {"": 657428480.0})
        self._constant("process_start_time_seconds", "gauge", "Start of the process, Unix time.", {"": self._start})
        self._families.append(
            Family(
                header("process_cpu_seconds_total", "counter", "Processor time of the process."),
                (
                    Lines(
                        ("process_cpu_seconds_total",),
                        ("process_cpu_seconds_total ",),
                        lambda _s, uptime: (8.0 + 0.04 * uptime,),
                    ),
                ),
            )
        )
        self._constant("process_open_fds", "gauge", "Open file descriptors.", {"": 38.0})
        self._constant("process_max_fds", "gauge", "Limit of file descriptors.", {"": 20000.0})

    def _speculation(self) -> None:
        positions = tuple(str(number) for number in range(self._positions))
        self._counter("vllm:spec_decode_num_drafts", "Drafts.", lambda s: (_drafts(s),))
        self._counter(
            "vllm:spec_decode_num_draft_tokens",
            "Tokens drafted.",
            lambda s: (_drafts(s) * s.engine.config.draft_positions,),
        )
        self._counter(
            "vllm:spec_decode_num_accepted_tokens",
            "Drafted tokens that were accepted.",
            lambda s: (sum(s.reading.accepted_by_position),),
        )
        self._counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Drafted tokens that were accepted, by position.",
            lambda s: (*s.reading.accepted_by_position, *(0,) * len(positions)),
            "position",
            positions,
        )

    def _gauges(self) -> None:
        for name in ("flops", "read_bytes", "write_bytes"):
            self._counter(f"vllm:estimated_{name}_per_gpu", f"Estimated {name} of a card.", lambda _s: (0.0,))
        self._plain("gauge", "vllm:num_requests_running", "Requests being executed.", lambda s: (s.gauges.running,))
        self._plain("gauge", "vllm:num_requests_waiting", "Requests in the queue.", lambda s: (s.gauges.waiting,))
        self._plain(
            "gauge", "vllm:num_requests_waiting_by_reason", "Requests in the queue, by reason.",
            lambda s: (s.gauges.waiting, 0.0), "reason", ("capacity", "deferred"),
        )  # fmt: skip
        self._plain(
            "gauge", "vllm:engine_sleep_state", "Awake, or asleep at which level.",
            lambda _s: (1.0, 0.0, 0.0), "sleep_state", ("awake", "weights_offloaded", "discard_all"),
        )  # fmt: skip
        self._plain(
            "gauge", "vllm:kv_cache_usage_perc", "KV cache in use, 1 is all.", lambda s: (s.gauges.kv_usage_ratio,)
        )

    def _counters(self) -> None:
        for base, text, read in _COUNTERS:
            self._counter(f"vllm:{base}", text, read)
        self._counter(
            "vllm:prompt_tokens_by_source",
            "Prompt tokens, by source.",
            _prompt_tokens_by_source,
            "source",
            ("local_compute", "local_cache_hit", "external_kv_transfer"),
        )
        self._counter(
            "vllm:prompt_tokens_cached", "Cached prompt tokens.", lambda s: (s.engine.books.prompt_tokens_cached,)
        )
        self._counter(
            "vllm:prompt_tokens_cached_by_source",
            "Cached prompt tokens, by tier.",
            lambda s: (s.engine.books.prefix_hits, 0.0, 0.0, 0.0, 0.0),
            "source",
            ("device", "host", "p2p", "disk", "external_unspecified"),
        )
        self._counter("vllm:generation_tokens", "Output tokens.", lambda s: (s.reading.output_tokens,))
        self._counter(
            "vllm:request_success",
            "Finished requests, by reason.",
            lambda s: tuple(s.engine.books.finished.values()),
            "finished_reason",
            FINISH_REASONS,
        )

    def _rejections(self) -> None:
        """Nothing is ever refused here; the series carry no engine."""
        models = dict.fromkeys(engine.config.model_name for engine in self._engines)
        reasons = ("max_num_queued_reqs", "max_num_queued_tokens")
        tails = [label_text({"model_name": model, "reason": reason}) for model in models for reason in reasons]
        text = "Requests refused at the door, by reason."
        self._constant("vllm:admission_rejections_total", "counter", text, dict.fromkeys(tails, 0.0))
        self._moments("vllm:admission_rejections", text, tails)

    def _histograms(self) -> None:
        for base, text, of in _HISTOGRAMS:
            live = (lambda s: s.reading.chunks) if base == "inter_token_latency_seconds" else None
            self._histogram(f"vllm:{base}", text, of, live)

    def _cache_config(self) -> None:
        blocks = sum(engine.config.kv_blocks for engine in self._engines)
        samples = {label_text(_cache_facts(engine.config, blocks)): 1.0 for engine in self._engines}
        self._constant("vllm:cache_config_info", "gauge", "How the KV cache is laid out.", samples)

    def _http(self) -> None:
        """What the web framework's own metrics say of the finished requests."""
        status = label_text(_HANDLER | {"method": "POST", "status": "2xx"})
        self._web("http_requests_total", "counter", "http_requests", (("", status),), lambda n: (n,))
        for direction, size in (("request", 512.0), ("response", 0.0)):
            base = f"http_{direction}_size_bytes"
            tail = label_text(_HANDLER)
            self._web(base, "summary", base, (("_count", tail), ("_sum", tail)), _sizes(size))
        fine, coarse = "http_request_duration_highr_seconds", "http_request_duration_seconds"
        self._web_durations(fine, {}, lambda b: b.http_fine)
        self._web_durations(coarse, _HANDLER | {"method": "POST"}, lambda b: b.http_coarse)

    def _web(
        self,
        name: str,
        kind: str,
        base: str,
        samples: Sequence[tuple[str, str]],
        values: Callable[[int], Sequence[float]],
    ) -> None:
        names = tuple(f"{name}{suffix}" for suffix, _ in samples)
        prefixes = tuple(f"{name}{suffix}{tail} " for suffix, tail in samples)
        lines = Lines(names, prefixes, lambda scrapes, _u: values(_answered(scrapes)))
        self._families.append(Family(header(name, kind, "Of the web framework."), (lines,)))
        self._moments(base, "Of the web framework.", (samples[0][1],))

    def _web_durations(self, base: str, labels: Mapping[str, str], of: Callable[[Books], Histogram]) -> None:
        def total(scrapes: Sequence[Scrape], _uptime: float) -> Sequence[float]:
            return [sum(column) for column in zip(*(_observations(s, of) for s in scrapes), strict=True)]

        lines = _bucket_lines(base, labels, of(self._engines[0].books), total)
        self._families.append(Family(header(base, "histogram", "Of the web framework."), (lines,)))
        self._moments(base, "Of the web framework.", (label_text(labels),))


def _of_engine(index: int, read: Read) -> Values:
    """Values that stand in one engine only."""

    def values(scrapes: Sequence[Scrape], _uptime: float) -> Sequence[float]:
        return read(scrapes[index])

    return values


def _bucket_lines(base: str, labels: Mapping[str, str], histogram: Histogram, values: Values) -> Lines:
    """The lines of a histogram: buckets, count, sum."""
    bounds = [*(number(bound) for bound in histogram.bounds), "+Inf"]
    tail = label_text(labels)
    buckets = (f"{base}_bucket{label_text({**labels, 'le': bound})} " for bound in bounds)
    names = (*[f"{base}_bucket"] * len(bounds), f"{base}_count", f"{base}_sum")
    return Lines(names, (*buckets, f"{base}_count{tail} ", f"{base}_sum{tail} "), values)


def _prompt_tokens_by_source(scrape: Scrape) -> Sequence[float]:
    books = scrape.engine.books
    return books.prompt_tokens - books.prompt_tokens_cached, books.prompt_tokens_cached, 0.0


def _sizes(each: float) -> Callable[[int], Sequence[float]]:
    """Count and sum of so many messages of one size."""
    return lambda count: (count, count * each)


def _drafts(scrape: Scrape) -> int:
    """Every output after the first is one draft verified; none without speculation."""
    return scrape.reading.chunks if scrape.engine.config.draft_positions else 0


def _answered(scrapes: Iterable[Scrape]) -> int:
    return sum(sum(scrape.engine.books.finished.values()) for scrape in scrapes)


def _observations(
    scrape: Scrape, of: Callable[[Books], Histogram], count: Callable[[Scrape], int] | None = None
) -> list[float]:
    """Cumulative buckets, count, sum."""
    histogram = of(scrape.engine.books)
    cumulative = histogram.cumulative(count(scrape) if count else None)
    return [*cumulative, cumulative[-1], histogram.sum]


def _cache_facts(config: EngineConfig, blocks: int) -> dict[str, str]:
    """The labels of `cache_config_info`; `num_gpu_blocks` is of all engines together, as vLLM has it."""
    return {
        "_block_size_resolved": "True",
        "block_size": str(config.block_size),
        "cache_dtype": "auto",
        "cache_hit_alignment_tokens": "None",
        "effective_attention_block_size": str(config.block_size),
        "enable_mamba_shared_prefix_checkpoint": "False",
        "enable_prefix_caching": "True",
        "engine": config.engine_index,
        "gpu_memory_utilization": "0.92",
        "hash_block_size": "None",
        "is_attention_free": "False",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_layout": "None",
        "kv_cache_max_concurrency": f"{config.kv_tokens / config.max_model_len}",
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(config.kv_tokens),
        "kv_offloading_backend": "native",
        "kv_offloading_size": "None",
        "kv_sharing_fast_prefill": "False",
        "mamba_block_size": "None",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_page_size_padded": "None",
        "mamba_ssm_cache_dtype": "float32",
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(blocks),
        "num_gpu_blocks_override": "None",
        "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256",
        "prefix_match_unit": "None",
        "replayssm_buffer_len": "16",
        "skip_page_size_padded": "None",
        "sliding_window": "None",
        "swa_bounded_replay": "True",
        "use_kda_recoverssm": "False",
        "use_replayssm": "False",
        "user_specified_block_size": "False",
    }
