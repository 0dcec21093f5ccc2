"""`opmon claim` and `opmon saving` in a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opmon.cli.main import cli, exit_status
from opmon.errors import OpmonError
from opmon.sweeps.detect import example_sweep_bytes

pytestmark = pytest.mark.usefixtures("place")
SAVING = ("saving", "--bytes", "2.7GB", "--bandwidth", "1674GB/s", "--step-time", "17.6ms")
MEASURED = ("--speed", "185.5", "--speed-after", "193.3", "--acceptance", "3.273", "--acceptance-after", "3.296")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example sweep and an occupancy, and no database anywhere."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPMON_DATABASE", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "drafters.csv").write_bytes(example_sweep_bytes())
    (tmp_path / "occupancy.csv").write_text("level,seconds\n1,800\n2,120\n4,80\n")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def claim(*arguments: str, speedup: str = "2.58x") -> Result:
    return run("claim", "--sweep", "drafters.csv", "--speedup", speedup, *arguments)


def refusal(found: Result) -> str:
    """What is told of wrong usage, which ends with status 2."""
    assert isinstance(found.exception, OpmonError), found.output
    assert 2 == exit_status(found.exception)
    return str(found.exception)


def test_the_text_names_the_cell_the_axes_and_what_holds_instead() -> None:
    found = claim("--occupancy", "occupancy.csv", "--live-content", "code", "--live-prompt-tokens", "40")
    words = " ".join(found.output.split())

    assert 0 == found.exit_code, found.output
    assert words.startswith(
        "2.58x is aggregate throughput, code at concurrency 8, 33 prompt tokens: int8-dflash7 708.4"
    )
    assert "concurrency 8 1 3.0 differs" in words
    assert "prompt length 33 40 0.3 output length - - - not known column aggregate per_stream - differs" in words
    assert "code 100 % 1.42x 1.10x to 1.78x 59 % - per_stream, switch" in words


def test_the_markdown_is_a_paragraph_and_tables() -> None:
    found = claim("--occupancy", "occupancy.csv", "--format", "md", speedup="1.07")
    lines = found.output.splitlines()

    assert lines[0].startswith("1.07x is aggregate throughput, code at concurrency 64")
    assert "| concurrency | 64 | 1 | 6.0 | differs |" in lines
    assert "- 1.04x: aggregate throughput, prose at concurrency 8, 33 prompt tokens" in lines


def test_without_any_database_a_claim_is_located_in_a_file() -> None:
    found = claim("--format", "json")
    answer = json.loads(found.output)

    assert ("exact", 8, None) == (answer["found"], answer["places"][0]["concurrency"], answer["operating_point"])


@pytest.mark.parametrize("said", [("--target", "gpu-1"), ("--window", "1h"), ("--database", "none.db")])
def test_whoever_names_a_live_point_is_told_that_there_is_none(said: tuple[str, str]) -> None:
    assert "there is no database at" in refusal(claim(*said))


def test_a_stored_sweep_is_asked_for_by_its_name() -> None:
    assert 0 == run("sweeps", "import", "drafters.csv").exit_code
    found = run("claim", "--sweep", "drafters", "--speedup", "708.4/289", "--occupancy", "occupancy.csv")

    assert found.output.startswith("2.45 = 708.4 / 289 is no fair comparison: different content (code / prose).")


def test_what_has_no_effect_beside_an_occupancy_is_refused() -> None:
    assert "--window chooses observations" in refusal(claim("--occupancy", "occupancy.csv", "--window", "1h"))


def test_a_bare_percentage_is_refused_with_both_meanings() -> None:
    assert "'158%' can be 1.58 or 2.58 times as fast" in refusal(claim(speedup="158%"))


def test_the_saving_is_told_with_what_was_realised() -> None:
    bound, made_of, measured = run(*SAVING, *MEASURED).output.splitlines()

    assert "At most 1.613 ms of a step of 17.6 ms saved: at most 1.109x (205.6 tok/s)." == bound
    assert made_of.startswith("1.613 ms to read 2.7 GB at 1674 GB/s; an upper bound: all of it is taken as realised;")
    assert measured.startswith("Measured: 1.042x = steps 1.035x (17.64 to 17.05 ms a step) x acceptance 1.007x;")
    assert measured.endswith("0.59 ms a step saved, 37 % of the 1.613 ms claimed.")


def test_a_step_that_got_longer_is_no_saving() -> None:
    shown = run(*SAVING, "--speed", "185.5", "--speed-after", "180").output

    assert shown.rstrip().endswith("0.54 ms a step lost: nothing of the saving arrived.")


def test_the_json_of_a_saving_has_what_was_promised() -> None:
    answer = json.loads(run(*SAVING, "--format", "json").output)

    assert {"saved_seconds", "speedup_bound_ratio", "kind", "detail"} <= set(answer)
    assert (0.001613, 1.1009) == (round(answer["saved_seconds"], 6), round(answer["speedup_bound_ratio"], 4))
    assert ("bandwidth", None) == (answer["kind"], answer["measured"])


def test_memory_set_free_where_the_weights_fit_is_worth_nothing() -> None:
    shown = run(*SAVING, "--kind", "capacity", "--fits", "yes").output

    assert shown.startswith("At most 0.000 ms of a step of 17.6 ms saved: at most 1.000x.")
    assert "No bound." == run(*SAVING, "--kind", "capacity", "--format", "md").output.splitlines()[0].strip("*")


def test_a_quantity_without_its_unit_is_refused_by_the_name_of_its_option() -> None:
    found = run("saving", "--bytes", "2.7", "--bandwidth", "1133GB/s", "--step-time", "17.6ms")

    assert "--bytes ('2.7'; with its unit it is written like 2.7GB)" in refusal(found)


@pytest.mark.parametrize("command", ["claim", "saving"])
def test_the_help_ends_with_an_example(command: str) -> None:
    assert f"Example:\n    opmon {command} --" in run(command, "--help").output
