"""Folders and several files on the command line: imported as a whole or not at all, and compared in one command."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opmon.cli.benchmark_files import _Progress, document_of
from opmon.cli.main import cli, exit_status
from opmon.errors import OpmonError
from opmon.store import Store
from opmon.store.database import Database
from opmon.sweeps.detect import read_document
from tests.detailed import summary, write_detailed

DATA = Path(__file__).parent / "data" / "benchmarks"
MOST_MEMORY_BYTES = 300_000_000
LARGE_BYTES = int(os.environ.get("OPMON_TEST_LARGE_MB", "48")) * 1_000_000
"""A large file is anything above 32 MiB, which is read as a stream; OPMON_TEST_LARGE_MB=200 for one of 200 MB."""

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an occupancy, and a database of its own that nobody has made yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPMON_DATABASE", str(tmp_path / "opmon.db"))
    (tmp_path / "occupancy.csv").write_text("level,seconds\n8,800\n")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def status(found: Result) -> int:
    return exit_status(found.exception) if isinstance(found.exception, OpmonError) else found.exit_code


def bench(name: str, factor: float = 1.0, **other: Any) -> None:
    """A result of `vllm bench serve` at concurrency 8; `factor` is how much faster it is than the plain one."""
    told = summary(400)
    for key in ("duration", "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "median_itl_ms"):
        told[key] /= factor
    for key in ("request_throughput", "output_throughput", "total_token_throughput"):
        told[key] *= factor
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps({**told, **other}))


def recommend(*arguments: str) -> Any:
    found = run("recommend", "--occupancy", "occupancy.csv", "--live-is", "reference", "--format", "json", *arguments)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def stored(name: str) -> Any:
    return json.loads(run("sweeps", "show", name, "--format", "json").stdout)


# --- importing ----------------------------------------------------------------------------------------------------


def test_a_folder_is_one_sweep_called_as_it_is_and_each_run_counts_once() -> None:
    folder = DATA / "vllm" / "sweep"
    found = run("sweeps", "import", str(folder))

    assert found.exit_code == 0, found.output
    assert "sweep: 2 cells from 2 files (vllm); configurations max_num_seqs=8\n" == found.stdout
    assert 2 == found.stderr.count("and count once")
    assert 2 == len(stored("sweep")["cells"])


def test_what_holds_no_cell_is_passed_over_and_told_in_one_line() -> None:
    found = run("sweeps", "import", str(DATA / "genai-bench"), str(DATA / "inference-perf"))

    assert ["genai-bench: 1 cells", "inference-perf: 1 cells"] == [
        line.partition(" from ")[0] for line in found.stdout.splitlines()
    ]
    told = [line for line in found.stderr.splitlines() if "passed over" in line]
    assert 2 == len(told)
    assert "experiment_metadata.json" in told[0]
    assert "inference-perf.partial.stage_1.yaml" in told[1]


def test_a_table_of_something_else_does_not_keep_a_folder_out() -> None:
    bench("results/plain.json")
    Path("results/levels.csv").write_text("concurrency,seconds\n1,60\n")
    found = run("sweeps", "import", "results")

    assert "results: 1 cells from plain.json (vllm)" in found.stdout
    assert "passed over: levels.csv" in found.stderr
    assert "no speed" in str(run("sweeps", "import", "results/levels.csv").exception)


def test_files_that_name_nothing_but_the_model_are_called_as_their_folder() -> None:
    bench("plain/c8.json")
    bench("spec/c8.json", 1.5)
    first = run("sweeps", "import", "--sweep", "s", "plain/c8.json")
    second = run("sweeps", "import", "--sweep", "s", "spec")

    assert "configurations plain" in first.stdout
    assert "the configuration 'plain' is guessed from the folder's name" in first.stderr
    assert "configurations spec" in second.stdout
    assert ["plain", "spec"] == stored("s")["configurations"]


def test_a_file_named_without_a_folder_is_called_as_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bench("spec/c8.json")
    monkeypatch.chdir("spec")

    assert "configurations spec" in run("sweeps", "import", "--sweep", "s", "c8.json").stdout
    assert "configurations spec" in run("sweeps", "import", "--sweep", "t", ".").stdout


def test_two_models_in_one_folder_are_called_as_the_models() -> None:
    bench("results/both/c8.json", model_id="a/first")
    bench("results/both/c16.json", 1.5, model_id="a/second")
    found = run("sweeps", "import", "results/both")

    assert "configurations second, first" in found.stdout
    assert "the configuration 'first' is guessed from the model's name" in found.stderr


def test_the_same_file_with_another_config_is_refused_with_the_remedy() -> None:
    bench("c8.json")
    run("sweeps", "import", "--sweep", "s", "--config", "one", "c8.json")
    found = run("sweeps", "import", "--sweep", "s", "--config", "two", "c8.json")

    assert 2 == status(found)
    assert "already, as one" in str(found.exception)
    assert "delete the sweep" in str(found.exception)
    assert ["one"] == stored("s")["configurations"]
    assert "was in it already" in run("sweeps", "import", "--sweep", "s", "c8.json").stdout


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("c9.json", b"", "is empty"),
        ("c9.jsonl", b" \n", "is empty"),
        ("c9.json", bytes(4096), "nothing but NUL bytes"),
        ("c9.json.gz", b"", "is empty"),
        ("c9.json", b"\0\0\0\0}", "this is no JSON"),
        ("c9.json", b'_throughput": 1}', "this is no JSON"),
    ],
)
def test_a_damaged_result_in_a_folder_stops_the_import(name: str, data: bytes, words: str) -> None:
    bench("results/c8.json")
    (Path("results") / name).write_bytes(data)
    found = run("sweeps", "import", "results")

    assert words in str(found.exception)
    assert name in str(found.exception)
    assert not Path("opmon.db").exists()


def test_what_is_not_called_as_a_result_is_passed_over_though_it_is_empty() -> None:
    bench("results/c8.json")
    for name in ("server.txt", "README.md", "config.yaml", "levels.csv"):
        (Path("results") / name).write_bytes(b"")
    (Path("results") / "word.json").write_text('"word"')

    assert 0 == run("sweeps", "import", "results").exit_code


def test_a_folder_again_changes_nothing() -> None:
    first = run("sweeps", "import", str(DATA / "vllm" / "sweep"))
    before = stored("sweep")
    again = run("sweeps", "import", str(DATA / "vllm" / "sweep"))

    assert first.exit_code == again.exit_code == 0
    assert "sweep: all 2 files were in it already, nothing changed\n" == again.stdout
    assert before == stored("sweep")


def test_a_run_that_the_sweep_holds_already_counts_once_whichever_file_tells_it() -> None:
    folder = DATA / "vllm" / "sweep"
    said = ("--sweep", "s")
    first = run("sweeps", "import", str(folder / "SERVE--max_num_seqs=8-BENCH--low/run=0.json"), *said)
    second = run("sweeps", "import", str(folder / "SERVE--max_num_seqs=8-BENCH--low/summary.json"), *said)
    third = run("sweeps", "import", str(folder / "summary.csv"), *said)

    assert "s: 1 cells from run=0.json (vllm); configurations max_num_seqs=8\n" == first.stdout
    assert "summary.json: 1 of its runs are in the sweep already" in second.stderr
    assert "s: its runs are in it already, nothing changed\n" == third.stdout
    assert 2 == len(stored("s")["cells"])


def test_a_fault_in_one_file_keeps_all_of_them_out() -> None:
    bench("results/plain.json")
    Path("results/torn.json").write_text(json.dumps(summary(400))[:300])
    found = run("sweeps", "import", "results")

    assert 2 == status(found)
    assert "torn.json" in str(found.exception)
    assert not Path("opmon.db").exists()


def test_files_by_name_are_sweeps_by_their_stems_and_side_files_among_them_are_passed_over() -> None:
    bench("plain.json")
    Path("spec.json.gz").write_bytes(gzip.compress(json.dumps({**summary(300), "label": "spec"}).encode()))
    side = str(DATA / "inference-perf" / "summary_lifecycle_metrics.json")
    found = run("sweeps", "import", "plain.json", "spec.json.gz", side)

    assert ["plain: 1 cells from plain.json", "spec: 1 cells from spec.json.gz"] == [
        line.partition(" (")[0] for line in found.stdout.splitlines()
    ]
    assert "passed over: summary_lifecycle_metrics.json" in found.stderr
    alone = run("sweeps", "import", side)
    assert 2 == status(alone)
    assert "summary of all stages" in str(alone.exception)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ((), "no such file or folder"),
        (("empty/",), "no file in it that holds a result"),
        (("empty/.hidden/plain.json", "empty/notes.txt"), "no file in it that holds a result"),
    ],
    ids=["absent", "empty", "hidden"],
)
def test_a_folder_without_a_result_is_refused(made: tuple[str, ...], words: str) -> None:
    for name in made:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            Path(name).mkdir(exist_ok=True)
        elif name.endswith(".json"):
            bench(name)
        else:
            Path(name).write_text("")
    found = run("sweeps", "import", "empty")

    assert 2 == status(found)
    assert words.removeprefix("no such file or folder") in str(found.exception)
    assert 2 == status(run("recommend", "--sweep", "./empty", "--occupancy", "occupancy.csv"))


def test_a_folder_with_too_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmon.cli.benchmark_files.MOST_FILES", 3)
    for number in range(4):
        bench(f"many/{number}.json")

    assert "more than 3 files" in str(run("sweeps", "import", "many").exception)


def test_a_pipe_is_read_once() -> None:
    os.mkfifo("pipe.json")
    text = json.dumps({**summary(400), "label": "plain"})
    writer = threading.Thread(target=lambda: Path("pipe.json").write_text(text))
    writer.start()
    found = run("sweeps", "import", "pipe.json")
    writer.join(timeout=10)

    assert "pipe: 1 cells from pipe.json (vllm); configurations plain\n" == found.stdout


def test_several_files_are_in_or_none_is(tmp_path: Path) -> None:
    bench("plain.json")
    good = read_document(document_of(tmp_path / "plain.json", "plain.json"))
    bad = type(good)("bad.json", "ff" * 32, "vllm", 1, 1, (object(),))  # type: ignore[arg-type]
    with Database.open(str(tmp_path / "s.db"), read_only=False, create=True) as database:
        store = Store(database)
        with pytest.raises(Exception, match=r"object|attribute"):
            store.import_sweeps([("a", good), ("b", bad)], 1)
        assert [] == store.sweeps()
        assert [True, True, False] == store.import_sweeps([("a", good), ("b", good), ("a", good)], 1)
        assert ["a", "b"] == [sweep.name for sweep in store.sweeps()]


# --- comparing ----------------------------------------------------------------------------------------------------


def test_reference_and_candidate_in_a_file_each_are_compared_in_one_command() -> None:
    bench("plain.json")
    bench("spec.json", 1.3)
    answer = recommend("--sweep", "plain.json", "--sweep", "spec.json")

    assert ("plain", "spec", "plain + spec", "switch") == (
        answer["reference"],
        answer["candidate"],
        answer["sweep"],
        answer["verdict"],
    )
    assert 1.3 == pytest.approx(answer["contents"][0]["columns"]["aggregate"]["ratio_at_cell"])
    assumed = next(one["detail"] for one in answer["warnings"] if one["code"] == "assumed_equal")
    assert "hardware" in assumed
    assert not Path("opmon.db").exists()


def test_the_order_of_the_files_says_which_is_the_reference() -> None:
    bench("plain.json")
    bench("spec.json", 1.3)

    assert "stay" == recommend("--sweep", "spec.json", "--sweep", "plain.json")["verdict"]


def test_a_folder_gives_the_same_answer_as_its_files_and_as_what_was_imported() -> None:
    bench("both/plain.json")
    bench("both/spec.json", 1.3)
    run("sweeps", "import", "both", "--sweep", "stored-both")
    answers = [
        recommend(*said)
        for said in (
            ("--sweep", "both"),
            ("--sweep", "both/plain.json", "--sweep", "both/spec.json"),
            ("--sweep", "stored-both"),
        )
    ]

    for answer in answers:
        del answer["sweep"]
    assert answers[0] == answers[1] == answers[2]


def test_a_stored_sweep_and_a_file_are_compared() -> None:
    bench("plain.json")
    bench("spec.json", 1.3)
    run("sweeps", "import", "plain.json", "--sweep", "kept")

    assert "switch" == recommend("--sweep", "kept", "--sweep", "spec.json")["verdict"]


def test_files_that_were_added_by_two_commands_are_compared() -> None:
    bench("plain/c8.json")
    bench("spec/c8.json", 1.3)
    for name in ("plain", "spec"):
        found = run("sweeps", "import", name, "--sweep", "both", "--config", name)
        assert found.exit_code == 0, found.output

    assert "switch" == recommend("--sweep", "both")["verdict"]


def test_files_that_were_added_on_other_days_are_refused_with_the_remedy(tmp_path: Path) -> None:
    bench("plain.json")
    bench("spec.json", 1.3)
    with Database.open(str(tmp_path / "opmon.db"), read_only=False, create=True) as database:
        for day, name in enumerate(("plain.json", "spec.json")):
            read = read_document(document_of(tmp_path / name, name))
            Store(database).import_sweep("apart", read, 2 * day * 86_400_000)
    answer = recommend("--sweep", "apart")

    assert ("not_comparable", ["content", "hardware"]) == (answer["verdict"], answer["unfair_pairs"][0]["fields"])
    assert "added to the sweep within a day" in answer["contents"][0]["reasons"][0]


def test_what_one_file_states_and_the_other_does_not_stays_unfair() -> None:
    Path("a.csv").write_text("config,concurrency,aggregate_tok_s,hardware\nold,8,100,one\n")
    Path("b.csv").write_text("config,concurrency,aggregate_tok_s\nnew,8,150\n")
    answer = recommend("--sweep", "a.csv", "--sweep", "b.csv")

    assert ("not_comparable", ["hardware"]) == (answer["verdict"], answer["unfair_pairs"][0]["fields"])


def test_files_that_call_their_configuration_the_same_are_told_apart_by_their_names() -> None:
    bench("monday.json", label="server")
    bench("friday.json", 1.3, label="server")
    found = run("recommend", "--sweep", "monday.json", "--sweep", "friday.json", "--occupancy", "occupancy.csv")

    assert "friday (candidate) / monday (reference)" in found.stdout
    assert "all call their configuration 'server'" in found.stderr


def test_a_table_whose_columns_cannot_both_be_right_carries_no_verdict() -> None:
    Path("a.csv").write_text(
        "config,content,concurrency,aggregate_tok_s,per_stream_tok_s\nold,x,8,100,100\nnew,x,8,150,100\n"
    )
    answer = recommend("--sweep", "a.csv")

    assert "undecided" == answer["verdict"]
    assert "columns_impossible" in [one["code"] for one in answer["warnings"]]


@pytest.mark.parametrize("name", ["nothing.json", "some/folder", "notes.md"])
def test_a_path_to_nothing_is_exit_2(name: str) -> None:
    found = run("recommend", "--sweep", name, "--occupancy", "occupancy.csv")

    assert 2 == status(found)
    assert "no such file or folder" in str(found.exception)


# --- large files --------------------------------------------------------------------------------------------------


def test_a_large_detailed_file_is_imported_in_little_memory(tmp_path: Path) -> None:
    requests = write_detailed(tmp_path / "large.json", LARGE_BYTES)
    code = (
        "from pathlib import Path\n"
        "from opmon.cli.main import cli\n"
        "cli.main(['sweeps', 'import', 'large.json'], standalone_mode=False)\n"
        # The peak of this program alone: getrusage would count what the tests' own process held before it became this.
        "print(1024 * int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=110)
    words, peak = done.stdout.splitlines()

    assert "large: 1 cells from large.json (vllm); configurations large" == words
    assert int(peak) < MOST_MEMORY_BYTES
    (cell,) = stored("large")["cells"]
    assert 8 == cell["concurrency"]
    assert 100 == pytest.approx(cell["per_stream_tokens_per_second"])
    assert requests > LARGE_BYTES / 15_000


def test_an_import_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    bench("plain.json")
    write_detailed(tmp_path / "large.json", 40_000_000)
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import opmon.sweeps.streaming as streaming\n"
        "real = streaming.ijson.basic_parse\n"
        "def slow(*a, **k):\n"
        "    print('reading', flush=True)\n"
        "    yield from real(*a, **k)\n"
        "streaming.ijson.basic_parse = slow\n"
        "from opmon.cli.main import main\n"
        "sys.argv = ['opmon', 'sweeps', 'import', 'plain.json', 'large.json', '--sweep', 's']\n"
        "main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"reading\n" == process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert 130 == process.wait(timeout=30)

    assert not Path("opmon.db").exists()


def test_a_terminal_is_told_how_far_the_reading_is(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = _Progress(Path("large.json"), 100_000_000)
    for done in (1_000_000, 40_000_000, 80_000_000, 100_000_000):
        progress.tell(done)

    told = capsys.readouterr().err.replace("\x1b[K", "").split("\r")
    assert ["", "large.json: 40 of 100 MB read", "large.json: 80 of 100 MB read", ""] == told


def test_nothing_but_a_terminal_is_told_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    progress = _Progress(Path("large.json"), 100_000_000)
    progress.tell(90_000_000)

    assert "" == capsys.readouterr().err
