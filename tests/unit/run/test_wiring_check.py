"""The check of the wiring: what it lights on a real line to a switch, takes down and says."""

import threading
from concurrent.futures import Future

import pytest

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.bench.link import Answer
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.errors import BusyError, Garbled, HostError, LabError, UnsafeError
from testbed.record.journal import Journal, open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.inbox import Interrupted
from testbed.run.run_leases import RunLeases
from testbed.run.wiring_check import FRAMES, WiringCheck, run_wiring_check
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

COUNT = 4
HOST = """\
  h{n}:
    ssh: 192.0.2.{n}
    ports:
      p0: {{interface: eth1, address: 10.0.0.{tx}/24, tx: ocs.{tx}, rx: ocs.{rx}}}
"""


class Rack:
    """Four hosts of one port each on a switch; they hear what its mirrors bring them.

    `fibres` are where they really are: the switch's ports that each host sends into and hears from.
    """

    def __init__(self, directory):
        self._scheduler = WallScheduler()
        sides = frozenset(range(1, COUNT + 1)), frozenset(range(COUNT + 1, 2 * COUNT + 1))
        site = SwitchSite(*sides, "S1", 0.001, 1, self._scheduler, lambda lit: None)
        self.far_end = PolatisFarEnd(site)
        self._wire = serve_tcp(self.far_end)
        self.fibres = {f"h{n}": (n + 1, n + 1 + COUNT) for n in range(COUNT)}
        text = "lab: small\nhosts:\n"
        for n, (tx, rx) in enumerate(self.fibres.values()):
            text += HOST.format(n=n, tx=tx, rx=rx)
        resource = f'"TCPIP::127.0.0.1::{self._wire.port}::SOCKET"'
        text += f"switches:\n  ocs: {{driver: polatis, resource: {resource}, ports: [1-8]}}\n"
        (directory / "lab.yaml").write_text(text)
        self.lab = load_lab(directory / "lab.yaml")
        self.run = RunDirectory.create(directory / "results", "wiring")
        self.log = EventLog(self.run.events)
        self.leases = Leases(FileStore(directory / "leases.sqlite"))
        self.journal = self.bench = None
        self.told = []
        self.asked = []
        """Host, and the light at the moment, of every question."""
        self.before_answering = lambda: None

    def open(self):
        self.journal = Journal(self.run.journal)
        self.bench = Bench(self.lab, self.run, self.journal, self.log, lambda *report: None)
        self.lease = self.leases.take(needs(self.lab, self.lab.hosts), "wiring", self.run)
        self.bench.guard.hold(self.lease)
        self.bench.open_instruments(["ocs"], soon())
        self.bench.hosts.update({name: Voice(name, self) for name in self.lab.hosts})
        return WiringCheck(self.bench, self.journal, self.log, self.told.append)

    def run_leases(self, inbox):
        return RunLeases(self.leases, self.run, "wiring", self.log, inbox)

    def light(self):
        return dict(self.bench.switches["ocs"].state(soon()))

    def hears(self, host):
        """Return who receives what a host sends."""
        egress = self.light().get(self.fibres[host][0])
        return next((name for name, (_, rx) in self.fibres.items() if rx == egress), None)

    def events(self, kind):
        return [event for event in read_events(self.run.events) if event.kind == kind]

    def close(self):
        if self.bench:
            self.bench.close_instruments()
            self.lease.release()
            self.journal.close()
        self._wire.close()
        self._scheduler.close()
        self.log.close()


class Voice:
    """A host's agent, as far as it asks over its port who is at the other end."""

    def __init__(self, name, rack):
        self.name = name
        self.identity_ports = {"p0": 4000}
        self.lost = 0
        self._rack = rack

    def ask_identity(self, port, peer, peer_port, *, limit, first, count):
        self._rack.asked.append((self.name, self._rack.light()))
        self._rack.before_answering()
        there = self._rack.hears(self.name) == peer.name
        good = there and self._rack.hears(peer.name) == self.name
        asked = 1 if first else count
        value = {"good": good, "asked": asked, "answered": asked - self.lost * (not first)}
        future = Future()
        future.set_result(Answer(value, 0.0, 0.0))
        return future


def soon():
    return Deadline.after(10)


@pytest.fixture
def rack(tmp_path):
    rack = Rack(tmp_path)
    yield rack
    rack.close()


def states(findings):
    return {str(finding.port): finding.state for finding in findings}


def test_one_circuit_at_a_time_is_made_and_none_is_left(rack):
    found = rack.open().run()
    assert states(found) == {f"h{n}.p0": "found" for n in range(COUNT)}
    assert found == rack.told
    for host, light in rack.asked:
        assert len(light) == 2
        assert rack.fibres[host][0] in light
    assert rack.light() == {}
    assert open_entries(rack.run.journal) == []


def test_each_finding_of_the_wiring_check_is_logged(rack):
    found = rack.open().run()
    recorded = [(e.subject, e.data["state"], e.data["text"]) for e in rack.events("wiring.port")]
    assert recorded == [(str(f.port), f.state, f.text) for f in found]


def test_swapped_fibres_are_named_by_the_wiring_check(rack):
    rack.fibres["h0"], rack.fibres["h1"] = rack.fibres["h1"], rack.fibres["h0"]
    found = rack.open().run()
    assert states(found) == {
        "h0.p0": "swapped",
        "h1.p0": "swapped",
        "h2.p0": "found",
        "h3.p0": "found",
    }
    assert rack.light() == {}


def test_lost_frames_are_reported_as_a_share_of_those_sent(rack):
    check = rack.open()
    rack.bench.hosts["h3"].lost = FRAMES // 8
    found = {str(finding.port): finding for finding in check.run()}
    assert (found["h3.p0"].state, found["h3.p0"].lost) == ("lossy", 0.125)
    assert (found["h2.p0"].state, found["h2.p0"].lost) == ("found", 0.0)


def test_a_port_that_the_switch_does_not_move_is_reported_dark_with_the_reason(rack):
    check = rack.open()
    rack.far_end.fault("stuck", port=4)
    found = check.run()
    assert states(found)["h3.p0"] == "dark"
    assert any("stuck" in event.data["text"] for event in rack.events("note"))
    assert rack.light() == {}


def test_a_garbled_reply_is_retried_and_gives_no_finding_about_a_fibre(rack):
    check = rack.open()
    rack.far_end.fault("stuck", port=1, count=1)
    rack.far_end.fault("garbled", command="ADD", count=1)
    found = check.run()
    assert states(found) == {f"h{n}.p0": "found" for n in range(COUNT)}
    assert ("h0", {1: 6, 2: 5}) in rack.asked
    assert any("tried once more" in event.data["text"] for event in rack.events("note"))


def test_a_switch_whose_answers_stay_garbled_ends_the_check(rack):
    check = rack.open()
    rack.far_end.fault("stuck", port=1)
    rack.far_end.fault("garbled", command="ADD")
    with pytest.raises(Garbled, match=r"ocs: .* rolled back"):
        check.run()
    assert rack.light() == {}


def test_a_foreign_circuit_on_a_port_ends_the_check_and_is_kept(rack):
    check = rack.open()
    rack.far_end.execute(":OXC:SWIT:CONN:ADD (@3),(@8)")
    with pytest.raises(BusyError, match="3→8"):
        check.run()
    assert rack.light() == {3: 8}
    assert open_entries(rack.run.journal) == []


def test_a_lost_agent_ends_the_check_and_its_circuits_are_removed(rack):
    def lose():
        raise HostError("h1", "its agent's link ended")

    check = rack.open()
    rack.before_answering = lose
    with pytest.raises(HostError, match="h1: its agent's link ended"):
        check.run()
    assert rack.light() == {}


# --- ended from outside


@pytest.fixture
def under_way(rack, inbox):
    """Return a check that waits for an answer over its first circuit, and what lets it go on."""
    check, lit, go_on = rack.open(), threading.Event(), threading.Event()

    def wait():
        lit.set()
        go_on.wait(30)

    rack.before_answering = wait
    running = inbox.submit(check.run)
    assert lit.wait(10)
    yield check, running, go_on
    go_on.set()
    running.exception(10)  # it would open the switch again after the rack is closed


def test_an_interrupted_check_removes_its_circuits_and_makes_no_more(rack, under_way):
    check, running, go_on = under_way
    assert len(rack.light()) == 2
    threading.Timer(0.05, go_on.set).start()
    check.end(running, soon())
    assert rack.light() == {}
    with pytest.raises(LabError, match="ended before all was tried"):
        running.result(0)
    assert rack.told == []


def test_a_check_that_does_not_end_is_reported_unsafe(under_way):
    check, running, _ = under_way
    with pytest.raises(
        UnsafeError, match="the last circuit of the check of the wiring was not removed"
    ):
        check.end(running, Deadline.after(0.02))


def test_a_check_ended_by_a_signal_reports_circuits_that_stay(rack, under_way):
    check, running, go_on = under_way
    rack.far_end.fault("stuck")
    go_on.set()
    with pytest.raises(UnsafeError, match="ocs could not be brought back"):
        check.end(running, soon())
    assert open_entries(rack.run.journal) != []


# --- as a whole


def test_unreachable_hosts_end_the_check_with_a_record_and_nothing_left(rack, inbox, tmp_path):
    lab = (tmp_path / "lab.yaml").read_text().replace("ssh: 192.0.2.", "ssh: 127.0.0.1:1")
    (tmp_path / "lab.yaml").write_text(lab)
    with pytest.raises(HostError):
        run_wiring_check(
            load_lab(tmp_path / "lab.yaml"),
            rack.run,
            rack.log,
            inbox,
            rack.run_leases(inbox),
            rack.told.append,
        )
    (end,) = rack.events("run.end")
    assert (end.data["exit_code"], end.data["cleanup"], end.data["left"]) == (4, "verified", [])


def test_a_signal_ends_the_check_with_the_exit_code_of_the_signal(rack, inbox):
    inbox.interrupt(2)
    with pytest.raises(Interrupted, match="ended by SIGINT"):
        run_wiring_check(
            rack.lab, rack.run, rack.log, inbox, rack.run_leases(inbox), rack.told.append
        )
    (end,) = rack.events("run.end")
    assert (end.data["exit_code"], end.data["cleanup"]) == (130, "verified")
