from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opmon.cli.main import cli, exit_status
from opmon.errors import OpmonError
from opmon.sweeps.detect import example_sweep_bytes

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example sweep, an occupancy, and a database of its own that nobody has made yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPMON_DATABASE", str(tmp_path / "opmon.db"))
    (tmp_path / "example-drafters.csv").write_bytes(example_sweep_bytes())
    (tmp_path / "occupancy.csv").write_text("level,seconds\n1,800\n2,120\n4,80\n")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def recommend(*arguments: str) -> Result:
    return run("recommend", "--sweep", "example-drafters.csv", "--occupancy", "occupancy.csv", *arguments)


def body(*arguments: str) -> Any:
    found = recommend("--format", "json", *arguments)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def status(found: Result) -> int:
    """The exit status that the entry gives an error that opmon raised."""
    return exit_status(found.exception) if isinstance(found.exception, OpmonError) else found.exit_code


def test_code_says_switch_and_prose_and_no_content_say_undecided() -> None:
    found = [body(*said)["verdict"] for said in (("--content", "code"), ("--content", "prose"), ())]

    assert ["switch", "undecided", "undecided"] == found


def test_the_json_has_both_columns_knees_and_intervals() -> None:
    (code,) = body("--content", "code")["contents"]

    assert 1.0 == code["cell"]["concurrency"]
    assert "per_stream" == code["column"]
    assert [1.42, 0.91] == [round(code["columns"][name]["ratio_at_cell"], 2) for name in ("per_stream", "aggregate")]
    assert [1.10, 1.78] == [round(code["columns"]["per_stream"][end], 2) for end in ("low", "high")]
    assert [29.4, 6.29] == [float(f"{code['knee_requests'][side]['value']:.3g}") for side in ("reference", "candidate")]


def test_the_json_of_the_prompt_length_and_the_turn() -> None:
    said = ("--content", "prose", "--prompt-tokens", "8112", "--ttft", "6.084", "--decode", "10.003")
    answer = body(*said)
    (prose,) = answer["contents"]

    assert "undecided" == answer["verdict"]
    assert 7.9 == round(prose["mismatches"][0]["octaves"], 1)
    assert 1.07 == round(prose["whole_turn"]["speedup_ratio"], 2)
    assert any("unlikely to be felt" in reason for reason in prose["reasons"])


def test_the_json_has_the_fields_that_were_promised() -> None:
    answer = body()

    assert {
        "operating_point",
        "sweep",
        "reference",
        "candidate",
        "live_is",
        "verdict",
        "reasons",
        "combined",
        "contents",
        "unfair_pairs",
        "measure_next",
        "warnings",
        "inferred_content",
    } == set(answer)
    assert {"vllm bench serve", "guidellm"} == set(answer["measure_next"][0]["commands"])
    assert "example-drafters" == answer["sweep"]


@pytest.mark.parametrize("form", ["text", "md"])
def test_the_text_begins_with_the_verdict_and_shows_both_columns(form: str) -> None:
    found = recommend("--format", form, "--content", "code", "--live-is", "reference")

    assert found.exit_code == 0
    assert found.stdout.removeprefix("## ").startswith("switch")
    for words in ("1.42x", "0.91x", "1.10x to 1.78x", "59 %", "29.4", "2.58x", "1.07x", "vllm bench serve", "guidellm"):
        assert words in found.stdout


def test_markdown_escapes_names_that_come_from_a_file() -> None:
    text = example_sweep_bytes().decode().replace(",prose,", ",<b>[x](y)|z,")
    Path("example-drafters.csv").write_text(text)
    found = recommend("--format", "md", "--content", "<b>[x](y)|z")

    assert found.exit_code == 0
    assert "<b>" not in "".join(line for line in found.stdout.splitlines() if not line.startswith(("vllm", "guidellm")))


def test_a_sweep_file_and_an_occupancy_open_no_database(place: Path) -> None:
    assert recommend().exit_code == 0
    assert not (place / "opmon.db").exists()


def test_the_turn_needs_both_parts() -> None:
    assert 2 == status(recommend("--ttft", "6"))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("--reference", "nope"), "'fp8-mtp5', 'int8-dflash7'"),
        (("--content", "code=0.3"), "sum to 0.3"),
        (("--sweep", "nothing.csv"), "no such file"),
        (("--occupancy", "nothing.csv"), "cannot be read"),
        (("--occupancy", "example-drafters.csv"), "'level'"),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what_there_is(said: tuple[str, str], words: str) -> None:
    found = recommend(*said)

    assert 2 == status(found)
    assert words in str(found.exception)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--window", "1h"),
        ("--start", "2026-01-01T00:00:00Z"),
        ("--end", "1767225600"),
        ("--target", "one"),
        ("--model", "m"),
        ("--engine-index", "0"),
        ("--scope", "fleet"),
        ("--scope", "replica"),
        ("--fleet", "all"),
        ("--database", "other.db"),
        ("--measured", "after"),
    ],
)
def test_an_option_that_would_change_nothing_is_wrong_usage_and_named(place: Path, option: str, value: str) -> None:
    found = recommend("--content", "code", option, value)

    assert 2 == status(found)
    assert option in str(found.exception)
    assert not (place / "other.db").exists()


def test_with_a_stored_sweep_the_database_option_has_its_effect_and_the_window_none() -> None:
    assert run("sweeps", "import", "example-drafters.csv", "--database", "other.db").exit_code == 0
    said = ("recommend", "--sweep", "example-drafters", "--occupancy", "occupancy.csv", "--database", "other.db")
    windowed = run(*said, "--window", "1h")

    assert 0 == run(*said).exit_code
    assert 2 == status(windowed)
    assert "--window" in str(windowed.exception)


def test_measured_counts_with_times_beside_an_occupancy() -> None:
    said = ("--content", "code", "--ttft", "6.084", "--decode", "10.003", "--measured")
    turns = [body(*said, side)["contents"][0]["whole_turn"]["speedup_ratio"] for side in ("before", "after")]

    assert [1.22, 1.26] == [round(turn, 2) for turn in turns]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("--ttft", "1e308", "--decode", "1e308"), "the TTFT must be a number of seconds from 0 to 1000000"),
        (("--ttft", "nan", "--decode", "1"), "the TTFT must be"),
        (("--prompt-tokens", "1e308"), "prompt_tokens must be a number of tokens"),
        (("--ceiling", "99999999999999999999"), "the ceiling must be a number of requests from 1 to 1000000"),
    ],
)
def test_figures_beyond_their_limits_are_exit_2_and_named(said: tuple[str, ...], words: str) -> None:
    found = recommend("--content", "code", *said)

    assert 2 == status(found)
    assert words in str(found.exception)


def test_a_file_with_one_configuration_is_told_that_a_second_is_needed() -> None:
    Path("example-drafters.csv").write_text("config,content,concurrency,aggregate_tok_s\na,x,1,1\n")
    found = recommend()

    assert 2 == status(found)
    assert "measure a second configuration" in str(found.exception)


@pytest.mark.parametrize("form", ["text", "md"])
def test_what_is_missing_stands_right_below_the_facts(form: str) -> None:
    shown = " ".join(recommend("--format", form, "--content", "prose", "--prompt-tokens", "8112").stdout.split())
    missing = (
        "undecided for prose: the prompt is 8,112 tokens and the cells have 33; measure concurrency 1 at your length"
    )

    assert 0 < shown.index(missing) < shown.index("per-stream speed: between")


def test_a_mix_whose_parts_are_not_all_measured_shows_an_interval_and_no_middle() -> None:
    shown = recommend("--content", "code=0.3,prose=0.7", "--live-is", "reference").stdout

    assert "All contents together (per_stream): not known for all of them, interval 0.83x to 1.28x" in shown


def test_three_configurations_and_none_named_is_exit_2_listing_them() -> None:
    Path("example-drafters.csv").write_text("config,content,concurrency,aggregate_tok_s\na,x,1,1\nb,x,1,1\nc,x,1,1\n")
    found = recommend()

    assert 2 == status(found)
    assert "'a', 'b', 'c'" in str(found.exception)


def test_a_stored_name_without_a_database_is_exit_2_with_a_remedy() -> None:
    found = run("recommend", "--sweep", "example-drafters", "--occupancy", "occupancy.csv")

    assert 2 == status(found)
    assert "opmon.db" in str(found.exception)


def test_a_stored_sweep_gives_the_same_answer_as_its_file() -> None:
    assert run("sweeps", "import", "example-drafters.csv").exit_code == 0
    stored = run("recommend", "--sweep", "example-drafters", "--occupancy", "occupancy.csv", "--format", "json")

    assert body() == json.loads(stored.stdout)


def test_a_database_without_observations_is_no_data_and_not_a_verdict() -> None:
    run("sweeps", "import", "example-drafters.csv")
    found = [
        json.loads(run("recommend", "--sweep", sweep, "--format", "json").stdout)["verdict"]
        for sweep in ("example-drafters", "example-drafters.csv")
    ]

    assert ["no_data", "no_data"] == found


# --- sweeps -------------------------------------------------------------------------------------------------------


def test_the_same_file_again_changes_nothing() -> None:
    first, second = (run("sweeps", "import", "example-drafters.csv") for _ in range(2))

    assert "16 cells" in first.stdout
    assert "nothing changed" in second.stdout
    assert 16 == len(json.loads(run("sweeps", "show", "example-drafters", "--format", "json").stdout)["cells"])


def test_files_are_read_before_the_first_is_kept() -> None:
    Path("broken.csv").write_text("config,content,concurrency,aggregate_tok_s\nold,code,1,fast\n")
    found = run("sweeps", "import", "example-drafters.csv", "broken.csv")

    assert 2 == status(found)
    assert "broken.csv, row 2" in str(found.exception)
    assert not Path("opmon.db").exists()


def test_two_files_make_one_sweep_and_configurations_may_be_said() -> None:
    for name in ("old", "new"):
        Path(f"{name}.csv").write_text(f"concurrency,aggregate_tok_s\n1,{len(name)}\n# {name}\n")
        said = ("--sweep", "both", "--config", name, "--content", "code")
        assert run("sweeps", "import", f"{name}.csv", *said).exit_code == 0
    shown = json.loads(run("sweeps", "show", "both", "--format", "json").stdout)

    assert ["old", "new"] == shown["configurations"]
    assert 2 == len(shown["imports"])


def test_sweeps_are_listed_shown_and_deleted() -> None:
    run("sweeps", "import", "example-drafters.csv")
    listed, shown = run("sweeps", "list"), run("sweeps", "show", "example-drafters", "--format", "md")
    deleted = run("sweeps", "delete", "example-drafters")

    assert "fp8-mtp5, int8-dflash7" in listed.stdout
    assert "| fp8-mtp5 | code | 1 | 33 | - | 122.6 | 137.4 | - |" in shown.stdout
    assert deleted.exit_code == 0
    assert [] == json.loads(run("sweeps", "list", "--format", "json").stdout)


@pytest.mark.parametrize("command", ["show", "delete"])
def test_a_sweep_that_is_not_there_is_exit_2(command: str) -> None:
    run("sweeps", "import", "example-drafters.csv")

    assert 2 == status(run("sweeps", command, "nothing"))


# --- turn ---------------------------------------------------------------------------------------------------------


def test_the_turn_calculator_has_the_fields_that_were_promised() -> None:
    found = run("turn", "--ttft", "6.084", "--decode", "10.003", "--speedup", "2.58", "--format", "json")
    answer = json.loads(found.stdout)

    assert {
        "speedup_ratio",
        "measured",
        "ttft_ratio",
        "turn_before_seconds",
        "turn_after_seconds",
        "ttft_share_ratio",
    } == set(answer)
    assert 1.982 == round(answer["speedup_ratio"], 3)


def test_the_turn_calculator_says_what_will_not_be_felt() -> None:
    found = run("turn", "--ttft", "6.084", "--decode", "10.003", "--speedup", "1.11", "--measured", "before")

    assert "1.07x" in found.stdout
    assert "unlikely to be felt" in found.stdout


@pytest.mark.parametrize("said", [("--speedup", "0"), ("--speedup", "x"), ("--measured", "later", "--speedup", "2")])
def test_a_turn_that_cannot_be_is_exit_2(said: tuple[str, ...]) -> None:
    assert 2 == status(run("turn", "--ttft", "1", "--decode", "1", *said))


def test_the_calculator_starts_without_the_database_library() -> None:
    code = "import sys; from opmon.cli.main import main; sys.argv = sys.argv[1:]; main()"
    probe = f"{code.replace('main()', '')}\ntry:\n    main()\nfinally:\n    print('sqlalchemy' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", probe, "opmon", "turn", "--ttft", "1", "--decode", "1", "--speedup", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "False" in found.stdout


def test_a_refused_pair_without_a_concurrency_is_null_in_json_and_not_known_in_text() -> None:
    head = "configuration,content,concurrency,prompt_tokens,aggregate_tok_s"
    Path("unlimited.csv").write_text(f"{head}\nold,code,,33,100\nnew,code,,8112,150\n")
    said = ("recommend", "--sweep", "unlimited.csv", "--occupancy", "occupancy.csv")

    (pair,) = json.loads(run(*said, "--format", "json").stdout)["unfair_pairs"]
    assert (None, ["prompt_tokens"]) == (pair["cell"]["concurrency"], pair["fields"])
    assert "concurrency not known, code" in run(*said).stdout
