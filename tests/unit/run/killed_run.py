"""A run on a small lab that ends in the middle, and what it leaves behind.

Instruments and hosts are at the far ends of their real lines. The run is given up as a kill gives
it up: its lines and its lock end, and nothing is taken back.
"""

import os
import signal
from contextlib import suppress

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.bench.sites import AttenuatorSite, PowerSite, SwitchSite
from testbed.clock import Deadline, utc
from testbed.fabric.circuits import Circuit, HostPort
from testbed.record.journal import Journal, open_entries
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.crash_recovery.recover import recover
from testbed.run.inbox import Inbox
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.light.keysight_voa_far_end import KeysightVoaFarEnd
from testbed_drivers.power.redfish_far_end import RedfishFarEnd
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from tests.unit.run.slow_store import SlowStore

HOST = """\
  h{n}:
    ssh: 127.0.0.{outlet}:{ssh}
    power: pdu.{outlet}
    network: existing
    ports:
      p0: {{interface: lo, address: 10.0.0.{outlet}/24, tx: ocs.{tx}, rx: ocs.{rx}}}
"""
INSTRUMENTS = """\
switches:
  ocs: {{driver: polatis, resource: "TCPIP::127.0.0.1::{ocs}::SOCKET", ports: [1-8]{more}}}
power:
  pdu: {{driver: redfish, resource: "http://127.0.0.1:{pdu}"}}
attenuators:
  voa: {{driver: keysight-voa, resource: "TCPIP::127.0.0.1::{voa}::SOCKET", fibres: {{1: ocs.2}}}}
allow: [power-cut, attenuate]
"""
ONE, OTHER = Circuit.parse("h0.p0", "h1.p0"), Circuit.parse("h2.p0", "h3.p0")
ONE_CROSSED, OTHER_CROSSED = {1: 6, 2: 5}, {3: 8, 4: 7}
"""What they are on the switch."""


class KilledRun:
    """Four hosts of one port; ingress n + 1 and egress n + 5 of the switch are host n's."""

    def __init__(self, directory, ssh_port, more=""):
        self._scheduler = WallScheduler()
        self.switch = PolatisFarEnd(
            SwitchSite(
                frozenset(range(1, 5)),
                frozenset(range(5, 9)),
                "S1",
                0.001,
                1,
                self._scheduler,
                lambda lit: None,
            )
        )
        self.powered = {str(n + 1): True for n in range(4)}
        self.unit = RedfishFarEnd(
            PowerSite(dict(self.powered), "P1", self._scheduler, self.powered.__setitem__)
        )
        self.taken = {1: 0.0}
        site = AttenuatorSite(
            frozenset({1}), "V1", 1, self._scheduler, self.taken.__setitem__, speed=1e6
        )
        self.wires = {
            name: serve_tcp(far_end)
            for name, far_end in (
                ("ocs", self.switch),
                ("pdu", self.unit),
                ("voa", KeysightVoaFarEnd(site)),
            )
        }
        text = "lab: small\nhosts:\n"
        for n in range(4):
            text += HOST.format(n=n, outlet=n + 1, ssh=ssh_port, tx=n + 1, rx=n + 5)
        text += INSTRUMENTS.format(more=more, **{n: w.port for n, w in self.wires.items()})
        self.directory = RunDirectory.create(directory / "results", "killed")
        (self.directory.path / "lab.yaml").write_text(text)
        self.lab = load_lab(self.directory.path / "lab.yaml")
        facts = {"run": self.directory.id, "started": utc(), "label": "measured-hw", "lab": "small"}
        self.directory.write_json("run.json", facts)
        self.store = SlowStore(directory / "leases.sqlite")
        self.leases = Leases(self.store)
        self.faults = {}
        """What far ends were told to do wrong, by switch."""
        self.inbox = Inbox()
        self.bench = None

    # --- the run -----------------------------------------------------------------------------

    def begin(self):
        """Open the lab as a run does."""
        self.journal, self.log = Journal(self.directory.journal), EventLog(self.directory.events)
        self.log.append("run.begin", "killed", **self.directory.read_json("run.json"))
        self.lease = self.leases.take(
            needs(self.lab, self.lab.hosts, ["voa"]), "killed", self.directory
        )
        self.bench = Bench(self.lab, self.directory, self.journal, self.log, lambda *report: None)
        self.bench.guard.hold(self.lease)
        self.bench.open_instruments(["ocs", "pdu", "voa"], soon())
        self.bench.open_fabric(self.lab.wiring())
        self.bench.fabric.adopt({"job": frozenset({ONE, OTHER})}, soon())

    def change(self, *circuits):
        self.bench.fabric.set_circuits("job", frozenset(circuits), soon())

    def cut(self, host):
        self.bench.power.cut(host, soon())

    def attenuate(self, loss=7.0):
        self.bench.attenuation.add(HostPort("h1", "p0"), loss, soon())

    def start_agent(self, host):
        """Start an agent with a rank on a host; return the ids of both."""
        self.bench.open_hosts([host], soon())
        agent = self.bench.hosts[host]
        return agent.facts["pid"], agent.start_rank(0, soon())

    def kill(self):
        """End the run as a kill does: its lines close, its locks go, nothing is taken back."""
        for host in list(self.bench.hosts):
            self.bench.drop_host(host)
        self.bench.close_instruments()
        self.lease.abandon()
        self.journal.close()
        self.log.close()

    # --- what is left ------------------------------------------------------------------------

    def shown(self):
        ends = self.switch.execute(":OXC:SWIT:CONN:STAT?").removeprefix("(@").removesuffix(")")
        ingress, egress = ends.split("),(@")
        return dict(zip(_numbers(ingress), _numbers(egress), strict=True))

    def somebody_else(self, line):
        """Say something to the switch at another console."""
        self.switch.execute(f":OXC:SWIT:CONN:{line}")

    def open_undos(self):
        return [entry["undo"] for entry in open_entries(self.directory.journal)]

    def recover(self):
        return recover(self.directory, self.lab, self.leases, self.inbox, self)

    def clear(self, instrument, name):
        """Be the twin's control of its far ends, as far as recovering uses it."""
        self.faults.setdefault(instrument, set()).discard(name)

    def events(self, kind):
        return [event for event in read_events(self.directory.events) if event.kind == kind]

    def notes(self):
        return [event.data["text"] for event in self.events("note")]

    def left(self):
        return self.events("recover.end")[-1].data["left"]

    def close(self):
        for wire in self.wires.values():
            wire.close()
        self._scheduler.close()
        self.inbox.close()
        self.leases.take_over(self.directory, "end of the test").release()


def _numbers(text):
    return [int(number) for number in text.split(",") if number]


def soon():
    return Deadline.after(10)


def end(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
