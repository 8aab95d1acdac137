"""What was said to a switch, said again to its twin."""

from pathlib import Path

import pytest

from testbed.bench.instrument_factory import make_instrument
from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.fabric.change import Change
from testbed.record.transcript import Transcript, TranscriptRow, read_transcript
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.instruments import lone_switch
from testbed.twin.replay import Divergence, replay_to_far_end
from testbed.twin.scheduler import SteppedScheduler, WallScheduler

RACK = Path(__file__).parents[3] / "configs" / "rack.yaml"
LINES = [
    "*IDN?",
    ":OXC:SWIT:CONN:ADD (@1),(@17);:SYST:ERR?",
    ":OXC:SWIT:CONN:ADD (@1),(@18);:SYST:ERR?",
    ":OXC:SWIT:CONN:STAT?",
    ":OXC:SWIT:CONN:SUB (@1),(@17);:SYST:ERR?",
    ":OXC:SWIT:CONN:STAT?",
]


@pytest.fixture
def lab():
    return load_lab(RACK, [])


@pytest.fixture
def transcript(lab, tmp_path):
    """Return a transcript of a conversation with the rack's switch."""
    path = tmp_path / "ocs.jsonl"
    write = Transcript(path, "ocs")
    conversation = lone_switch(lab, "ocs", SteppedScheduler()).session(
        lambda data: write("receive", data)
    )
    write("note", b"line opened")
    for line in LINES:
        data = line.encode() + b"\n"
        write("send", data)
        conversation.receive(data)
    write.close()
    return path


def test_a_transcript_of_a_twin_replays_without_differences(lab, transcript):
    agreement = replay_to_far_end(lab, "ocs", list(read_transcript(transcript)))
    assert agreement.whole
    assert sum(map(len, agreement.exchanges.values())) == len(LINES)
    assert list(agreement.lines())[-1] == "6 of 6 exchanges agree"


def test_the_first_exchange_that_differs_is_shown(lab, transcript):
    rows = list(read_transcript(transcript))
    answers = [n for n, row in enumerate(rows) if row.direction == "receive"]
    for index in answers[3:5]:
        said = rows[index]
        rows[index] = TranscriptRow(said.mono, said.instrument, said.direction, b"(@9),(@29)\n")
    agreement = replay_to_far_end(lab, "ocs", rows)
    assert not agreement.whole
    assert agreement.first.sent == ":OXC:SWIT:CONN:STAT?"
    assert (agreement.first.box, agreement.first.twin) == ("(@9),(@29)\n", "(@1),(@17)\n")
    assert "4 of 6 exchanges agree" in list(agreement.lines())


def test_the_first_difference_of_long_replies_is_shown():
    same = "the same words " * 40
    box, twin = Divergence("ALL?", f"{same}one{same}", f"{same}two{same}").where_they_part()
    assert ("one" in box, "two" in twin) == (True, True)
    assert len(box) == len(twin) < 200


LOGIN = "user: lab, password: {{file: {word}}}"
ROWS = {
    "calient": '"TCPIP::127.0.0.1::{port}::SOCKET", shape: 1x2x8, ' + LOGIN,
    "polatis-tl1": '"tcp://127.0.0.1:{port}", ' + LOGIN,
    "calient-rest": '"http://127.0.0.1:{port}", ' + LOGIN,
    "polatis-restconf": '"http://127.0.0.1:{port}", ' + LOGIN,
    "photonic-mesh": '"tcp://127.0.0.1:{port}", width: 16, height: 16',
    "dicon-mxs": '"tcp://127.0.0.1:{port}", size: [16, 16]',
}
"""The row of a switch in a lab file, after its driver."""


@pytest.mark.parametrize("driver", ROWS)
def test_a_replayed_driver_conversation_gets_the_same_replies(driver, tmp_path):
    word, path, file = tmp_path / "word", tmp_path / "ocs.jsonl", tmp_path / "lab.yaml"
    word.write_text("correct-horse")

    def lab_at(port):
        row = f"resource: {ROWS[driver].format(port=port, word=word)}, ports: [1-32]"
        switches = f"switches: {{ocs: {{driver: {driver}, {row}}}}}"
        # Mirrors move all the time, so that no answer depends on when it was given.
        file.write_text(f"lab: l\nhosts: {{h0: {{ssh: h}}}}\n{switches}\ntwin: {{settle: 30 s}}\n")
        return load_lab(file, [])

    clock, tracer = WallScheduler(), Transcript(path, "ocs")
    wire = serve_tcp(lone_switch(lab_at(1), "ocs", clock))
    lab = lab_at(wire.port)
    switch = make_instrument(lab, "ocs", tracer)
    switch.open(soon())
    switch.presume({})
    switch.apply(Change({}, {1: 18, 2: 17}), soon())
    switch.apply(Change({1: 18}, {}), soon())
    assert switch.state(soon()) == {2: 17}
    for one in (switch, tracer, wire, clock):
        one.close()
    assert "correct-horse" not in path.read_text()
    agreement = replay_to_far_end(lab, "ocs", list(read_transcript(path)))
    assert agreement.whole, list(agreement.lines())
    assert sum(map(len, agreement.exchanges.values())) >= 5


def soon():
    return Deadline.after(10)


def test_every_byte_is_replayed_from_a_transcript_unchanged(tmp_path):
    path = tmp_path / "box.jsonl"
    write = Transcript(path, "box")
    write("receive", bytes(range(256)))
    write.close()
    (row,) = read_transcript(path)
    assert row.data == bytes(range(256))


def test_an_impossible_far_end_is_reported_by_its_name(tmp_path):
    text = RACK.read_text()
    row = next(line for line in text.splitlines() if "driver: polatis" in line)
    mesh = '  ocs: {driver: photonic-mesh, resource: "tcp://192.0.2.10:5050", ports: [1-32]}'
    (tmp_path / "lab.yaml").write_text(text.replace(row, mesh))
    lab = load_lab(tmp_path / "lab.yaml", [])
    with pytest.raises(UsageError, match=r"ocs cannot be .*: this mesh uses 12 ports, not 32"):
        lone_switch(lab, "ocs", SteppedScheduler())
