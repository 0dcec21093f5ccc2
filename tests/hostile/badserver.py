"""A server that answers wrongly in every way that a target was ever seen to: `/MODE/metrics` answers as MODE says.

In a test it runs beside the client and its time is `BadServer.step`; by itself (`python -m tests.hostile.badserver
PORT`) a step is a second. Stands on sockets alone: no HTTP library would send most of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import socket
import sys
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache

from tests.hostile.pages import START, json_page, labels, level, login_page, page, running_line

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Mode = Callable[["Answer"], Awaitable[None]]
MODES: dict[str, Mode] = {}


@dataclass(slots=True)
class Answer:
    """One request, and the means to answer it in any way."""

    step: int
    path: str
    port: int
    writer: asyncio.StreamWriter

    def raw(self, data: bytes) -> None:
        """Exactly these bytes."""
        self.writer.write(data)

    def send(
        self,
        body: str | bytes,
        *,
        content_type: str | None = TEXT,
        status: str = "200 OK",
        headers: str = "",
        length: object = None,
        version: str = "HTTP/1.1",
    ) -> None:
        """An answer with a length, right unless one is given; '' leaves the header out."""
        data = body.encode() if isinstance(body, str) else body
        lines = [f"{version} {status}"]
        lines += [f"Content-Type: {content_type}"] if content_type is not None else []
        lines += [f"Content-Length: {len(data) if length is None else length}"] if length != "" else []
        self.raw(("\r\n".join(lines) + "\r\n" + headers + "\r\n").encode("latin-1") + data)

    def head(self, headers: str, content_type: str = TEXT) -> None:
        """The beginning of an answer; what follows is the caller's."""
        self.raw(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{headers}\r\n".encode())

    async def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()
        self.writer.close()


def mode(function: Mode) -> Mode:
    """Makes a function a mode by its name."""
    MODES[function.__name__] = function
    return function


def body_mode(name: str, make: Callable[[int], str | bytes], **how: str) -> None:
    """A mode that sends one body per step."""

    async def answer(one: Answer) -> None:
        one.send(make(one.step), **how)

    MODES[name] = answer


# --- pages that are read ----------------------------------------------------------------------------------------------

ODD_MODEL = 'org/a,b "q" {x} \\ \n=#'
HTML_MODEL = "<img src=x onerror=alert(1)><script>document.title='no'</script>"
LONG_MODEL = "m" * 10_000
MANY_MODELS = [f"model-{index}" for index in range(500)]

body_mode("ok", page)
body_mode("engines", lambda step: page(step, (level(step), 0, 5)))
body_mode("odd_model", lambda step: page(step, model=ODD_MODEL))
body_mode("html_model", lambda step: page(step, model=HTML_MODEL))
body_mode("long_model", lambda step: page(step, model=LONG_MODEL))


@lru_cache(maxsize=2)
def many_models_page(step: int) -> str:
    """Half a megabyte, made once a step."""
    return "".join(page(step, (1,), model=model) for model in MANY_MODELS)


body_mode("many_models", many_models_page)
body_mode("two_models", lambda step: page(step, model="big") + page(step, (3,), model="small"))
body_mode("exponent", lambda step: page(step, ("1.2e+01",)))
body_mode("minus_zero", lambda step: page(step, ("-0.0",)))
body_mode("old_timestamp", lambda step: page(step).replace(" 1\n", " 1 1500000000000\n"))
body_mode("future_timestamp", lambda step: page(step, (f"{level(step)} 4102444800000",)))
body_mode("crlf", lambda step: page(step).replace("\n", "\r\n"))
body_mode("bom", lambda step: "\ufeff" + page(step))
body_mode("no_last_newline", lambda step: page(step).rstrip("\n"))
body_mode("blank_lines", lambda step: page(step).replace("\n", "\n\n  \n\t\n"))
body_mode("odd_spaces", lambda step: page(step, (f"\t {level(step)} \t",)))
body_mode("quoted_names", lambda step: page(step) + '{"my.odd metric",engine="0"} 1\n')
body_mode(
    "quoted_running", lambda step: page(step).replace("vllm:num_requests_running{", '{"vllm:num_requests_running",')
)
body_mode(
    "help_and_type_twice", lambda step: page(step).replace("# TYPE", "# TYPE vllm:num_requests_running gauge\n# TYPE")
)
body_mode("type_is_a_lie", lambda step: page(step).replace("running gauge", "running histogram"))
body_mode("old_names", lambda step: page(step, old=True))
body_mode("ray", lambda step: page(step, prefix="ray_vllm_"))
body_mode("ray_with_a_colon", lambda step: page(step, prefix="ray_vllm:"))
body_mode(
    "created", lambda step: page(step) + f"vllm:generation_tokens_created{labels(engine='0', model_name='m')} {START}\n"
)
body_mode(
    "created_ahead",
    lambda step: page(step) + f"vllm:generation_tokens_created{labels(engine='0', model_name='m')} 4e9\n",
)
body_mode("start_zero", lambda step: page(step, start=0))
body_mode("start_now_and_then", lambda step: page(step, start=(START, 0, "NaN", None)[step % 4]))
body_mode("null_in_a_label", lambda step: page(step, model="a\x00b"))
body_mode("label_of_a_megabyte", lambda step: page(step) + f'vllm:other{{x="{"y" * 1_000_000}"}} 1\n')
body_mode("not_utf8", lambda step: page(step).encode() + b'vllm:other{x="\xff\xfe"} 1\n')
body_mode("engine_label_on_half_of_the_lines", lambda step: page(step).replace('running{engine="0",', "running{"))
body_mode("engine_with_and_without_label", lambda step: page(step) + 'vllm:num_requests_running{model_name="m"} 2\n')
body_mode("bad_line", lambda step: page(step) + ("this is not a metric line\n" if step % 3 == 0 else ""))
body_mode("no_type", page, content_type="")
body_mode("octets", page, content_type="application/octet-stream")
body_mode("wrong_charset", page, content_type="text/plain; charset=utf-16")
body_mode("odd_content_type", page, content_type='text/plain;;; charset=="')
body_mode("counter_rounded", lambda step: page(step, tokens=1e15 + 100 * step - (0.1 if step % 2 else 0.0), start=None))
body_mode("http_1_0", page, version="HTTP/1.0")


@mode
async def without_content_type(one: Answer) -> None:
    one.send(page(one.step), content_type=None)


@mode
async def openmetrics(one: Answer) -> None:
    exemplar = '# TYPE x counter\nx_total 1 # {trace_id="a"} 0.5 1.7e9\n'
    one.send(exemplar + page(one.step) + "# EOF\n", content_type=OPENMETRICS)


@mode
async def gzipped(one: Answer) -> None:
    one.send(gzip.compress(page(one.step).encode()), headers="Content-Encoding: gzip\r\n")


@mode
async def deflated(one: Answer) -> None:
    one.send(zlib.compress(page(one.step).encode()), headers="Content-Encoding: deflate\r\n")


def _chunks(data: bytes, size: int = 97) -> bytes:
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in cut)


@mode
async def chunked(one: Answer) -> None:
    one.head("Transfer-Encoding: chunked\r\n")
    one.raw(_chunks(page(one.step).encode()) + b"0\r\n\r\n")


@mode
async def chunked_with_trailers(one: Answer) -> None:
    one.head("Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n")
    one.raw(_chunks(page(one.step).encode()) + b"0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n")


@mode
async def chunk_extensions(one: Answer) -> None:
    data = page(one.step).encode()
    one.head("Transfer-Encoding: chunked\r\n")
    one.raw(b"%x;a=b;c\r\n%s\r\n0\r\n\r\n" % (len(data), data))


@mode
async def until_close(one: Answer) -> None:
    """HTTP/1.0 without a length: the end of the connection is the end of the page."""
    one.send(page(one.step), length="", version="HTTP/1.0")
    await one.close()


@mode
async def openmetrics_without_its_end(one: Answer) -> None:
    one.send(page(one.step), content_type=OPENMETRICS)


@mode
async def until_close_in_the_middle_of_a_line(one: Answer) -> None:
    """`1` of `12.0`: the value that is cut is still a number."""
    one.send(page(one.step).rstrip("\n")[:-1], length="", version="HTTP/1.0")
    await one.close()


body_mode("copy_of_now", page, headers="Age: 5\r\n")
body_mode("copy_of_a_minute_ago", page, headers="Age: 60\r\n")
body_mode("copy_that_is_said_to_be_old", page, headers='Warning: 199 a "x", 110 a "Response is Stale"\r\n')


@mode
async def closes_each_time(one: Answer) -> None:
    one.send(page(one.step), headers="Connection: close\r\n")
    await one.close()


@mode
async def closes_without_saying(one: Answer) -> None:
    one.send(page(one.step))
    await one.close()


@mode
async def byte_by_byte(one: Answer) -> None:
    one.head("Transfer-Encoding: chunked\r\n")
    for byte in page(one.step).encode():
        one.raw(b"1\r\n%c\r\n" % byte)
    one.raw(b"0\r\n\r\n")


@mode
async def early_hints(one: Answer) -> None:
    one.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    one.send(page(one.step))


@mode
async def redirected_to_the_slash(one: Answer) -> None:
    if one.path.partition("?")[0].endswith("/"):
        one.send(page(one.step))
    else:
        one.send("", status="307 Temporary Redirect", headers=f"Location: {one.path}/\r\n")


# --- answers that fail as a whole ---------------------------------------------------------------------------------------

body_mode("html", lambda _: login_page(), content_type="text/html; charset=utf-8")
body_mode("html_as_text", lambda _: login_page())
body_mode("json", lambda _: json_page(), content_type="application/json")
body_mode("protobuf", lambda _: b"\x0a\x05hello", content_type="application/vnd.google.protobuf")
body_mode("plain_words", lambda _: "all is well here\nreally\n")
body_mode("binary", lambda _: bytes(range(256)) * 20)
body_mode("utf16", lambda step: page(step).encode("utf-16"))
for _status in (
    "204 No Content",
    "206 Partial Content",
    "304 Not Modified",
    "401 Unauthorized",
    "404 Not Found",
    "429 Too Many Requests",
    "500 Internal Server Error",
    "503 Service Unavailable",
):
    body_mode(f"status_{_status[:3]}", (lambda _: "") if _status[:3] in ("204", "304") else page, status=_status)


@mode
async def gzip_cut_off(one: Answer) -> None:
    one.send(gzip.compress(page(one.step).encode())[:200], headers="Content-Encoding: gzip\r\n")


@mode
async def gzip_with_a_wrong_sum(one: Answer) -> None:
    packed = gzip.compress(page(one.step).encode())
    one.send(packed[:-8] + b"\x00\x00\x00\x00" + packed[-4:], headers="Content-Encoding: gzip\r\n")


@mode
async def gzip_is_a_lie(one: Answer) -> None:
    one.send(page(one.step), headers="Content-Encoding: gzip\r\n")


@mode
async def brotli(one: Answer) -> None:
    one.send(b"\x0b\x02\x80abc\x03", headers="Content-Encoding: br\r\n")


BOMB = gzip.compress(b"vllm:other 1\n" * 8_000_000, compresslevel=1)


@mode
async def gzip_bomb(one: Answer) -> None:
    """A hundred megabytes in less than one."""
    one.send(BOMB, headers="Content-Encoding: gzip\r\n")


@mode
async def too_much_announced(one: Answer) -> None:
    one.send(page(one.step), length=40_000_000)
    await one.close()


@mode
async def too_much(one: Answer) -> None:
    """More than the limit, in chunks, without end."""
    one.head("Transfer-Encoding: chunked\r\n")
    junk = b'junk{i="%d"} 1\n' * 8192
    with contextlib.suppress(ConnectionError):
        while not one.writer.is_closing():
            one.raw(b"%x\r\n%s\r\n" % (len(junk), junk))
            await one.writer.drain()


@mode
async def shorter_than_announced(one: Answer) -> None:
    body = page(one.step)
    one.send(body, length=len(body) + 5000)
    await one.close()


@mode
async def negative_length(one: Answer) -> None:
    one.send(page(one.step), length=-5)


@mode
async def length_is_no_number(one: Answer) -> None:
    one.send(page(one.step), length="many")


@mode
async def two_lengths(one: Answer) -> None:
    one.send(page(one.step), headers="Content-Length: 7\r\n")


@mode
async def chunk_size_is_no_number(one: Answer) -> None:
    one.head("Transfer-Encoding: chunked\r\n")
    one.raw(b"zz\r\n" + page(one.step).encode())


@mode
async def chunks_cut_off(one: Answer) -> None:
    one.head("Transfer-Encoding: chunked\r\n")
    one.raw(_chunks(page(one.step).encode()))
    await one.close()


@mode
async def endless_headers(one: Answer) -> None:
    one.raw(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % index for index in range(20_000)))
    await one.close()


@mode
async def not_http(one: Answer) -> None:
    one.raw(b"220 mail.example ESMTP\r\n")
    await one.close()


@mode
async def another_protocol(one: Answer) -> None:
    one.raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")


@mode
async def tls_where_none_is_asked_for(one: Answer) -> None:
    """The alert of a server that expected a handshake."""
    one.raw(b"\x15\x03\x03\x00\x02\x02\x46\r\n\r\n")


@mode
async def early_close(one: Answer) -> None:
    await one.close()


@mode
async def reset(one: Answer) -> None:
    """The connection is torn down in the middle of the page."""
    one.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nvllm:num")
    await one.writer.drain()
    await reset_before_the_answer(one)


@mode
async def reset_before_the_answer(one: Answer) -> None:
    connection = one.writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    one.writer.transport.abort()


async def _drip(one: Answer, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        for byte in data:
            if one.writer.is_closing():
                return
            one.raw(bytes([byte]))
            await one.writer.drain()
            await asyncio.sleep(0.05)


@mode
async def drip(one: Answer) -> None:
    body = page(one.step).encode()
    one.head(f"Content-Length: {len(body)}\r\n")
    await _drip(one, body)


@mode
async def slow_headers(one: Answer) -> None:
    await _drip(one, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + b"X-Slow: yes\r\n" * 100)


@mode
async def silence(_: Answer) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)


@mode
async def late(one: Answer) -> None:
    """Answers well, but after the stratum in which it was asked."""
    await asyncio.sleep(1.15)
    one.send(page(one.step))


def redirect_mode(name: str, location: Callable[[Answer], str], status: str = "302 Found") -> None:
    """A mode that sends elsewhere."""

    async def answer(one: Answer) -> None:
        one.send("", status=status, headers=f"Location: {location(one)}\r\n")

    MODES[name] = answer


redirect_mode("redirect_loop", lambda one: one.path)
redirect_mode("redirect_to_a_file", lambda _: "file:///etc/passwd")
redirect_mode("redirect_to_gopher", lambda _: "gopher://127.0.0.1:70/")
redirect_mode("redirect_to_metadata", lambda _: "http://169.254.169.254/latest/meta-data/")
redirect_mode("redirect_to_another_port", lambda one: f"http://127.0.0.1:{one.port ^ 1}/ok/metrics")
redirect_mode("redirect_to_metadata_by_number", lambda _: "http://0xa9fea9fe/latest/meta-data/")
redirect_mode("redirect_to_metadata_in_ipv6", lambda _: "http://[::ffff:169.254.169.254]/latest/meta-data/")
redirect_mode("redirect_to_metadata_by_name", lambda _: "http://metadata.google.internal/computeMetadata/v1/")
redirect_mode("redirect_nowhere", lambda _: "http://[::1/")
redirect_mode("redirect_to_a_port_that_is_none", lambda _: "http://127.0.0.1:99999/metrics")
redirect_mode("redirect_to_a_name_that_is_none", lambda _: f"http://{'a' * 64}.{'-' * 70}\xe9/metrics")
redirect_mode("redirect_to_the_login", lambda _: "/html/metrics")


@mode
async def redirect_without_a_place(one: Answer) -> None:
    one.send("", status="302 Found")


# --- pages whose values cannot be used ------------------------------------------------------------------------------

body_mode("empty", lambda _: "")
body_mode("comments_only", lambda _: "# HELP a b\n# TYPE a gauge\n")
body_mode("no_log_stats", lambda _: f"process_start_time_seconds {START}\npython_info 1\n")
body_mode("no_running_line", lambda step: page(step).replace("num_requests_running", "num_requests_walking"))
body_mode("another_program", lambda _: "node_load1 0.5\nnode_load5 0.4\n")
for _name, _value in {
    "not_a_number": "NaN",
    "minus_nan": "-nan",
    "infinite": "+Inf",
    "negative": "-1",
    "beyond_a_double": "1e400",
    "hexadecimal": "0x10",
    "underscore": "1_000",
    "decimal_comma": "3,5",
    "half_a_request": "0.5",
    "too_many_requests": "1e15",
    "no_value": "",
    "other_digits": "\uff11\uff12",
}.items():
    body_mode(_name, lambda step, value=_value: page(step, (value,)))  # type: ignore[misc]
body_mode("twice", lambda step: page(step) + running_line("99"))
body_mode("twice_the_same", lambda step: page(step) + running_line(str(level(step))))
body_mode(
    "twice_in_another_order", lambda step: page(step) + 'vllm:num_requests_running{model_name="m",engine="0"} 99\n'
)
body_mode("one_engine_unreadable", lambda step: page(step) + running_line("three", engine="1"))
body_mode("two_lines_run_together", lambda step: page(step, (1, 2)).replace(" 1\nvllm:num", " 1vllm:num", 1))
body_mode("cut_in_the_gauge", lambda step: page(step)[: page(step).index("vllm:num_requests_waiting") - 6])


# --- servers that change ---------------------------------------------------------------------------------------------------

RESTART_AT = 6


def _since_restart(step: int) -> int:
    return step if step < RESTART_AT else step - RESTART_AT


body_mode("restarts", lambda step: page(_since_restart(step), start=START if step < RESTART_AT else START + 900))
body_mode("restarts_without_a_start", lambda step: page(_since_restart(step), start=None))
body_mode(
    "restarts_higher", lambda step: page(step if step < RESTART_AT else step + 5000, start=START + (step >= RESTART_AT))
)
body_mode("counter_wraps", lambda step: page(step, tokens=float(2**32 - 500 + 100 * step) % 2**32, start=None))
body_mode("model_swap", lambda step: page(step, model="a" if step < RESTART_AT else "b"))
body_mode(
    "kv_blocks_change",
    lambda step: page(step) + f'vllm:cache_config_info{{num_gpu_blocks="{512 if step < 30 else 256}"}} 1\n',
)
body_mode("engine_vanishes", lambda step: page(step, (level(step), 3) if step < RESTART_AT else (level(step),)))
body_mode("engine_blinks", lambda step: page(step, (level(step), 3) if step % 4 else (level(step),)))
body_mode("engine_joins", lambda step: page(step, (level(step), 3) if step >= RESTART_AT else (level(step),)))
body_mode("engines_in_turn", lambda step: page(step, (3,), engines=(str(step % 2),)))
body_mode("servers_in_turn", lambda step: page(step + 5000 * (step % 2), start=START + 700 * (step % 2)))
body_mode("frozen", lambda step: page(step) if step < RESTART_AT else page(step, (106,), tokens=12345.0, waiting=15))
body_mode("stands_still", lambda step: page(step, (1,), tokens=777.0, waiting=5))
body_mode("waits_while_nothing_runs", lambda step: page(step, (0,), tokens=777.0, waiting=5))


@mode
async def filtered(one: Answer) -> None:
    """As vLLM: asked for some names, it sends their samples alone."""
    asked = set(re.findall(r"name\[\]=([\w:]+)", one.path))
    lines = page(one.step).splitlines(keepends=True)
    kept = [line for line in lines if not asked or re.split(r"[{ ]", line)[0] in asked]
    one.send("".join(kept) if asked else "".join(lines) + 'vllm:other{x="1"} 1\n')


@mode
async def filter_answers_nothing(one: Answer) -> None:
    """The whole page is right; asked for some of its series, the server sends none."""
    one.send("" if "name[]=" in one.path else page(one.step))


@mode
async def filter_by_its_first_name_alone(one: Answer) -> None:
    """A proxy keeps one value of each key of a query: the gauge comes without the counters."""
    is_filtered = "name[]=" in one.path
    one.send(running_line(str(level(one.step))) if is_filtered else page(one.step))


@mode
async def filter_is_refused(one: Answer) -> None:
    if "name[]=" in one.path:
        one.send("bad request", status="400 Bad Request")
    else:
        one.send(page(one.step))


def ten_times_slower_page(step: int) -> str:
    """A minute at 0.01 s between tokens after a long life, then at 0.1 s."""
    outputs = 1_000_000 + 100 * step
    seconds = 10_000 + step * 1.0 + max(0, step - 60) * 9.0
    key = labels(engine="0", model_name="m")
    lines = [f"vllm:num_requests_running{key} 1", f"vllm:num_requests_waiting{key} 0"]
    lines += [f"vllm:generation_tokens_total{key} {outputs}"]
    lines += [f"vllm:inter_token_latency_seconds_count{key} {outputs}"]
    lines += [f"vllm:inter_token_latency_seconds_sum{key} {seconds}"]
    return "\n".join(lines) + "\n"


body_mode("ten_times_slower", ten_times_slower_page)


@mode
async def slow_then_well(one: Answer) -> None:
    """Never ends its first answers; from step 3 on it answers at once."""
    if one.step < 3:
        await silence(one)
    else:
        one.send(page(one.step))


# --- serving ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class BadServer:
    """A running server. `step`: its time; None lets a second be a step."""

    port: int = 0
    step: int | None = 0
    began: float = field(default_factory=time.monotonic)
    paths: list[str] = field(default_factory=list)

    def url(self, name: str, host: str = "127.0.0.1") -> str:
        """The base of a mode."""
        return f"http://{host}:{self.port}/{name}"

    def now(self) -> int:
        """The present step."""
        return int(time.monotonic() - self.began) if self.step is None else self.step


async def _connection(server: BadServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        while not writer.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode("latin-1")
            if server.step is not None:
                server.paths.append(path)
            answer = Answer(server.now(), path, server.port, writer)
            known = MODES.get(path.split("/")[1])
            is_page = "/metrics" in path
            if known is None or not is_page:
                answer.send("no such place\n", content_type="text/plain", status="404 Not Found")
            else:
                await known(answer)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def serving(host: str = "127.0.0.1", port: int = 0, *, step: int | None = 0) -> AsyncIterator[BadServer]:
    """The server on a port of its own."""
    server = BadServer(step=step)
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        try:
            await _connection(server, reader, writer)
        except asyncio.CancelledError:
            writer.close()

    listener = await asyncio.start_server(accept, host, port)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def main() -> None:
    """Serves every mode until it is ended."""
    async with serving(port=int(sys.argv[1]), step=None) as server:
        print(f"{server.url('MODE')}/metrics, with MODE of: {' '.join(MODES)}", flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
