"""Text of others, before it is on a terminal or a page."""

import json
import sys
import unicodedata

import pytest

from testbed.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("25 µs – “é” 试验台 😀 �", "25 µs – “é” 试验台 😀 �"),
        ("\x1b]0;owned\x07", r"\u001b]0;owned\u0007"),
        ("\x9b31m", r"\u009b31m"),
        ("a\r\nb\tc", r"a\u000d\u000ab\u0009c"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2028", r"\u2028"),
        ("lab\u200b", r"lab\u200b"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\udb40\udc41"),
    ],
)
def test_control_sequences_are_escaped(text, shown):
    assert printable(text) == shown


def test_no_control_character_of_any_category_is_left():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = set(map(unicodedata.category, printable(everything)))
    assert not left & {"Cc", "Cs", "Zl", "Zp"}
    assert set(printable(everything, kept="\n\t")) - set(printable(everything)) == set("\n\t")


def test_escaped_json_has_the_same_meaning():
    value = {"reason": "\x1b[2J\x9b\u202e\U000e0041 é"}
    assert json.loads(printable(json.dumps(value, ensure_ascii=False))) == value
