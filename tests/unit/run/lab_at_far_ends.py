"""A lab at its far ends: what they were told is what happened, whatever our own record says.

A switch, a power unit and an attenuator answer on real lines to real drivers. Each host answers on
a line of its own, in the frames of an agent; what an agent would do on its host is only noted.
"""

import json
import socket
import threading
from contextlib import suppress
from itertools import combinations

from testbed.bench.bench import Bench
from testbed.bench.bundle import bundle
from testbed.bench.lease_resources import needs
from testbed.bench.sites import AttenuatorSite, PowerSite, SwitchSite
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.fabric.topology import ring
from testbed.record.journal import Journal
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

HOSTS = tuple(f"h{n}" for n in range(5))
NARROW = "h2"
"""The host that permits no fence by power, whatever the lab permits."""
MEANS = ("power", "network", "process")
FAULTS = ("power-cut", "attenuate")
ON_HOSTS = ("end", "hello", "start", "network", "signal")
"""What of all that an agent is asked changes something on its host."""

HOST = """\
  h{n}:
    ssh: 127.0.1.{n}
    power: pdu.{n}
    network: existing
    ports:
      p0: {{interface: eth1, address: 10.0.0.{a}/24, tx: ocs.{a}, rx: ocs.{a_out}}}
      p1: {{interface: eth2, address: 10.0.0.{b}/24, tx: ocs.{b}, rx: ocs.{b_out}}}
"""
INSTRUMENTS = """\
switches:
  ocs: {{driver: polatis, resource: "TCPIP::127.0.0.1::{ocs}::SOCKET", ports: [1-20]}}
power:
  pdu: {{driver: redfish, resource: "http://127.0.0.1:{pdu}"}}
attenuators:
  voa: {{driver: keysight-voa, resource: "TCPIP::127.0.0.1::{voa}::SOCKET", fibres: {{1: ocs.4}}}}
allow: [{allow}]
fence: [{fence}]
"""


def subsets(names):
    return [some for count in range(len(names) + 1) for some in combinations(names, count)]


class HostEnd:
    """The far side of the line to one host's agent."""

    def __init__(self, name, note):
        self.name = name
        self.is_mute = False
        self._note = note
        self._line = None

    def dial(self):
        """Return the near side of a new line, as SSH does; the line before ends."""
        if self.is_mute:
            raise HostError(self.name, "SSH failed: no route to host")
        self.hang_up()
        near, self._line = socket.socketpair()
        threading.Thread(target=self._serve, args=[self._line], daemon=True).start()
        return Near(self.name, near)

    def hang_up(self):
        if self._line is not None:
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)

    def _serve(self, line):
        held, skipped = b"", len(bundle())
        with line, suppress(OSError):
            while data := line.recv(1 << 16):
                dropped = min(skipped, len(data))
                skipped, held = skipped - dropped, held + data[dropped:]
                while len(held) >= 4 and len(held) >= 4 + int.from_bytes(held[:4], "big"):
                    end = 4 + int.from_bytes(held[:4], "big")
                    self._answer(line, json.loads(held[4:end]))
                    held = held[end:]

    def _answer(self, line, request):
        if self.is_mute:
            return
        if request["do"] in ON_HOSTS:
            self._note(request["do"], self.name)
        if request["id"] is None:
            return
        body = json.dumps({"re": request["id"], "ok": self._said(request)}).encode()
        line.sendall(len(body).to_bytes(4, "big") + body)

    def _said(self, request):
        match request["do"]:
            case "hello":
                return {"python": "3.11.2", "numpy": "2", "leftovers": [], "hardware": {}}
            case "ask-identity":
                return {"good": True, "seen": [request["expect"]], "mono": 0.0}
            case "end":
                return {"gone": True}
            case "bye":
                return {"left": []}
        return {}


class Near:
    """Our side of such a line, as `bench.ssh.Channel` has it."""

    def __init__(self, host, line):
        self._host, self._line = host, line

    def send(self, data):
        try:
            self._line.sendall(data)
        except OSError as error:
            raise HostError(self._host, f"the line broke: {error}") from error

    def fileno(self):
        return self._line.fileno()

    def receive(self):
        try:
            return self._line.recv(1 << 16)
        except OSError:
            return b""

    def release(self):
        self._line.close()

    def complaint(self):
        return ""

    def close(self):
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)


class Switch(PolatisFarEnd):
    """A switch that notes each line of orders as it comes."""

    def execute(self, line):
        if "CONN:ADD" in line or "CONN:SUB" in line:
            self.heard(line)
        return super().execute(line)


class Attenuator(KeysightVoaFarEnd):
    """An attenuator that notes each order as it comes."""

    def execute(self, line):
        if "ATT " in line:
            self.heard(line)
        return super().execute(line)


class LabAtFarEnds:
    """Five hosts on a switch, each with an outlet; a bench for every set of permissions."""

    def __init__(self, directory, monkeypatch):
        self.acts = []
        """What the far ends were told, in order: (kind, what)."""
        self.on_act = lambda: None
        self._lock = threading.Lock()
        self._scheduler = WallScheduler()
        sides = frozenset(range(1, 11)), frozenset(range(11, 21))
        self.switch = Switch(SwitchSite(*sides, "S1", 0.0, 1, self._scheduler, lambda lit: None))
        self.switch.heard = self._ordered
        self.powered = {str(n): True for n in range(5)}
        self.unit = RedfishFarEnd(
            PowerSite(dict(self.powered), "P1", self._scheduler, self._turned)
        )
        voa = Attenuator(
            AttenuatorSite(
                frozenset({1}), "V1", 1, self._scheduler, lambda channel, loss: None, speed=1e9
            )
        )
        voa.heard = lambda line: self._note("attenuate", line)
        self.wires = [serve_tcp(end) for end in (self.switch, self.unit, voa)]
        self.ends = {name: HostEnd(name, self._note) for name in HOSTS}
        monkeypatch.setattr(
            "testbed.bench.host.ssh.run", lambda name, *rest: self.ends[name].dial()
        )
        self._directory = directory
        self.leases = Leases(FileStore(directory / "leases.sqlite"))
        self.log_events = []
        self._benches = {}
        self._opened = []

    # --- what far ends note -------------------------------------------------------------------

    def _note(self, kind, what):
        with self._lock:
            self.acts.append((kind, what))
        self.on_act()

    def _turned(self, outlet, on):
        self.powered[outlet] = on
        self.ends[f"h{outlet}"].is_mute = not on
        self._note("on" if on else "off", f"h{outlet}")

    def _ordered(self, line):
        if "CONN:ADD" in line:
            self._note("connect", line)
        else:
            self._note("isolate", self._common(line))

    def _common(self, line):
        """Return the hosts that have a part in every circuit that a line of orders takes down."""
        lists = [part.split(")")[0].split(",") for part in line.split("(@")[1:]]
        ingress, egress = ([int(port) for port in ports] for ports in lists[:2])
        pairs = zip(ingress, egress, strict=True)
        ends = [{f"h{(i - 1) // 2}", f"h{(e - 11) // 2}"} for i, e in pairs]
        return frozenset(set.intersection(*ends))

    # --- our side -----------------------------------------------------------------------------

    def bench(self, fence, allow):
        """Return the bench of a lab with these permissions; its instruments are open."""
        key = fence, allow
        if key not in self._benches:
            self._benches[key] = self._open(fence, allow)
        return self._benches[key]

    def _open(self, fence, allow):
        text = "lab: small\nhosts:\n"
        for n in range(5):
            a = 2 * n + 1
            text += HOST.format(n=n, a=a, b=a + 1, a_out=a + 10, b_out=a + 11)
            if HOSTS[n] == NARROW:
                text += f"    fence: [{', '.join(one for one in fence if one != 'power')}]\n"
        ocs, pdu, voa = (wire.port for wire in self.wires)
        lists = {"allow": ", ".join(allow), "fence": ", ".join(fence)}
        text += INSTRUMENTS.format(ocs=ocs, pdu=pdu, voa=voa, **lists)
        run = RunDirectory.create(self._directory / "results", f"small-{len(self._benches)}")
        (run.path / "lab.yaml").write_text(text)
        journal, log = Journal(run.journal), EventLog(run.events)
        log.subscribe(self.log_events.append)
        bench = Bench(load_lab(run.path / "lab.yaml"), run, journal, log, lambda *report: None)
        bench.guard.hold(lease := self.take(bench.lab))
        bench.open_instruments(["ocs", "pdu", "voa"], soon())
        bench.open_fabric(bench.lab.wiring())
        bench.fabric.adopt({}, soon())
        lease.release()
        self._opened.append((bench, journal, log))
        return bench, log

    def take(self, lab):
        return self.leases.take(needs(lab, lab.hosts, ["voa"]), "small")

    def make_ready(self, bench):
        """Have a ring of three hosts, and agents on all, under a new lease; return that."""
        lease = self.take(bench.lab)
        bench.guard.hold(lease)
        for end in self.ends.values():
            end.is_mute = not self.powered[end.name[1:]]
        bench.power.cut_hosts.clear()
        bench.fabric.set_circuits("main", ring(HOSTS[:3], bench.lab.ports()), soon())
        for name in HOSTS:
            if name not in bench.hosts or bench.hosts[name].link.is_over:
                bench.drop_host(name)
                bench._run_agent(name, soon())
            bench.hosts[name].identity_ports = {"p0": 1, "p1": 2}
        self.acts.clear()
        self.log_events.clear()
        return lease

    def put_back(self, bench):
        """Have all as it was before, under a lease that nobody takes away."""
        bench.guard.hold(lease := self.take(bench.lab))
        self.unit.clear()
        bench.power.restore_all(soon())
        bench.attenuation.restore_all(soon())
        bench.fabric.restore(soon())
        lease.release()

    def close(self):
        for bench, journal, log in self._opened:
            for name in list(bench.hosts):
                bench.drop_host(name)
            bench.close_instruments()
            journal.close()
            log.close()
        for wire in self.wires:
            wire.close()
        self._scheduler.close()


def soon():
    return Deadline.after(10)
