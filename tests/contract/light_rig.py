"""Attenuators and power meters on real wires, each with its far end and the light it acts on."""

from testbed.bench.sites import AttenuatorSite, MeterSite
from testbed.clock import Deadline
from testbed.contract.family import WIRES
from testbed.plugins import kind, kinds
from testbed.twin.far_end_tcp_pty import serve_pty, serve_tcp
from testbed.twin.scheduler import WallScheduler

CLAIMED = ("visa-tcp", "tcp", "visa-serial", "serial")


def claims(role):
    """Return every driver of a role with every wire it claims."""
    return [(n, w) for n, k in kinds("drivers").items() if k.role == role for w in CLAIMED]


def soon(seconds=5.0):
    return Deadline.after(seconds)


class Rig:
    """One far end of a driver's on a wire of its own, and drivers for it.

    `takes` is what an attenuator takes from the light; `light` is what a meter is given to see.
    """

    def __init__(self, driver, wire, channels=(1,)):
        self.channels = frozenset(channels)
        self.scheduler = WallScheduler()
        self.takes, self.passed, self.light, self.trace = {}, [], {}, []
        self._kind = kind("drivers", driver)
        self._shape, self._transport = WIRES[wire]
        self._drivers = []
        self.far_end = self.build("L1")
        self.wire = self._serve()

    def build(self, serial, speed=500.0):
        common = (self.channels, serial, 1, self.scheduler)
        if self._kind.role == "attenuator":
            site = AttenuatorSite(*common, self._take, speed)
        else:
            site = MeterSite(*common, self.light.get)
        return kind("far_ends", self._kind.far_end).load()(site, None)

    def replace(self, **site):
        """Put another far end of the same kind on a wire of its own."""
        self.wire.close()
        self.far_end = self.build("L1", **site)
        self.wire = self._serve()

    def _take(self, channel, loss):
        self.takes[channel] = loss
        self.passed.append(loss)

    def _serve(self, **place):
        if self._shape == "pty":
            return serve_pty(self.far_end, **place)
        return serve_tcp(self.far_end, **place)

    @property
    def resource(self):
        if self._shape == "pty":
            visa = self._transport == "visa"
            return f"ASRL{self.wire.path}::INSTR" if visa else str(self.wire.path)
        return f"TCPIP::127.0.0.1::{self.wire.port}::SOCKET"

    def driver(self, identity="L1", **options):
        options = self._kind.options(transport=self._transport, **options)
        tracer = lambda way, data: self.trace.append((way, data))  # noqa: E731
        make = self._kind.load()
        driver = make("box", self.resource, self.channels, identity, options, tracer)
        self._drivers.append(driver)
        return driver

    def opened(self, **options):
        driver = self.driver(**options)
        driver.open(soon())
        return driver

    @property
    def sent(self):
        return b"".join(data for way, data in self.trace if way == "send").decode()

    def close(self):
        for driver in self._drivers:
            driver.close()
        self.wire.close()
        self.scheduler.close()
