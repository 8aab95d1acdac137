"""What is told while the wiring is checked, and whom it waits for: nobody, until nothing is lit."""

import threading

from testbed.cli.wiring import _Screen
from testbed.fabric.circuits import HostPort
from testbed.fabric.fibre_search import PortFinding
from testbed.record.log import EventLog


def test_only_the_circuit_lit_at_present_is_shown(tmp_path, capsys):
    log = EventLog(tmp_path / "events.jsonl")
    log.subscribe(_Screen().say_what_is_lit)
    log.append("phase", "open")
    log.append("fabric.change", "wiring", circuits=["h0.p0–h1.p0"])
    log.append("fabric.change", "wiring", circuits=[])
    log.append("fabric.change", "wiring", circuits=["h1.p0–h2.p0"])
    log.close()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "\r\x1b[Ktrying h0.p0–h1.p0\r\x1b[Ktrying h1.p0–h2.p0"


def test_a_finding_is_printed_although_its_reader_is_late(full_pipe, monkeypatch):
    reader, stream = full_pipe
    monkeypatch.setattr("sys.stdout", stream)
    screen = _Screen()
    screen.show(PortFinding(HostPort("h0", "p0"), "found", "as the lab file says"))
    end = threading.Thread(target=screen.catch_up)
    end.start()
    assert reader.readline().lstrip("-") == "ok   h0.p0: as the lab file says\n"
    end.join()
