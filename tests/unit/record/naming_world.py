"""A few boxes, and random labs that name each of them in another way."""

import random
from dataclasses import dataclass

from testbed.bench.contracts import Identity
from testbed.schema import load_lab

NAT = "198.51.100.1"
NAMES = {
    **{f"ocs{n}.lab": f"192.0.2.{10 + n}" for n in range(3)},
    **{f"pdu{n}.lab": f"192.0.2.{20 + n}" for n in range(2)},
    **{name: f"192.0.2.{30 + n}" for n in range(4) for name in (f"gpu{n}.lab", f"gpu{n}")},
    "nat.lab": NAT,
}
"""What the name service of this world knows."""
LOGIN = "user: lab, "


@dataclass(frozen=True)
class Box:
    """One real thing; `ways` are the driver with options and the resource of each way to it."""

    name: str
    ways: tuple[tuple[str, str], ...]
    says: str = ""
    """Its serial number, or the hardware address of a host."""

    def identity(self, driver):
        """Return what it answers in the language of a driver: each has words of its own."""
        return Identity(f"maker in {driver}", f"model in {driver}", self.says, "1")


def _polatis(number, serial):
    hosts = (f"192.0.2.{10 + number}", f"OCS{number}.lab")
    ways = [("polatis", f"TCPIP::{host}::5025::SOCKET") for host in hosts]
    ways += [("polatis-tl1, " + LOGIN, f"tcp://{host}:3082") for host in hosts]
    ways += [("polatis-restconf", f"http://{host}:8008") for host in hosts]
    ways += [
        ("polatis", f"tcp://nat.lab:90{number}0"),
        ("polatis-restconf", f"http://{NAT}:90{number}1"),
    ]
    return Box(f"ocs{number}", tuple(ways), serial)


def _numbered(name, serial, driver, *resources):
    return Box(name, tuple((driver, resource) for resource in resources), serial)


SWITCHES = (
    _polatis(0, "4711"),
    _polatis(1, "4712"),
    # Another maker's with the same number.
    _numbered("ocs2", "4711", "calient-rest", "https://ocs2.lab", "https://192.0.2.12"),
    # Two behind one address that tell no serial number.
    _numbered("nat-a", "0", "polatis", f"tcp://{NAT}:9100", "tcp://nat.lab:9100"),
    _numbered("nat-b", "0", "polatis", f"tcp://{NAT}:9101", "tcp://nat.lab:9101"),
)
UNITS = tuple(
    _numbered(f"pdu{n}", f"P{n}", "redfish", f"https://pdu{n}.lab", f"https://192.0.2.{20 + n}")
    for n in range(2)
)
HOSTS = tuple(
    _numbered(
        *(f"gpu{n}", f"0c:42:a1:00:00:0{n + 1}", ""),
        *(f"gpu{n}.lab", f"me@GPU{n}", f"192.0.2.{30 + n}:22", f"{NAT}:220{n}"),
    )
    for n in range(4)
)


class NamedLab:
    """A lab file over some of the boxes, each by one of its ways and under a name of its own."""

    def __init__(self, path, number, draw):
        self.boxes = {}
        """What is behind each name."""
        self._drivers = {}
        hosts = draw.sample(HOSTS, draw.randint(2, 4))
        text = f"lab: l{number}\nhosts:\n"
        used = [draw.choice(SWITCHES) for _ in hosts]
        self._names = {box: f"{draw.choice('abc')}{i}" for i, box in enumerate([*SWITCHES, *UNITS])}
        ports, outlets = draw.sample(range(1, 6), 4), draw.sample(range(1, 6), 4)
        for n, (host, switch) in enumerate(zip(hosts, used, strict=True)):
            self.boxes[f"h{n}"] = host
            port, outlet, unit = ports[n], outlets[n], draw.choice(UNITS)
            ends = f"tx: {self._names[switch]}.{port}, rx: {self._names[switch]}.{port + 8}"
            text += (
                f'  h{n}: {{ssh: "{draw.choice(host.ways)[1]}", '
                f"power: {self._names[unit]}.{outlet}, "
                f"ports: {{p: {{interface: e, address: 10.0.0.{n + 1}/8, {ends}}}}}}}\n"
            )
        for section, boxes, more in (
            ("switches", SWITCHES, ", ports: [1-16]"),
            ("power", UNITS, ""),
        ):
            text += f"{section}:\n"
            for box in boxes:
                name, (driver, resource) = self._names[box], draw.choice(box.ways)
                self.boxes[name], self._drivers[name] = box, driver.partition(",")[0]
                stated = f', identity: "{box.says}"' if draw.random() < 0.3 else ""
                row = f'driver: {driver}, resource: "{resource}"{stated}{more}'
                text += f"  {name}: {{{row.replace(', ,', ',')}}}\n"
        path.write_text(text)
        self.lab = load_lab(path)
        self.hosts = sorted(self.lab.hosts)

    def answer(self, answered, hosts):
        """Have all that some hosts need say what it is."""
        for host in hosts:
            answered.host(host, [self.boxes[host].says, "00:00:00:00:00:00"])
        for name in {part.partition(".")[0] for part in self.parts(hosts)} - {*hosts}:
            answered.instrument(name, self.boxes[name].identity(self._drivers[name]))

    def parts(self, hosts):
        """Return the names of the hosts, ports and outlets of some hosts."""
        for host in hosts:
            spec = self.lab.hosts[host]
            yield from (host, str(spec.power))
            yield from map(str, (spec.ports["p"].fibres.tx, spec.ports["p"].fibres.rx))

    def things(self, hosts):
        """Return the same as what they really are."""
        for part in self.parts(hosts):
            name, _, number = part.partition(".")
            yield self.boxes[name].name, number


def labs(directory, count, seed):
    """Return random labs, the same ones for a seed."""
    draw = random.Random(seed)
    return [NamedLab(directory / f"lab{n}.yaml", n, draw) for n in range(count)]
