"""Where our reading of a real file differs from the table beside it, and why: one argued line each."""

from __future__ import annotations

ARGUED: dict[tuple[str, str], str] = {
    (
        "guidellm",
        "tpot_p50_ms",
    ): "its time between tokens leaves the first one out: that is TPOT, and the table has none",
    **{
        (f"guidellm-0.4.0-conc1-4-16{end}", "agg_out_tok_s"): (
            "the mean of this version's rates is up to 3.5 % above its own tokens / its own seconds; ours is the latter"
        )
        for end in (".json.gz", "-trimmed.json")
    },
    (
        "vllm-ci",
        "prompt_mean",
    ): "the table has what was asked for; (total - output) / requests is what the runs measured",
    ("llmperf", "duration_s"): "requests / requests per minute says it: 150 at 84.7 a minute are 106 s",
    ("sglang-0.5.23-details.jsonl", "n_failed"): "the details list what each request said: two were refused",
    ("sglang-0.5.3-details.jsonl", "n_failed"): "the details list what each request said",
    **{
        (
            "sglang-0.5.3-details.jsonl",
            column,
        ): "of tokens that were asked for and never came; ours are of those that did"
        for column in ("tpot_p50_ms", "agg_out_tok_s", "per_stream_p50", "output_mean")
    },
    **{
        (f"inferenceperf-0.2-kubecon-{side}-stage{stage}.json", "tpot_p50_ms"): (
            "this version took the stream's blank lines for tokens: its time per token is half of it, and is left out"
        )
        for side in ("old-plain", "new-eagle")
        for stage in range(7)
    },
    ("llama-bench", "output_mean"): "a row without output has no length: missing is not 0",
    ("llama-bench", "per_stream_p50"): "the tool's own speed has no prompt in it: it is the decode speed",
    ("llama-bench", "prompt_mean"): "a row without a prompt has no length: missing is not 0",
    ("llama-benchy", "per_stream_p50"): "the file has every request: ours is their median, the table's is of means",
    ("llama-benchy", "agg_out_tok_s"): "the tool's figure leaves the first tokens' time out; ours counts it in",
    ("llama-benchy", "ttft_p50_ms"): "the file has every request: ours is their median, the table's the mean",
    ("llama-benchy", "ttft_p95_ms"): "the file has every request",
    **{
        ("llmd-br-v0_1-example.yaml", column): "the table's program read nothing of version 0.1; the file states it"
        for column in ("prompt_mean", "output_mean", "n_ok", "n_failed", "duration_s", "agg_out_tok_s")
    },
    **{
        (f"llmd-br-v{version}-example.yaml", "duration_s"): "the report states it, as PT49.97S"
        for version in ("0_2", "0_2_1")
    },
}
"""(file or tool, column of the table): the reason."""

REFUSED: dict[str, str] = {}
"""Files that are refused: a part of the words that say why."""
