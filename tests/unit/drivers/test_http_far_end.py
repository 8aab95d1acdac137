"""HTTP/1.1 as a far end reads it: any pieces, several requests, and what it refuses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.sites import never
from testbed.clock import now
from testbed_drivers.dialects.armed_faults import ArmedFaults
from testbed_drivers.dialects.client_connection import ClientConnection
from testbed_drivers.dialects.http_far_end import Answer, HttpSession, RequestReader

GET = b"GET /redfish/v1 HTTP/1.1\r\nHost: pdu\r\nAccept: */*\r\n\r\n"
POST = b'POST /a HTTP/1.1\r\nContent-Length: 9\r\nHost: pdu\r\n\r\n{"a": 12}'


@given(st.lists(st.sampled_from([GET, POST]), max_size=4), st.data())
def test_requests_are_parsed_from_any_pieces(requests, data):
    stream = b"".join(requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = RequestReader()
    read = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        read += reader.feed(stream[start:end])
    assert [(r.method, r.path, r.body) for r in read] == [
        ("GET", "/redfish/v1", b"") if r is GET else ("POST", "/a", b'{"a": 12}') for r in requests
    ]


def test_header_names_are_read_in_any_case():
    (request,) = RequestReader().feed(b"GET / HTTP/1.1\r\nAUTHORIZATION: Basic eA==\r\n\r\n")
    assert request.headers["authorization"] == "Basic eA=="


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
    ],
)
def test_an_invalid_request_is_refused_and_the_next_one_served(stream, status):
    said = []
    session = HttpSession(lambda request: Answer(200, {"path": request.path}), wire(said))
    session.receive(stream)
    session.receive(GET)
    assert said[0].split()[1] == status
    assert json.loads(said[1].partition(b"\r\n\r\n")[2]) == {"path": "/redfish/v1"}


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (Answer(204), b"HTTP/1.1 204 No Content\r\n\r\n"),
        (Answer(304), b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        (Answer(200), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            Answer(200, b"<p>"),
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/html\r\n\r\n<p>",
        ),
        (
            Answer(200, {}, {"ETag": '"1"'}),
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/json\r\n"
            b'ETag: "1"\r\n\r\n{}',
        ),
    ],
)
def test_a_response_states_its_length_unless_it_has_no_body(answer, sent):
    said = []
    HttpSession(lambda request: answer, wire(said), "text/json").receive(GET)
    assert said == [sent]


def test_a_target_is_a_path_and_a_query():
    (request,) = RequestReader().feed(
        b"GET /rest/a%20b/?id=list&conn=1.1.1%3E2.1.1&x= HTTP/1.1\r\n\r\n"
    )
    assert request.path == "/rest/a b"
    assert request.query == {"id": "list", "conn": "1.1.1>2.1.1", "x": ""}


def wire(said):
    """Return a client's way back without faults, written into a list."""
    return ClientConnection(said.append, never, b"", ArmedFaults({}, 0), WallClock(), 0)


class WallClock:
    def now(self):
        return now()
