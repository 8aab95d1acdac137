"""The protocol's messages as lines: read, written, and cut from a stream in any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.opus.words import (
    LONGEST_LINE,
    CheckinAck,
    Comm,
    ConfigAck,
    ConfigReq,
    LineBuffer,
    Malformed,
    encode,
    parse,
    parse_word,
)

from .transcript import transactions

IDS = st.from_regex(r"[!-+\--~]{1,128}", fullmatch=True)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
MESSAGES = st.one_of(
    st.builds(Comm, IDS, NUMBERS, NUMBERS),
    st.builds(CheckinAck, IDS, NUMBERS),
    st.builds(ConfigReq, IDS, NUMBERS, NUMBERS),
    st.builds(ConfigAck, IDS),
)


@given(MESSAGES)
def test_a_message_is_the_same_after_it_was_a_line(message):
    assert parse(encode(message).removesuffix(b"\n")) == message


def test_every_line_of_the_transcript_is_read_and_written_as_it_is():
    lines = {
        exchange.line
        for exchanges in transactions()
        for exchange in exchanges
        if not exchange.who[0].startswith("rail")
    }
    assert len(lines) > 60
    for line in lines:
        assert encode(parse(line.removesuffix(b"\n"))) == line


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"comm;a,2,0", "'comm' is no message of the protocol"),
        (b" COMM;a,2,0", "' COMM' is no message of the protocol"),
        (b"COMM;a,2", "COMM has 3 fields, not 2"),
        (b"COMM;a,2,0,1", "COMM has 3 fields, not 4"),
        (b"CONFIG_ACK;a,1", "CONFIG_ACK has 1 fields, not 2"),
        (b"COMM;,2,0", "'' is no identifier"),
        (b"COMM;" + b"a" * 129 + b",2,0", "is no identifier"),
        (b"COMM;a b,2,0", "'a b' is no identifier"),
        (b"COMM;a,x,0", "'x' is no number of 32 bits"),
        (b"COMM;a, 1x,0", "' 1x' is no number of 32 bits"),
        (b"COMM;a,2147483648,0", "'2147483648' is no number of 32 bits"),
        (b"\xff\x00", "is no message of the protocol"),
    ],
)
def test_what_is_malformed_is_refused_with_the_place(line, text):
    with pytest.raises(Malformed, match=text):
        parse(line)


@given(st.lists(st.binary(min_size=1).filter(lambda b: not {10, 13} & {*b})), st.data())
def test_lines_come_in_any_pieces(lines, data):
    ends = data.draw(st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=len(lines)))
    stream = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    buffer, found = LineBuffer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += buffer.feed(stream[:size])
        stream = stream[size:]
    assert found == lines


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_that_is_too_long_is_refused_whole_or_not(end):
    with pytest.raises(Malformed, match="a line has more than 4096 bytes"):
        list(LineBuffer().feed(b"a" * (LONGEST_LINE + 1) + end))


def test_a_word_may_have_blanks_around_it():
    assert parse_word(b" 3\n") == 3
    with pytest.raises(Malformed):
        parse_word(b"1\n2\n")
