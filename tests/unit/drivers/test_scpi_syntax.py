"""The words of SCPI that both ends share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed_drivers.dialects.scpi_syntax import (
    commands,
    error_reply,
    pattern,
    port_list,
    port_lists,
)


def headers(line):
    return [command.header for command in commands(line)]


def test_a_header_continues_the_path_of_the_previous_one():
    assert headers("OXC:SWIT:CONN:ADD (@1),(@2);STAT?") == [
        "OXC:SWIT:CONN:ADD",
        "OXC:SWIT:CONN:STAT?",
    ]


def test_a_leading_colon_starts_from_the_root():
    assert headers(":OXC:SWIT:CONN:STAT?;:SYST:ERR?") == ["OXC:SWIT:CONN:STAT?", "SYST:ERR?"]


def test_a_common_command_keeps_the_header_path():
    assert headers("OXC:SWIT:SIZE?;*CLS;PORT:STAT?")[-1] == "OXC:SWIT:PORT:STAT?"


def test_a_semicolon_in_quotes_joins_nothing():
    assert list(commands('A:B "x;y";C?')) == [("A:B", '"X;Y"'), ("A:C?", "")]


def test_empty_commands_are_skipped():
    assert headers(" ;; ") == []


@pytest.mark.parametrize(
    "spelling", ["oxc:switch:connect:add", "OXC:SWIT:CONN:ADD", "Oxc:Switch:CONN:Add"]
)
def test_long_and_short_forms_in_any_case_are_one_header(spelling):
    assert pattern("OXC:SWITch:CONNect:ADD").fullmatch(headers(spelling)[0])


@pytest.mark.parametrize("spelling", ["OXC:SWITC:CONN:ADD", "OXC:SWIT:CONN", "OXC:SWIT:CONN:ADD?"])
def test_other_spellings_of_a_header_do_not_match(spelling):
    assert not pattern("OXC:SWITch:CONNect:ADD").fullmatch(spelling)


@given(st.lists(st.lists(st.integers(0, 400)), min_size=1, max_size=3))
def test_port_lists_read_back_as_written(lists):
    assert port_lists(",".join(map(port_list, lists))) == [tuple(ports) for ports in lists]


@pytest.mark.parametrize(
    "text", ["", "(1)", "(@1", "(@1,)", "(@1:3)", "(@1),", "(@-1)", "(@1) (@2)"]
)
def test_invalid_port_lists_are_refused(text):
    with pytest.raises(ValueError, match="not a list of ports"):
        port_lists(text)


def test_an_error_report_has_a_number_and_words():
    assert error_reply('-221, "Settings conflict; port 1"') == (-221, "Settings conflict; port 1")
    assert error_reply('0,"No error"') == (0, "No error")
    assert error_reply("0, No error") == (0, "No error")
    assert error_reply("+112,Port failed") == (112, "Port failed")
    with pytest.raises(ValueError, match="not an error report"):
        error_reply("(@),(@)")
