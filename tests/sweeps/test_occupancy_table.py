from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.errors import ConfigError
from opmon.sweeps.occupancy_table import read_occupancy


@pytest.mark.parametrize(
    "text",
    [
        "level,seconds\n1,800\n2,120\n4,80\n",
        "\ufefflevel,seconds\r\n1,800\r\n2,120\r\n4,80\r\n",
        "# mine\nLevel;Seconds\n1;800\n2;120\n4;80",
        "seconds\tlevel\n800\t1\n120\t2\n\n80\t4\n",
    ],
)
def test_levels_and_seconds_are_read_as_milliseconds(text: str) -> None:
    assert {1: 800_000, 2: 120_000, 4: 80_000} == read_occupancy(text.encode(), "o.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("level,minutes\n1,2\n", "'seconds'"),
        ("1,800\n2,120\n", "'level'"),
        ("level,level,seconds\n1,1,2\n", "'level'"),
        ("level,seconds\n1.5,800\n", "row 2, field 'level'"),
        ("level,seconds\n1,800\n-1,5\n", "row 3, field 'level'"),
        ("level,seconds\n1,soon\n", "row 2, field 'seconds'"),
        ("level,seconds\n1,-5\n", "row 2, field 'seconds'"),
        ("level,seconds\n1\n", "1 fields, the header 2"),
        ("level,seconds\n1,5\n1,6\n", "given twice"),
        ("level,seconds\n1,0\n", "no time in it"),
        ("level,seconds\n", "no time in it"),
        ("level,seconds\n99999999,5\n", "more than any server"),
        ("level,seconds\n1e300,5\n", "more than any server"),
        ("level,seconds\n1,1e300\n", "row 2, field 'seconds'"),
        ('level,seconds\n1,"5\n', "cannot be read as CSV"),
        (f"level,seconds\n1,{'5' * 131_073}\n", "row 2: cannot be read as CSV"),
    ],
)
def test_a_fault_names_file_row_and_field(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_occupancy(text.encode(), "o.csv")

    assert str(caught.value).startswith("o.csv")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_words(data: bytes) -> None:
    words, milliseconds = "", 0
    try:
        milliseconds = sum(read_occupancy(data, "any").values())
    except ConfigError as error:
        words = str(error)

    assert bool(words) != (milliseconds > 0)


@given(st.lists(st.sampled_from(['"', ",", "\n", "1", "1e308", "1e300", "nan", "٤", "\x00", "-"]), max_size=30))
def test_any_awkward_values_are_read_or_refused_in_words(parts: list[str]) -> None:
    words, occupancy = "", {}
    try:
        occupancy = read_occupancy(("level,seconds\n" + "".join(parts)).encode(), "any")
    except ConfigError as error:
        words = str(error)
    assert bool(words) != (sum(occupancy.values()) > 0)
