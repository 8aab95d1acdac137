"""What is told while the wiring is checked, and whom it waits for: nobody, until nothing is lit."""

import threading

from testbed.cli.wiring import _Screen
from testbed.fabric.circuits import HostPort
from testbed.fabric.fibre_search import PortFinding
from testbed.record.log import EventLog


def test_a_terminal_shows_only_the_circuit_lit_at_present(tmp_path, capsys):
    log = EventLog(tmp_path / "events.jsonl")
    log.subscribe(_Screen(is_terminal=True).say_what_is_lit)
    log.append("phase", "open")
    log.append("fabric.change", "wiring", circuits=["h0.p0–h1.p0"])
    log.append("fabric.change", "wiring", circuits=[])
    log.append("fabric.change", "wiring", circuits=["h1.p0–h2.p0"])
    log.close()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "\r\x1b[Ktrying h0.p0–h1.p0\r\x1b[Ktrying h1.p0–h2.p0"


def test_a_pipe_gets_a_line_after_ten_seconds_without_a_finding(tmp_path, capsys, monkeypatch):
    times = {"a": 3.0, "b": 14.0, "c": 16.0, "d": 30.0}
    monkeypatch.setattr("testbed.cli.wiring.now", lambda: 0.0)
    screen, log = _Screen(is_terminal=False), EventLog(tmp_path / "events.jsonl")
    log.subscribe(screen.say_what_is_lit)
    for circuit, at in times.items():
        monkeypatch.setattr("testbed.cli.wiring.now", lambda at=at: at)
        log.append("fabric.change", "wiring", circuits=[circuit])
        if circuit == "c":
            screen.show(PortFinding(HostPort("h0", "p0"), "found", "as the lab file says"))
            screen.catch_up()
    log.close()
    assert capsys.readouterr().err == "trying b\ntrying d\n"


def test_a_finding_is_printed_although_its_reader_is_late(full_pipe, monkeypatch):
    reader, stream = full_pipe
    monkeypatch.setattr("sys.stdout", stream)
    screen = _Screen(is_terminal=False)
    screen.show(PortFinding(HostPort("h0", "p0"), "found", "as the lab file says"))
    end = threading.Thread(target=screen.catch_up)
    end.start()
    assert reader.readline().lstrip("-") == "ok   h0.p0: as the lab file says\n"
    end.join()
