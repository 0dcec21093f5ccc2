"""What AIPerf's settings say of a run, in the shape of every version: load, model, endpoint, data.

Contains the two families: `phases` and `datasets` (0.9 and newer), `loadgen` and `input` (before). A list where a run
has one value is the whole sweep's and says nothing of this run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opmon.sweeps.naming import concurrency_in, parts_of
from opmon.sweeps.reading import Fields

_OPEN = ("poisson", "gamma", "constant", "user_centric", "request_rate")


@dataclass(frozen=True, slots=True)
class Settings:
    """`config`: the settings; `run`: what is said of this run of a sweep."""

    config: Fields
    run: Fields

    def load(self, file_name: str, extra: dict[str, str]) -> dict[str, Any]:
        """Concurrency and load mode. A rate makes it open-loop, whatever cap the concurrency puts on it; without any
        word, the folder's name stands in, and the cell says so."""
        phase = self._phase()
        kind = (phase.word("type") or "").lower()
        level, rate = _single(phase, "concurrency"), _single(phase, "rate")
        if not phase.values:
            level = _single(self.config, "loadgen", "concurrency")
            rate = _single(self.config, "loadgen", "request_rate")
        varied = self._varied("concurrency")
        level = varied if varied is not None else level
        rate = self._varied("rate") if rate is None else rate
        if rate is not None or kind in _OPEN:
            extra |= {key: f"{one:g}" for key, one in (("request_rate", rate), ("max_concurrency", level)) if one}
            return {"concurrency_source": "unknown", "load_mode": "open"}
        if kind not in ("", "concurrency"):
            return {"concurrency_source": "unknown", "load_mode": kind}
        if level is not None:
            return {"concurrency": level, "load_mode": "closed"}
        named = concurrency_in(file_name)
        if named is not None:
            self.config.notes.append(f"the concurrency {named:g} is read from the file's path")
            return {"concurrency": named, "concurrency_source": "path", "load_mode": "closed"}
        return {"concurrency_source": "unknown"}

    def identity(self) -> dict[str, Any]:
        """Model, endpoint and sampling, as far as they are told."""
        streaming = self.config.at("endpoint", "streaming")
        counted = self.config.at("endpoint", "use_server_token_count")
        return {
            "tool": "aiperf",
            "model": self.model(),
            "guessed_content": self.content(),
            "api": self.config.word("endpoint", "type"),
            "streaming": streaming if isinstance(streaming, bool) else None,
            "token_source": {True: "server_usage", False: "retokenized"}.get(counted)
            if isinstance(counted, bool)
            else None,
            "temperature": _single(self.config, "endpoint", "extra", "temperature"),
        }

    def model(self) -> str | None:
        """The model's name, in any shape in which it was written."""
        ways = (("models", "items"), ("models",), ("endpoint", "model_names"), ("model_names",), ("model",))
        for way in ways:
            value = self.config.at(*way)
            if isinstance(value, list):
                value = value[0] if value else None
            if isinstance(value, Mapping):
                value = value.get("name")
            if isinstance(value, str) and (word := Fields({"model": value}, "").word("model")):
                return word
        return None

    def content(self) -> str | None:
        """What the prompts were: a data set's name, or its kind (`synthetic`)."""
        listed = self.config.at("datasets")
        first = listed[0] if isinstance(listed, list) and listed else None
        data = Fields(first, "") if isinstance(first, Mapping) else self.config.below("input")
        for key in ("dataset", "path", "public_dataset", "file"):
            if word := data.word(key):
                return parts_of(word)[-1] if parts_of(word) else word
        return data.word("type") or data.word("prompt_source")

    def extra(self) -> dict[str, str]:
        """What else tells configurations and runs apart."""
        found = {
            "variation": self.run.word("variation_label") or self.run.word("variation", "label"),
            "random_seed": self.run.word("random_seed"),
            "ignore_eos": self.config.word("endpoint", "extra", "ignore_eos"),
            "cli_command": self.run.word("cli_command") or self.config.word("cli_command"),
        }
        return {key: word for key, word in found.items() if word}

    def _phase(self) -> Fields:
        """The profiling phase; empty where there are no phases."""
        phases = self.config.at("phases")
        listed = phases if isinstance(phases, list) else []
        made = [
            Fields(one, self.config.file_name, None, self.config.notes) for one in listed if isinstance(one, Mapping)
        ]
        named = [one for one in made if "profiling" in (one.word("kind"), one.word("name"))]
        measured = [one for one in made if one.word("kind") != "warmup" and one.at("exclude_from_results") is not True]
        return next(iter(named or measured), Fields({}, self.config.file_name, None, self.config.notes))

    def _varied(self, last: str) -> float | None:
        """A value of this run that the sweep varied, by the last part of its path (`phases.profiling.concurrency`)."""
        for way in (("variation_values",), ("variation", "values")):
            values = self.run.below(*way)
            for key in values.values:
                if str(key).rpartition(".")[2] == last:
                    return _single(values, key)
        return None


def _single(fields: Fields, *path: str) -> float | None:
    """A figure, also as a list of one. None of a list of several: that is the whole sweep's."""
    value = fields.at(*path)
    if isinstance(value, list):
        only = value[0] if len(value) == 1 else None
        return Fields({path[-1]: only}, fields.file_name, fields.row, fields.notes).number(path[-1])
    return fields.number(*path)
