"""Several elements or modules behind one controller: one line for all, one lease for each."""

import pytest

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import part_of, whole_of
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.errors import BusyError, FileError, InstrumentError
from testbed.fabric.change import Change
from testbed.record.journal import Journal
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.selectors import MziOptions, SantecOptions
from testbed_drivers.switches.mzi_far_end import MziFarEnd
from testbed_drivers.switches.santec_far_end import SantecFarEnd
from testbed_drivers.switches.switch import sides

HOST = "h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: {tx}, rx: {rx}}}}}}}"
LAB = """\
lab: elements
hosts:
  {host}
switches:
  one: {{driver: {driver}, resource: "tcp://127.0.0.1:{port}", {which}: 1, ports: [1-4]{more}}}
  two: {{driver: {driver2}, resource: "tcp://127.0.0.1:{port}", {which}: {second}, ports: [1-4]}}
"""
KINDS = {
    # Name of the option, options, far end, sizes, where it is at first, and a move from there.
    "mzi": ("element", MziOptions, MziFarEnd, (2, 2), {1: 3, 2: 4}, {1: 4, 2: 3}),
    "santec": ("module", SantecOptions, SantecFarEnd, (1, 3), {1: 2}, {1: 3}),
}


def file_of(directory, driver, port, *, second=2, driver2="", more=""):
    host = HOST.format(tx="one.1", rx="two.3")
    words = {"driver": driver, "driver2": driver2 or driver, "which": KINDS[driver][0]}
    text = LAB.format(host=host, port=port, second=second, more=more, **words)
    (directory / "lab.yaml").write_text(text)
    return directory / "lab.yaml"


class Frame:
    """A controller with two elements, and a bench on which both are open."""

    def __init__(self, directory, driver):
        self.which, options, far_end, self.size, self.first, self.other = KINDS[driver]
        self._scheduler = WallScheduler()
        self.ends = {}
        self.lines = 0
        for name, number in (("one", 1), ("two", 2)):
            parts = sides(*self.size)
            site = SwitchSite(*parts, "M1", 0.001, 1, self._scheduler, lambda lit: None)
            self.ends[name] = far_end(site, options(**{self.which: number}))
        self.ends["one"].join(self.ends["two"])
        self._wire = serve_tcp(self)
        self.lab = load_lab(file_of(directory, driver, self._wire.port))
        self.leases = Leases(FileStore(directory / "leases.sqlite"))
        self.run = RunDirectory.create(directory / "results", "frame")
        self._record = Journal(self.run.journal), EventLog(self.run.events)
        self.bench = Bench(self.lab, self.run, *self._record, lambda *report: None)

    def session(self, *given, **named):
        """Count the lines that are opened to the controller."""
        self.lines += 1
        return self.ends["one"].session(*given, **named)

    def hold(self, *names):
        wanted = frozenset().union(*(whole_of(self.lab, name) for name in names))
        self.lease = self.leases.take(wanted, "ours", self.run)
        self.bench.guard.hold(self.lease)
        self.bench.open_instruments(names, soon())
        self.bench.guard.lease_reported_identities()

    def move(self, name, begin, end):
        removes, adds = (dict(a.items() - b.items()) for a, b in ((begin, end), (end, begin)))
        return self.bench.switches[name].apply(Change(removes, adds), soon())

    def states(self):
        return [dict(self.bench.switches[name].state(soon())) for name in ("one", "two")]

    def close(self):
        self.bench.close_instruments()
        self.lease.release()
        for part in (self._wire, self._scheduler, *self._record):
            part.close()


@pytest.fixture(params=KINDS)
def frame(request, tmp_path):
    frame = Frame(tmp_path, request.param)
    yield frame
    frame.close()


def test_switch_elements_of_one_controller_move_separately_over_one_connection(frame):
    frame.hold("one", "two")
    assert frame.states() == [frame.first, frame.first]
    frame.move("two", frame.first, frame.other)
    assert frame.states() == [frame.first, frame.other]
    frame.move("one", frame.first, frame.other)
    frame.move("two", frame.other, frame.first)
    assert frame.states() == [frame.other, frame.first]
    assert frame.lines == 1


def test_the_error_of_a_refusal_names_the_element_and_its_neighbour_stays_usable(frame):
    frame.hold("one", "two")
    frame.ends["two"].fault("error")
    with pytest.raises(InstrumentError, match=r"^two: refused"):
        frame.move("two", frame.first, frame.other)
    frame.move("one", frame.first, frame.other)
    frame.ends["two"].clear()
    assert frame.states() == [frame.other, frame.first]


def test_each_element_has_its_own_lease_also_by_serial_number(frame):
    frame.hold("one")
    theirs = frame.leases.take(part_of(frame.lab, "two", "1"), "theirs")
    answered = frame.bench.guard.answered
    answered.instrument("two", frame.bench.switches["one"].identify(soon()))
    theirs.widen(answered.resources(theirs.resources))
    frame.bench.guard.check("one", [1, 3])
    for name, owner in (("one", "ours"), ("two", "theirs")):
        with pytest.raises(BusyError, match=rf"{name}: held by .*: {owner}"):
            frame.leases.take(whole_of(frame.lab, name), "third")
    with pytest.raises(BusyError, match="is not leased by this run"):
        frame.bench.guard.check("two", [1])
    theirs.release()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"second": 1}, "one also is element 1 of the controller at .*"),
        ({"more": ", baud: 9600"}, "one shares this line and has another `baud`"),
        ({"more": ", identity: M1"}, "one shares this line and has another `identity`"),
    ],
)
def test_elements_that_cannot_share_a_controller_are_refused(tmp_path, changed, words):
    with pytest.raises(FileError, match=words):
        load_lab(file_of(tmp_path, "mzi", 5025, **changed))


@pytest.mark.parametrize("other", ["tcp://192.0.2.10:5025", "TCPIP0::192.0.2.10::5025::SOCKET"])
def test_two_devices_at_one_address_are_refused_in_any_spelling(tmp_path, other):
    row = 'driver: polatis, resource: "{}", ports: [1-4]'
    text = (
        f"lab: l\nhosts:\n  {HOST.format(tx='one.1', rx='two.3').replace('{{', '{')}\nswitches:\n"
    )
    for name, where in (("one", "TCPIP::192.0.2.10::5025::SOCKET"), ("two", other)):
        text += f"  {name}: {{{row.format(where)}}}\n"
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(FileError, match=r"is (also )?the address of (two instruments|one)"):
        load_lab(tmp_path / "lab.yaml")


def soon():
    return Deadline.after(10)
