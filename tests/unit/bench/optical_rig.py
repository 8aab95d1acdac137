"""A rack on real switch drivers: each speaks over TCP with the far end of its switch."""

from testbed.bench.fabric import Fabric
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.fabric.circuits import Fibres, HostPort, SwitchPort
from testbed.record.journal import Journal, open_entries
from testbed.record.lease_rules import Resource
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.polatis import Polatis
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

INPUTS = 16


class Rack:
    """Four hosts of two ports on each switch; the plan uses all but the last host's.

    Port `h<n>.p<m>` sends into ingress 2n + m + 1 and receives from egress 16 higher.
    """

    def __init__(self, directory, switches=("ocs",), limits={}, **options):  # noqa: B006 - read
        """`limits` are of the light at each switch, `options` those of the drivers."""
        self.options = PolatisOptions(**options)
        self.sites = {}
        self.scheduler = WallScheduler()
        self.directory = directory
        self.far_ends, self.wires, self.drivers = {}, {}, {}
        self.sent = []
        """Every line to a switch, and what the journal held when it was sent."""
        self.before_sending = lambda line: None
        self.journal = Journal(directory / "journal.jsonl")
        self.log = EventLog(directory / "events.jsonl")
        for name in switches:
            self._connect(name)
        self.wiring = {
            HostPort(f"h{host}{suffix}", f"p{port}"): Fibres(
                SwitchPort(name, 2 * host + port + 1), SwitchPort(name, 2 * host + port + 17)
            )
            for name, suffix in zip(switches, ("", "x"), strict=False)
            for host in range(4)
            for port in range(2)
        }
        self.ports = [port for port in self.wiring if not port.host.startswith("h3")]
        self.leases = Leases(FileStore(directory / "leases.sqlite"))
        ends = [
            (e.switch, e.number) for p in self.ports for e in (self.wiring[p].tx, self.wiring[p].rx)
        ]
        self.lease = self.leases.take([leased(*end) for end in ends], "rack")
        around = (self.journal, self.log, self, limits)
        self.fabric = Fabric(self.drivers, self.wiring, self.ports, *around)

    def check(self, switch, ports):
        """Say which ports may be moved."""
        self.lease.check(switch, map(str, ports))

    def held_by_others(self, switch, ports):
        """Say which ports somebody else has leased."""
        parts = {
            resource.part for resource in self.lease.held_by_others() if resource.box == switch
        }
        return frozenset(port for port in ports if str(port) in parts)

    def _connect(self, name):
        inputs = frozenset(range(1, INPUTS + 1))
        outputs = frozenset(range(INPUTS + 1, 2 * INPUTS + 1))
        site = SwitchSite(inputs, outputs, "S1", 0.001, 1, self.scheduler, lambda lit: None)
        self.sites[name] = site
        self.far_ends[name] = PolatisFarEnd(site, self.options)
        self.wires[name] = serve_tcp(self.far_ends[name])
        self.drivers[name] = Polatis(
            name,
            f"TCPIP::127.0.0.1::{self.wires[name].port}::SOCKET",
            inputs | outputs,
            "S1",
            self.options,
            self._hear,
        )
        self.drivers[name].open(soon())

    def _hear(self, way, data):
        if way == "send":
            line = data.decode().strip()
            self.before_sending(line)
            self.sent.append((line, self.undone()))

    def undone(self):
        return open_entries(self.directory / "journal.jsonl")

    def events(self):
        return list(read_events(self.directory / "events.jsonl"))

    def shown(self, name="ocs"):
        return dict(self.drivers[name].state(soon()))

    def somebody_else(self, line, name="ocs"):
        """Say a line from a second client of a switch."""
        self.far_ends[name].session(lambda said: None).receive(line.encode() + b"\n")

    @property
    def moves(self):
        """The lines that moved light."""
        return [line for line, _ in self.sent if "ADD" in line or "SUB" in line]

    def close(self):
        for driver in self.drivers.values():
            driver.close()
        for wire in self.wires.values():
            wire.close()
        self.scheduler.close()
        self.lease.release()
        self.journal.close()
        self.log.close()


def leased(switch, number):
    return Resource(switch, str(number), f"{switch}.{number}")


def soon():
    return Deadline.after(5)
