"""Who and what was measured in a run of vLLM's benchmark client, as far as the record or its file's name says.

Contains the keys that people use for it, which keys of a record are the tool's own, and which are settings of a sweep.
The tool itself writes neither content nor hardware nor a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opmon.core.names import escaped
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.reading import Fields, Given, name_from, redacted

RUN_NUMBER = "run_number"
CONFIGURATION_KEYS = ("config", "configuration", "config_name")
CONTENT_KEYS = ("content", "workload", "dataset", "dataset_name", "task", "scenario")
HARDWARE_KEYS = ("hardware", "gpu", "gpu_type", "gpu_name", "accelerator")
MOST_SETTINGS = 40
_OWN_KEYS = (
    "date endpoint_type backend label model_id tokenizer_id num_prompts num_processes best_of request_rate burstiness"
    " max_concurrency duration completed good_completed failed total_input_tokens total_output_tokens"
    " request_throughput request_goodput request_goodput: input_throughput output_throughput total_token_throughput"
    " max_output_tokens_per_s max_concurrent_requests rtfx steady_state failed_requests rps_change_events"
    " latencies queue_times input_lens output_lens ttfts itls itl_sums start_times generated_texts errors"
    " server_queue_times server_ttfts mode multi_turn_concurrency per_turn_metrics avg_turns_completed"
    " conversations_completed conversations_failed avg_conversation_duration_ms"
)
_OWN_PATTERN = re.compile(r"(mean|median|std|p\d+(\.\d+)?)_\w+|(spec_decode|probe)_\w+")
# Options of `vllm bench serve`: in a sweep they set a level or a content, whatever else is a setting of the server.
_CLIENT_PREFIX = re.compile(
    r"(random|sharegpt|sonnet|custom|hf|prefix_repetition|spec_bench|speed_bench|blazedit|asr|timed_trace|bfcl|ramp_up"
    r"|dataset|multi_turn|probe|goodput|num_prompts|num_warmups)(_|$)"
)
_CLIENT_OPTIONS = (
    "_benchmark_name max_concurrency request_rate burstiness num_prompts input_len output_len seed ignore_eos"
    " temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty percentile_metrics"
    " metric_percentiles disable_shuffle no_oversample endpoint base_url host port header extra_body no_stream"
    " tokenizer tokenizer_mode model served_model_name lora_modules lora_assignment save_detailed self_timed logprobs"
    " use_beam_search request_id_prefix trust_remote_code disable_tqdm profile metadata skip_chat_template backend"
    " label chat_template_kwargs ready_check_timeout_sec"
)
_OWN, _CLIENT = frozenset(_OWN_KEYS.split()), frozenset(_CLIENT_OPTIONS.split())
_UNKNOWN_WORDS = frozenset(("", "none", "null", "unknown", "n/a", "nan", "-"))
_PART = r"(?:^|(?<=[-_. ]))(?:{})(?=$|[-_. ])"
_NOISE = tuple(
    re.compile(_PART.format(part), re.IGNORECASE)
    for part in (
        r"qps[-_=]?(?:inf|\d+(?:\.\d+)?)|(?:inf|\d+(?:\.\d+)?)[-_]?(?:qps|rps)",
        r"c[-_=]?\d+|(?:isl|osl)[-_=]?\d+k?",
        r"vllm|openai(?:-chat)?|serve|console|commands",
    )
)
_COMBINATION = re.compile(r"(SERVE|BENCH|SLA)--")


def configuration_of(fields: Fields, given: Given) -> str | None:
    """The name that the record states: a key for it, the label, and the server's settings of a sweep behind either. In
    a sweep a name that was given beside the file stands before the settings. None where it states none."""
    stated = first_word(fields, CONFIGURATION_KEYS) or _label(fields)
    settings = [f"{name}={value}" for name, value in sweep_settings(fields) if not is_of_client(name)]
    name = name_from(stated or given.configuration, *settings) if settings else stated
    return name[:200].strip() if name else None


def guessed_configuration(file_name: str, model: str | None) -> str | None:
    """The name that the file's path leaves; where that is only the model's name or nothing, its folder's, else the
    model's."""
    base = (model or "").rstrip("/").rsplit("/", 1)[-1]
    for part in reversed(file_name.split("/")):
        if not _COMBINATION.match(part) and (name := guessed_name(without_noise(part))) and name != base:
            return name
    return escaped(redacted(base))[:200] or None


def without_noise(name: str) -> str:
    """A file's name without the parts that vLLM's tools put there for a rate, a level or a length."""
    for pattern in _NOISE:
        name = pattern.sub("", name)
    return name


def content_of(fields: Fields) -> str | None:
    """The content by a key that people use for it; None without one."""
    return first_word(fields, CONTENT_KEYS)


def hardware_of(fields: Fields) -> str | None:
    """The hardware by a key that people or vLLM's CI use for it; None without one."""
    word = first_word(fields, HARDWARE_KEYS)
    return gpu_words(word) if word and fields.has("gpu_type") and word == fields.word("gpu_type") else word


def gpu_words(text: str) -> str:
    """What vLLM's CI writes for its GPUs, a line each, as a count and a name: `8xNVIDIA H100`."""
    if re.match(r"\d+x", text):
        return text
    names = [name.strip() for name in re.split(r"\n|\\n", text) if name.strip()]
    return f"{len(names)}x{names[0]}" if names else text


def first_word(fields: Fields, keys: tuple[str, ...]) -> str | None:
    """The first of the keys that says something."""
    words = (fields.word(key) for key in keys)
    return next((word for word in words if word and word.lower() not in _UNKNOWN_WORDS), None)


def sweep_settings(fields: Fields) -> Iterator[tuple[str, str]]:
    """Settings that `vllm bench sweep` put behind a run's number, by name; none in a record of another tool."""
    keys = list(fields.values)
    if RUN_NUMBER in keys:
        yield from _scalars(fields, keys[keys.index(RUN_NUMBER) + 1 :])


def said_besides(fields: Fields) -> dict[str, str]:
    """What else the record says, by its own names: what people added (`--metadata`), and the settings of a sweep."""
    return dict(list(_scalars(fields, list(fields.values)))[:MOST_SETTINGS])


def is_of_client(name: str) -> bool:
    """Whether a sweep's setting is one of the benchmark client."""
    plain = name.replace("-", "_").lower()
    return plain in _CLIENT or _CLIENT_PREFIX.match(plain) is not None


def _label(fields: Fields) -> str | None:
    """The label; some versions wrote the backend where none was given."""
    label = first_word(fields, ("label",))
    return None if label in (fields.word("backend"), fields.word("endpoint_type")) else label


def _scalars(fields: Fields, keys: list[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        word = fields.word(key)
        if key in _OWN or _OWN_PATTERN.fullmatch(key) or word is None or word[:1] in ("[", "{"):
            continue
        plain = re.sub(r"^(-?\d+)\.0$", r"\1", word)  # a table writes counts so where another row has none
        hidden = redacted(f"{key}={plain}")[len(key) + 1 :]
        yield escaped(redacted(key))[:100], hidden
