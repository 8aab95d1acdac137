"""A small lab: instruments and a host, each at the far end of its real line."""

import threading
from pathlib import Path

from testbed.bench.bench import Bench
from testbed.bench.host import BenchHost
from testbed.bench.lease_resources import needs
from testbed.bench.sites import AttenuatorSite, PowerSite, SwitchSite
from testbed.clock import Deadline
from testbed.fabric.topology import ring
from testbed.faults.contracts import Victim
from testbed.plugins import kind
from testbed.record.journal import Journal, open_entries
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.light.keysight_voa_far_end import KeysightVoaFarEnd
from testbed_drivers.power.redfish_far_end import RedfishFarEnd
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

HOSTS = ("h0", "h1", "h2", "h3")
HOST = """\
  h{n}:
    ssh: 127.0.0.{outlet}:{ssh}
    power: pdu.{outlet}
    ports:
      p0: {{interface: eth1, address: 10.0.0.{a}/24, tx: ocs.{a}, rx: ocs.{a_out}}}
      p1: {{interface: eth2, address: 10.0.0.{b}/24, tx: ocs.{b}, rx: ocs.{b_out}}}
"""
INSTRUMENTS = """\
switches:
  ocs: {{driver: polatis, resource: "TCPIP::127.0.0.1::{ocs}::SOCKET", ports: [1-32]}}
power:
  pdu: {{driver: redfish, resource: "http://127.0.0.1:{pdu}"}}
attenuators:
  voa: {{driver: keysight-voa, resource: "TCPIP::127.0.0.1::{voa}::SOCKET", fibres: {{1: ocs.4}}}}
allow: [power-cut, rank-kill, rank-freeze, dark-circuit, straggler, attenuate]
"""
OPTIONS = {"attenuate": {"loss": 10.0}, "straggler": {"delay": 0.25}}
"""Of the faults that have any."""
CONFIGURE = {
    "do": "configure",
    "job": {"kind": "allreduce", "options": {"sizes": [4096]}},
    "rank": 1,
    "ranks": 4,
    "token": "a token",
    "seed": 7,
    "heartbeat": 0.4,
    "to_next": {"interface": None, "address": "127.0.0.1"},
    "from_previous": {"interface": None, "address": "127.0.0.1"},
}


class SmallLab:
    """The opened lab. A job rings h0, h1, h2 and h3; of these only the victim h1 has an agent."""

    def __init__(self, directory, ssh_port):
        self._scheduler = WallScheduler()
        sides = frozenset(range(1, 17)), frozenset(range(17, 33))
        self.switch = PolatisFarEnd(
            SwitchSite(*sides, "S1", 0.001, 1, self._scheduler, lambda lit: None)
        )
        self.powered = {str(n + 1): True for n in range(4)}
        self.unit = RedfishFarEnd(
            PowerSite(dict(self.powered), "P1", self._scheduler, self.powered.__setitem__)
        )
        self.taken = {}
        """dB that the attenuator takes from the light of the victim's last port."""
        site = AttenuatorSite(
            frozenset({1}), "V1", 1, self._scheduler, self.taken.__setitem__, speed=1e6
        )
        self._wires = [serve_tcp(end) for end in (self.switch, self.unit, KeysightVoaFarEnd(site))]
        self.pid = 0
        """Of the victim's rank."""
        self._reports = []
        self._changed = threading.Condition()
        lab = self._lab(directory, ssh_port)
        self._open(lab, RunDirectory.create(directory / "results", "small"))

    def _lab(self, directory, ssh_port):
        text = "lab: small\nhosts:\n"
        for n in range(4):
            a = 2 * n + 1
            ports = {"a": a, "b": a + 1, "a_out": a + 16, "b_out": a + 17}
            text += HOST.format(n=n, outlet=n + 1, ssh=ssh_port, **ports)
        ocs, pdu, voa = (wire.port for wire in self._wires)
        text += INSTRUMENTS.format(ocs=ocs, pdu=pdu, voa=voa)
        (directory / "lab.yaml").write_text(text)
        return load_lab(directory / "lab.yaml")

    def _open(self, lab, run):
        self.journal, self.log = Journal(run.journal), EventLog(run.events)
        self._journal_path = run.journal
        self.bench = Bench(lab, run, self.journal, self.log, lambda *report: None)
        leases = Leases(FileStore(run.path.parent / "leases.sqlite"))
        self._lease = leases.take(needs(lab, lab.hosts, ["voa"]), "small", run)
        self.bench.guard.hold(self._lease)
        self.bench.open_instruments(["ocs", "pdu", "voa"], soon())
        self.bench.open_fabric(lab.wiring())
        self.ring = ring(HOSTS, lab.ports())
        self.victim = Victim(1, "h1", 0, self.ring, "h1.p1")
        self.bench.fabric.adopt({"job": self.ring}, soon())
        # This machine has none of the host's ports, and no fault here is about them.
        spec = lab.hosts["h1"].model_copy(update={"ports": {}})
        self._agent = BenchHost("h1", spec, self._hear, soon(), run.id)

    def _hear(self, host, message, received):
        with self._changed:
            self._reports.append(message)
            self._changed.notify_all()

    def fault(self, name, **options):
        found = kind("faults", name)
        return found.load()(found.options(**(options or OPTIONS.get(name, {}))))

    def begin(self):
        """Have everything well: light, power, and the victim's rank, started if it must be."""
        self.switch.clear()
        self.unit.clear()
        self.bench.hosts["h1"] = self._agent
        self.bench.power.restore_all(soon())
        self.bench.attenuation.restore_all(soon())
        self.bench.fabric.set_circuits("job", self.ring, soon())
        self._reports.clear()
        if self.process() != "runs":
            self._agent.end_rank(0, soon())
            self.pid = self._agent.start_rank(0, soon())
            self._agent.send_to_rank(0, CONFIGURE, grace=10.0)
            self.hear(lambda message: message.get("said", {}).get("event") == "ready")

    def hear(self, wanted):
        """Wait until the agent reports what is wanted, and return it."""
        with self._changed:
            found = self._changed.wait_for(lambda: [m for m in self._reports if wanted(m)], 10)
            assert found, self._reports
            return found[0]

    def state(self):
        """Return all that a fault can change: light, power, and the victim's process and pace."""
        taken = {channel: decibels for channel, decibels in self.taken.items() if decibels}
        return self.light(), taken, dict(self.powered), self.process(), self.lateness()

    def lateness(self):
        """Return by how much the victim's rank says that it comes late, once it has heard all."""
        if self.process() != "runs":
            return 0.0
        with self._changed:
            said = [m["said"] for m in self._reports if m["event"] == "rank"]
        return ([0.0] + [s["seconds"] for s in said if s["event"] == "straggling"])[-1]

    def light(self):
        return dict(self.bench.switches["ocs"].state(soon()))

    def process(self):
        """Return what the kernel says of the victim's rank."""
        try:
            letter = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return "gone"
        return {"T": "stopped", "Z": "gone", "X": "gone"}.get(letter, "runs")

    def recorded_undos(self):
        """Return what the journal says is still to be undone."""
        return [entry["undo"] for entry in open_entries(self._journal_path)]

    def close(self):
        self._agent.clean_up(soon())
        self.bench.hosts.clear()
        self.bench.fabric.restore(soon())
        self.bench.close_instruments()
        self._lease.release()
        for wire in self._wires:
            wire.close()
        self._scheduler.close()
        self.journal.close()
        self.log.close()


def soon():
    return Deadline.after(10)
