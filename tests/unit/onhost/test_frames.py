from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.errors import ProtocolError
from testbed.onhost.frames import LARGEST, LENGTH_BYTES, Decoder, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
messages = st.dictionaries(st.text(), json_values, max_size=4)


@given(st.lists(messages, max_size=4), st.integers(1, 7))
def test_messages_are_decoded_from_a_stream_in_any_pieces(sent, size):
    stream = b"".join(encode(message) for message in sent)
    decoder = Decoder()
    received = []
    for start in range(0, len(stream), size):
        received += decoder.feed(stream[start : start + size])
    assert received == sent
    assert decoder.missing == LENGTH_BYTES


def test_a_frame_consists_of_its_length_and_utf8_text():
    assert encode({"a": "µ"}) == b"\x00\x00\x00\x0a" + '{"a":"µ"}'.encode()


def test_the_decoder_reports_how_many_bytes_an_incomplete_frame_lacks():
    decoder, frame = Decoder(), encode({"a": 1})
    for start in range(len(frame)):
        assert decoder.missing == (LENGTH_BYTES if start < LENGTH_BYTES else len(frame)) - start
        messages = decoder.feed(frame[start : start + 1])
    assert messages == [{"a": 1}]


def test_a_frame_with_too_large_a_length_is_refused_before_its_content_arrives():
    with pytest.raises(ProtocolError, match="announces"):
        Decoder().feed((LARGEST + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe"])
def test_frame_that_is_not_a_json_object_is_refused(body):
    with pytest.raises(ProtocolError, match="no JSON"):
        Decoder().feed(len(body).to_bytes(4, "big") + body)
