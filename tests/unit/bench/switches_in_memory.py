"""Polatis switches on an injected clock: real drivers, real far ends, and others at the console."""

import re

from testbed.bench.crossbar import Crossbar
from testbed.bench.sites import SwitchSite
from testbed.bench.verification import WallTime
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.polatis import Polatis
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from tests.contract.memory_wire import MemoryWire
from tests.contract.virtual_time import VirtualDeadline

SIDE = 6
INGRESS = tuple(range(1, SIDE + 1))
EGRESS = tuple(range(SIDE + 1, 2 * SIDE + 1))
_MUTATION = re.compile(r"CONN:(ADD|SUB) \(@([\d,]*)\),\(@([\d,]*)\)")


class Box:
    """One switch: the crossbar under test, its driver, and a second client that nobody hinders.

    `ports` are those of the plan, `usable` those of the lab file. `meddle` is called before each
    line that we send.
    """

    def __init__(self, name, time, ports, usable):
        self.name = name
        self.time = time
        site = SwitchSite(
            frozenset(INGRESS), frozenset(EGRESS), "S1", 0.005, 1, time, lambda lit: None
        )
        self.far_end = PolatisFarEnd(site)
        self.sent = []
        self.meddle = lambda: None
        self.driver = Polatis(
            name,
            "TCPIP::192.0.2.1::5025::SOCKET",
            frozenset(usable),
            "S1",
            PolatisOptions(),
            self._hear,
            dial=MemoryWire(self.far_end, time, cable=False).dial,
        )
        self.driver.open(self.soon())
        clock = WallTime(time.now, time.advance)
        self.crossbar = Crossbar(name, self.driver, frozenset(ports), {}, clock=clock)

    def _hear(self, way, data):
        if way == "send":
            self.meddle()
            self.sent.append(data.decode())

    def soon(self):
        return VirtualDeadline(self.time.now() + 10.0, self.time)

    def say(self, line):
        """Say something at another console, whose line is good; return the answer."""
        return self.far_end.execute(f":OXC:SWIT:CONN:{line}")

    def shows(self):
        """Return what is there; None when the box is too busy to tell."""
        ends = re.fullmatch(r"\(@([\d,]*)\),\(@([\d,]*)\)", self.say("STAT?"))
        return ends and dict(zip(_numbers(ends[1]), _numbers(ends[2]), strict=True))

    def calm_down(self):
        """Let all troubles be over."""
        self.far_end.clear()
        self.time.advance(1.0)

    @property
    def mutations(self):
        """What we told the switch: `ADD` or `SUB`, and the pairs, in order."""
        return [
            (verb, dict(zip(_numbers(one), _numbers(other), strict=True)))
            for line in self.sent
            for verb, one, other in _MUTATION.findall(line)
        ]


def _numbers(text):
    return [int(number) for number in text.split(",") if number]
