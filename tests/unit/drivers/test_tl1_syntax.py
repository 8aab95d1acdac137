"""TL1 as both ends read it; and replies paired with their requests, whatever comes between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.clock import Deadline
from testbed.errors import LinkLost, NoReply
from testbed_drivers.dialects.tl1_commands import Command, command, command_end, unlisted
from testbed_drivers.dialects.tl1_line import Tl1Line
from testbed_drivers.dialects.tl1_syntax import (
    Acknowledgement,
    Alarm,
    Reply,
    Request,
    keyed,
    listed,
    message,
    message_end,
)
from testbed_drivers.transports.base import BufferedTransport

HEADER = "\r\n\n   OCS-A 26-11-21 08:30:01\r\n"


def spoken(words, rows=(), end=";"):
    """Return a device's message, written here once more so that the far end is no witness."""
    lines = "".join(f'   "{row}"\r\n' for row in rows)
    return f"{HEADER}{words}\r\n{lines}{end}".encode()


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"\r\n\n   A 26-11-21 08:30:00\r\nM  1 COMPLD\r\n", 0),
        (b'"1.1.1>2.1.1;<"', 0),
        (b'"1.1.1>2.1.1";"', 14),
        (b'"a\\";" >', 8),
        (b"IP 5\r\n<more", 7),
        (b"/* a; b>\r\n */ ;", 15),
        (b"/* never closed ; ", 0),
        (b"1/2;", 4),
        (b'"its closing quote was lost\r\n;', 30),
    ],
)
def test_a_message_ends_outside_of_strings_and_comments(data, count):
    assert message_end(data) == count


def test_a_long_incomplete_message_is_scanned_in_linear_time():
    assert message_end(b'   "1.1.1>2.1.1:SRCPORT=1/1 x"\r\n' * 5000) == 0
    assert message_end(b"abcdefghij " * 20_000) == 0


def test_a_refusal_has_a_code_and_comments():
    data = f"{HEADER}M  3 DENY\r\n   IEAE\r\n   /* Invalid\r\n Connection */\r\n;".encode()
    before, reply = message(data)
    assert (before, reply.code, reply.words) == ("", "IEAE", "DENY IEAE Invalid Connection")


def test_text_before_the_header_is_returned_separately():
    before, alarm = message(b"*** hello ***\r\n" + spoken("*C 7 REPT ALM", ["x"]))
    assert (before, alarm) == ("*** hello ***", Alarm("*C", '7 REPT ALM "x"'))


def test_autonomous_messages_may_hold_non_ascii_bytes():
    hot = "\r\n\n   SÄAL 26-11-21 08:30:01\r\n** 7 REPT ALM\r\n   45 °C – hot\r\n;".encode()
    before, alarm = message("Grüezi\r\n".encode("latin-1") + hot)
    assert before == "Gr\\xfcezi"
    assert alarm == Alarm("**", r"7 REPT ALM 45 \xc2\xb0C \xe2\x80\x93 hot")
    with pytest.raises(ValueError, match="is not ASCII"):
        message(spoken("M  1 COMPLD", ["45 °C"]))


def test_empty_names_are_parsed():
    data = spoken("M  1 COMPLD").replace(b"OCS-A", b"( nil )")
    assert message(data)[1] == Reply("1", "COMPLD")


@pytest.mark.parametrize(
    "data",
    [
        b"hello;",
        b"IP <",
        b"\xc9P 5<",
        spoken("Q  1 COMPLD"),
        spoken("M  1 COMPLD").replace(b"M  1", b"\r\nM  1"),
        spoken("M  1 COMPLD", ["a"], end="") + spoken("M  2 COMPLD"),
        spoken("M  1 COMPLD", ["a"], end="\x1a") + spoken("A  2 REPT EVT"),
        spoken("M  1 COMPLD", ["a\x00b"]),
    ],
)
def test_an_invalid_or_double_reply_is_refused(data):
    with pytest.raises(ValueError):
        message(data)


def test_rows_are_the_quoted_lines_and_nothing_else():
    assert message(spoken("M  1 COMPLD", ['a \\"b\\"', "c"]))[1].rows == ('a "b"', "c")
    with pytest.raises(ValueError, match="'d' is not a quoted line"):
        _ = Reply("1", "COMPLD", ('"c"', "d")).rows


@given(
    st.builds(
        Request,
        st.sampled_from(["RTRV-CRS", "ENT-PATCH", "INH-MSG-ALL"]),
        st.text("1234.,&>-", max_size=8),
        st.lists(st.text("ABC=,.>", max_size=6), max_size=3).map(tuple),
    ),
    st.integers(1, 999_999),
)
def test_a_command_written_by_the_host_is_parsed_by_the_device(request, tag):
    data = request.text(str(tag)).encode()
    assert command_end(data + b"RTRV-NE;") == len(data)
    received = command(b"\r\n" + data)
    assert received == Command(request.verb, "", request.aid, str(tag), request.blocks)


def test_trailing_parameters_of_a_command_may_be_left_out():
    assert command(b"rtrv-ne;") == Command("RTRV-NE")
    assert command(b'ENT-X:OCS:"a:b;c":5;').aid == '"a:b;c"'


@given(st.lists(st.integers(0, 99_999), min_size=1, max_size=5))
def test_a_list_of_ports_reads_as_it_was_written(ports):
    assert unlisted(listed(ports)) == ports


def test_a_range_of_ports_is_written_out():
    assert unlisted("1&4&&6&9") == [1, 4, 5, 6, 9]


@pytest.mark.parametrize("text", ["", "1&", "&1", "1&&&2", "1,2", "ALL", "1234567"])
def test_an_invalid_list_of_ports_is_refused(text):
    with pytest.raises(ValueError, match="not a list of ports"):
        unlisted(text)


def test_a_value_extends_to_the_next_key():
    assert keyed("ALIAS=,CONNNAME1=a, b,AS=IS") == {"ALIAS": "", "CONNNAME1": "a, b", "AS": "IS"}


class Pieces(BufferedTransport):
    """A transport whose bytes come in given pieces; then the other side has hung up."""

    def __init__(self, pieces):
        super().__init__("ocs")
        self._pieces = [piece for piece in pieces if piece]

    def _send(self, data, deadline):
        """Discard what is sent."""

    def quiet(self):
        return not self._unread and not self._pieces

    def close(self):
        """There is nothing to close."""

    def _receive_some(self, deadline):
        if deadline.passed:
            raise self._no_reply()
        if not self._pieces:
            raise LinkLost("ocs", "hung up")
        return self._pieces.pop(0)


def cut(data, stream):
    """Return a stream of bytes in pieces that hypothesis chooses."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


words = st.text('abc;<>"\\/*M 1,=', max_size=12)


@st.composite
def replies(draw, tag):
    """Return the blocks of one reply and the rows that it brings, acknowledged perhaps."""
    blocks = draw(st.lists(st.lists(words, max_size=3), min_size=1, max_size=3))
    rows = [row for block in blocks for row in block]
    messages = [
        spoken(
            f"M  {tag} COMPLD",
            [row.replace("\\", "\\\\").replace('"', '\\"') for row in block],
            end=";" if number == len(blocks) else ">",
        )
        for number, block in enumerate(blocks, 1)
    ]
    acknowledged = draw(st.sampled_from([[], [f"\r\nIP {tag}\r\n<".encode()]]))
    return acknowledged + messages, tuple(rows)


noise = st.sampled_from(
    [
        spoken("A  57 REPT EVT EQPT", ["1.1.1>2.1.1:LOS;TC<"]),
        spoken("*C 58 REPT ALM", ["x"], end=">") + spoken("*C 58 REPT ALM", ["y"]),
        spoken("M  900 COMPLD", ["an answer to a client that gave up"]),
        spoken("M  900 COMPLD", ["the first block of it"], end=">"),
        b"\r\nIP 901\r\n<",
        b"*** maintenance at 22:00 ***\r\n" + spoken("** 59 REPT EVT"),
    ]
)


@given(st.data())
def test_every_reply_is_matched_to_its_request_among_alarms_in_any_pieces(data):
    tags = [str(number) for number in range(1, data.draw(st.integers(1, 4)) + 1)]
    expected = {}
    queues = []
    for tag in tags:
        messages, expected[tag] = data.draw(replies(tag))
        queues.append(messages)
    queues.append(data.draw(st.lists(noise, max_size=6)))
    stream = b""
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        stream += queue.pop(0)
    heard = []
    line = Tl1Line(Pieces(cut(data, stream)), lambda way, what: heard.append((way, what)))
    awaited, got = set(tags), {}
    while awaited:
        reply = line.reply(awaited, Deadline.after(5), 5)
        awaited.remove(reply.ctag)
        got[reply.ctag] = reply.rows
    assert got == expected
    assert b"".join(what for way, what in heard if way == "receive") == stream[: _read(heard)]


def _read(heard):
    return sum(len(what) for way, what in heard if way == "receive")


@given(st.data())
def test_a_connection_with_alarms_only_counts_as_idle_in_any_pieces(data):
    alarms = data.draw(st.lists(noise.filter(lambda what: b"REPT" in what), max_size=4))
    left = data.draw(st.sampled_from([b"", spoken("M  3 COMPLD"), b"\r\n\n   OCS-A 26-"]))
    line = Tl1Line(Pieces(cut(data, b"".join(alarms) + left)), lambda way, what: None)
    assert line.quiet() is (left == b"")


def test_waiting_ends_when_no_part_of_the_reply_came_in_time():
    line = Tl1Line(Pieces([spoken("A  1 REPT EVT")] * 3), lambda way, what: None)
    with pytest.raises(NoReply):
        line.reply({"1"}, Deadline.after(5), -1.0)


def test_a_negative_acknowledgement_is_the_reply():
    line = Tl1Line(Pieces([b"\r\nOK 1\r\n<\r\nRL 1\r\n<"]), lambda way, what: None)
    assert line.reply({"1"}, Deadline.after(5), 5) == Reply("1", "RL")
    assert message(b"\r\nRL 1\r\n<")[1] == Acknowledgement("RL", "1")


@pytest.mark.parametrize(
    "begun",
    [
        b'   "a/*b*/c" /*c*/ x\r\n' * 5_000,
        b"/*" * 50_000,
        b'"\\"' * 20_000,
        b"/* * ** */" * 10_000,
    ],
)
def test_an_endless_message_is_abandoned(begun):
    """In every other way to read its strings and comments it would take hours."""
    assert message_end(begun) == 0
    assert message_end(begun + b'"\r\n;') in (0, len(begun) + 4)
    assert command_end(b'a"b"' * 20_000) == 0
