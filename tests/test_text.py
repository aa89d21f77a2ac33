"""Text as it may be shown: nothing is lost of it, and nothing in it acts."""

import pytest

from evogt_study.text import escape_text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain words, ε = 0.1 – ½", "plain words, ε = 0.1 – ½"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("\u202eevil\u2066\u200f", r"\u202eevil\u2066\u200f"),
        ("\u2028\u2029\ufeff\x7f\x00", r"\u2028\u2029\ufeff\x7f\x00"),
        ("\udc80", r"\udc80"),
    ],
)
def test_control_characters_are_escaped(text, seen):
    assert escape_text(text) == seen


def test_some_characters_may_stay():
    assert escape_text("a\nb\x1b", kept="\n") == "a\nb\\x1b"
