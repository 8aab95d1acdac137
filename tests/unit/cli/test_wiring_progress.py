"""What a terminal shows while the wiring is checked: which circuit is being tried."""

from testbed.cli.wiring import _say_what_is_lit
from testbed.record.log import EventLog


def test_only_a_circuit_that_was_lit_is_shown_and_the_next_one_replaces_it(tmp_path, capsys):
    log = EventLog(tmp_path / "events.jsonl")
    log.subscribe(_say_what_is_lit)
    log.append("phase", "open")
    log.append("fabric.change", "wiring", circuits=["h0.p0–h1.p0"])
    log.append("fabric.change", "wiring", circuits=[])
    log.append("fabric.change", "wiring", circuits=["h1.p0–h2.p0"])
    log.close()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "\r\x1b[Ktrying h0.p0–h1.p0\r\x1b[Ktrying h1.p0–h2.p0"
