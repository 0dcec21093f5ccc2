"""A discrete-event model of one vLLM-like engine: queue, chunked prefill, continuous batching, and how it books them.

The engine has a clock of *steps* beside the clock of time. A step takes `a + b n + c p` milliseconds, with n streams
decoding and p prompt tokens in the step; between two events nothing of that changes, so time runs as a fluid and a
day costs no more than its requests. Every decoding stream advances by one step per step and puts out
`acceptance_length` tokens; a prefill takes the whole budget of prompt tokens, first come first served.

Contains no exposition, no traffic and no wall clock. Instants and durations are float milliseconds of simulated time.
Known differences from a real server, all below a step: gauges show a request as soon as it is scheduled (a real
server one step later), and the sum of inter-token latency grows smoothly instead of once per step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil, inf

from opmon.simulator.books import Books
from opmon.simulator.stream import DUE_STEPS, WHOLE_TOKEN, EngineConfig, Request, Stream, enter

_DUE_MS = 1e-6


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the three gauges show. `kv_usage_ratio` is 0 to 1."""

    running: int
    waiting: int
    kv_usage_ratio: float


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters that move while streams run: tokens and outputs so far."""

    output_tokens: int
    chunks: int
    accepted_by_position: tuple[int, ...]


@dataclass(slots=True)
class _Pace:
    """How everything moves until the next event; worked out once per event."""

    step_ms: float = inf
    decoding: int = 0
    tokens: float = 0.0
    accepted: tuple[float, ...] = ()
    until_step: float = inf


@dataclass(slots=True)
class _Prefill:
    """The streams whose prompts are computed together, over the same steps."""

    streams: list[Stream] = field(default_factory=list)
    tokens: int = 0
    start_step: float = 0.0
    steps: int = 0

    @property
    def end_step(self) -> float:
        return self.start_step + self.steps


class Engine:
    """One engine process from its start at `now_ms`. `second_ms`: simulated milliseconds in a reported second."""

    def __init__(self, config: EngineConfig, now_ms: float, *, second_ms: float = 1000.0) -> None:
        self.config = config
        self.now_ms = now_ms
        self.second_ms = second_ms
        self.books = Books(config.max_model_len, config.draft_positions)
        self.waiting: deque[Stream] = deque()
        self.decoding: list[Stream] = []
        self.running_integral_ms = 0.0
        self.next_event_ms = inf
        self.frozen: Gauges | None = None
        self.halted = False
        self._prefill: _Prefill | None = None
        self._steps = 0.0
        self._pace = _Pace()
        self._held_ms = 0.0
        self._arrivals = False

    # --- what can be seen ------------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Requests that the engine executes now."""
        return len(self.decoding) + (len(self._prefill.streams) if self._prefill else 0)

    def gauges(self) -> Gauges:
        """What a scrape sees: the truth, or the values left behind by an abort storm."""
        if self.frozen is not None:
            return self.frozen
        return Gauges(self.running, len(self.waiting), self._kv_usage_ratio())

    def read(self) -> Reading:
        """Counters that move while streams run, up to now."""
        tokens, chunks = self.books.output_tokens, self.books.chunks
        for stream in self.decoding:
            done = stream.chunks(self._steps)
            tokens += stream.tokens_after(done) - stream.booked_tokens
            chunks += done - stream.booked_chunks
        accepted = tuple(min(chunks, int(value + WHOLE_TOKEN)) for value in self.books.accepted_by_position)
        return Reading(tokens, chunks, accepted)

    # --- what happens to it ----------------------------------------------------------------------------------------

    def submit(self, request: Request) -> Stream:
        """Takes a request into the queue; who comes at the same instant is scheduled together, by the next `advance`.

        Refuses with ValueError what could never run.
        """
        longest = min(self.config.max_model_len, self.config.kv_tokens)
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            message = "a request has at least one prompt token and one output token"
            raise ValueError(message)
        if request.prompt_tokens + request.output_tokens > longest:
            message = f"{request.prompt_tokens} + {request.output_tokens} tokens do not fit into {longest}"
            raise ValueError(message)
        self.frozen = None
        stream = enter(request, self.config, self.now_ms)
        self.waiting.append(stream)
        self._arrivals = True
        self.next_event_ms = self.now_ms
        return stream

    def abort(self, streams: list[Stream]) -> None:
        """Clients hang up: no success and no request times are booked; what was put out already stays booked."""
        before = self.gauges()
        for stream in streams:
            self._leave(stream)
        if self.config.aborts_freeze_gauges and streams and not self.running and not self.waiting:
            self.frozen = before
        self._schedule()

    def everything(self) -> list[Stream]:
        """All streams in the engine, running first."""
        prefilling = self._prefill.streams if self._prefill else []
        return [*self.decoding, *prefilling, *self.waiting]

    def halt(self, *, halted: bool) -> None:
        """Hangs the engine, or lets it go on. The outputs that follow book the whole wait as their latency."""
        self.halted = halted
        if not halted and self._held_ms:
            self.books.itl.sum += len(self.decoding) * self._held_ms / self.second_ms
            self._held_ms = 0.0
        self._replan()

    def advance(self, to_ms: float) -> list[Stream]:
        """Moves to `to_ms`, which must not lie beyond `next_event_ms`; returns the requests that finished then."""
        elapsed_ms = max(0.0, to_ms - self.now_ms)
        due = to_ms >= self.next_event_ms - _DUE_MS
        self._flow(elapsed_ms, due=due and not self._arrivals)
        self.now_ms = max(self.now_ms, to_ms)
        return self._settle() if due else []

    # --- the fluid between events ----------------------------------------------------------------------------------

    def _flow(self, elapsed_ms: float, *, due: bool) -> None:
        self.running_integral_ms += self.running * elapsed_ms
        pace = self._pace
        if pace.step_ms == inf:
            self._held_ms += elapsed_ms if self.halted else 0.0
            return
        steps = max(0.0, pace.until_step - self._steps) if due else elapsed_ms / pace.step_ms
        self._steps = pace.until_step if due else self._steps + steps
        if not pace.decoding:
            return
        latency = pace.step_ms / self.second_ms
        books = self.books
        books.itl.observe(latency, steps * pace.decoding)
        books.itl.sum += pace.decoding * (elapsed_ms / self.second_ms - steps * latency)  # exact whatever the rounding
        books.iterations.observe(pace.tokens, steps)
        for position, accepted in enumerate(pace.accepted):
            books.accepted_by_position[position] += accepted * steps

    def _replan(self) -> None:
        """Works out the pace until the next event, and when that is."""
        config, count = self.config, len(self.decoding)
        prompt_tokens = self._prefill.tokens / self._prefill.steps if self._prefill else 0.0
        if self.halted or (not count and not self._prefill):
            self._pace, self.next_event_ms = _Pace(), self.now_ms if self._arrivals else inf
            return
        step_ms = config.step_ms + config.step_ms_per_stream * count + config.step_ms_per_prompt_token * prompt_tokens
        tokens = sum(stream.tokens_per_step for stream in self.decoding)
        accepted = tuple(map(sum, zip(*(s.accepted_by_position for s in self.decoding), strict=True)))
        ends = [stream.end_step for stream in self.decoding]
        ends += [self._prefill.end_step] if self._prefill else []
        until = min(*ends, self._kv_full_step(tokens), inf)
        self._pace = _Pace(step_ms, count, tokens, accepted, until)
        self.next_event_ms = self.now_ms + (0.0 if self._arrivals else max(0.0, until - self._steps) * step_ms)

    # --- events ----------------------------------------------------------------------------------------------------

    def _settle(self) -> list[Stream]:
        """Everything that is due on the step clock, in the order of a scheduler's step."""
        finished: list[Stream] = []
        if self._prefill and self._steps >= self._prefill.end_step - DUE_STEPS:
            streams, self._prefill = self._prefill.streams, None
            for stream in streams:
                self._end_prefill(stream)
                self.decoding.append(stream)
            if not self._pace.decoding:
                self.books.iterations.observe(float(sum(s.to_compute for s in streams) + len(streams)))
        for stream in [s for s in self.decoding if self._steps >= s.end_step - DUE_STEPS]:
            self._leave(stream)
            self._book_finish(stream)
            finished.append(stream)
        self._schedule()
        return finished

    def _schedule(self) -> None:
        """Makes room where memory is full, lets the queue in as far as seats, memory and prompt budget go."""
        self._arrivals = False
        while self.running > 1 and self.decoding and self._kv_free() <= WHOLE_TOKEN:
            self._preempt(self.decoding[-1])
        if self._prefill is None and not self.halted:
            self._admit()
        self._replan()

    def _admit(self) -> None:
        config, batch = self.config, _Prefill(start_step=self._steps)
        free = self._kv_free()
        while self.waiting and self.running + len(batch.streams) < config.max_num_seqs:
            stream = self.waiting[0]
            context = self._context(stream)
            over_budget = batch.tokens + stream.to_compute > config.max_num_batched_tokens
            margin = config.block_size * (self.running + len(batch.streams))  # room to grow for who is there already
            if (batch.streams and over_budget) or context + margin > free:
                break
            self.waiting.popleft()
            free -= context
            batch.streams.append(stream)
            batch.tokens += stream.to_compute
            if stream.scheduled_ms is None:
                stream.scheduled_ms = self.now_ms
                self.books.prefix_queries += stream.request.prompt_tokens
                self.books.prefix_hits += stream.request.cached_tokens
        if batch.streams:
            batch.steps = ceil(batch.tokens / config.max_num_batched_tokens)
            self._prefill = batch

    def _preempt(self, stream: Stream) -> None:
        """Takes a running stream back to the head of the queue; its context is computed again later."""
        self.decoding.remove(stream)
        self._book_output(stream)
        stream.preemptions += 1
        stream.last_output_ms = self.now_ms
        stream.to_compute = self._context(stream)
        self.books.preemptions += 1
        self.waiting.appendleft(stream)

    def _leave(self, stream: Stream) -> None:
        if stream in self.decoding:
            self.decoding.remove(stream)
            self._book_output(stream)
        elif self._prefill and stream in self._prefill.streams:
            self._prefill.streams.remove(stream)
            self._prefill = self._prefill if self._prefill.streams else None
        elif stream in self.waiting:
            self.waiting.remove(stream)

    # --- booking ---------------------------------------------------------------------------------------------------

    def _book_output(self, stream: Stream) -> None:
        """Moves what a stream has put out from the live reading into the books."""
        stream.steps_done = stream.chunks(self._steps)
        tokens = stream.tokens_after(stream.steps_done)
        self.books.output_tokens += tokens - stream.booked_tokens
        self.books.chunks += stream.steps_done - stream.booked_chunks
        stream.booked_tokens, stream.booked_chunks = tokens, stream.steps_done

    def _end_prefill(self, stream: Stream) -> None:
        """The first output: prompt tokens and TTFT. After a preemption: one output that came late."""
        books, request = self.books, stream.request
        if stream.first_token_ms is None:
            stream.first_token_ms = self.now_ms
            stream.origin = self._steps
            books.prompt_tokens += request.prompt_tokens
            books.prompt_tokens_cached += request.cached_tokens
            books.ttft.observe(self._seconds(stream.arrived_ms))
            return
        stream.origin = self._steps - stream.steps_done - 1
        books.itl.observe(self._seconds(stream.last_output_ms))

    def _book_finish(self, stream: Stream) -> None:
        """All that is booked at once when a request ends well."""
        books, request = self.books, stream.request
        scheduled = stream.scheduled_ms if stream.scheduled_ms is not None else stream.arrived_ms
        first = stream.first_token_ms if stream.first_token_ms is not None else self.now_ms
        decode, e2e = self._seconds(first), self._seconds(stream.arrived_ms)
        books.finished[request.finish_reason] += 1
        books.e2e.observe(e2e)
        books.queue.observe((scheduled - stream.arrived_ms) / self.second_ms)
        books.prefill.observe((first - scheduled) / self.second_ms)
        books.decode.observe(decode)
        books.inference.observe(self._seconds(scheduled))
        books.tpot.observe(decode / (request.output_tokens - 1) if request.output_tokens > 1 else 0.0)
        books.prompt_length.observe(request.prompt_tokens)
        books.output_length.observe(request.output_tokens)
        books.max_output_length.observe(request.output_tokens)
        books.max_tokens.observe(max(request.max_tokens, request.output_tokens))
        books.prefill_computed.observe(request.prompt_tokens - request.cached_tokens)
        books.request_preemptions.observe(stream.preemptions)
        books.choices.observe(1)
        books.http_fine.observe(e2e)
        books.http_coarse.observe(e2e)

    def _seconds(self, since_ms: float) -> float:
        return (self.now_ms - since_ms) / self.second_ms

    # --- memory ----------------------------------------------------------------------------------------------------

    def _context(self, stream: Stream) -> int:
        """Tokens of a stream's context so far: its prompt and what it has put out."""
        return stream.request.prompt_tokens + stream.booked_tokens

    def _grown(self, stream: Stream) -> float:
        steps = min(stream.steps_total, max(0.0, self._steps - stream.origin))
        return stream.request.prompt_tokens + 1 + stream.tokens_per_step * steps

    def _kv_free(self) -> float:
        """Tokens of KV cache not spoken for; a prompt being computed counts whole."""
        prefilling = sum(self._context(stream) for stream in self._prefill.streams) if self._prefill else 0
        return self.config.kv_tokens - prefilling - sum(self._grown(stream) for stream in self.decoding)

    def _kv_full_step(self, tokens_per_step: float) -> float:
        """The reading of the step clock at which the cache is full; never for a stream that is alone."""
        if self.running <= 1 or tokens_per_step <= 0:
            return inf
        return self._steps + max(0.0, self._kv_free()) / tokens_per_step

    def _kv_usage_ratio(self) -> float:
        used = sum(self._grown(stream) for stream in self.decoding)
        if self._prefill:
            done = min(1.0, (self._steps - self._prefill.start_step) / self._prefill.steps)
            share = 1.0 if self.config.prompt_kv_at_once else done
            for stream in self._prefill.streams:
                context = self._context(stream)
                used += context - stream.to_compute * (1.0 - share) if context > stream.to_compute else context * share
        return min(1.0, ceil(used / self.config.block_size) / self.config.kv_blocks)
