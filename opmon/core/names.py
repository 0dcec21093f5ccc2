"""Which names a person or a file may give, and how text that others wrote is shown.

One rule for every reader: what is stored as a name can be printed, compared and put into an address. Contains no
raising: each reader has an error of its own, which says where the name stands.
"""

from __future__ import annotations

import unicodedata

MOST_CHARACTERS = 200
SHOWN_CHARACTERS = 60
# Controls, format characters (which may turn the direction of a line), lone surrogates, line and paragraph separators.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def name_fault(name: str) -> str:
    """What is wrong with a name that has been trimmed, in words; empty where nothing is."""
    if not name:
        return "a name has at least one character"
    if len(name) > MOST_CHARACTERS:
        return f"{quoted(name)} has {len(name):,} characters; a name has at most {MOST_CHARACTERS}"
    if name != name.strip():
        return f"{quoted(name)} begins or ends with a space"
    bad = next((letter for letter in name if not letter.isprintable()), None)
    if bad is not None:
        return f"{quoted(name)} contains {bad!a}, which cannot be printed"
    return ""


def sweep_name_fault(name: str) -> str:
    """The same for a sweep's name, which is a part of an address too."""
    if fault := name_fault(name):
        return fault
    if "/" in name or name in (".", ".."):
        return f"{quoted(name)} cannot stand in an address: a sweep's name has no '/' and is neither '.' nor '..'"
    return ""


def escaped(text: str, keep: str = "") -> str:
    r"""The text with everything that could steer a terminal or break a line written as an escape (`\x1b`), except
    the characters in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter in keep or unicodedata.category(letter) not in _UNSHOWN
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def quoted(text: str) -> str:
    """The text in quotes for a message: escaped, and cut where it is long."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "...")
