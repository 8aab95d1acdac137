"""The inside of a far end, driven without a line, on a clock that moves when somebody waits."""

from contextlib import nullcontext
from threading import RLock

from testbed.bench.contracts import Identity
from testbed.bench.crossbar import Crossbar
from testbed.bench.sites import SwitchSite
from testbed.bench.verification import WallTime
from testbed.clock import now
from testbed.errors import NoReply
from testbed.fabric.device import Capabilities
from testbed.fabric.light import LightLimits
from testbed.fabric.reading import DARK, measured
from testbed_drivers.dialects.armed_faults import ArmedFaults
from testbed_drivers.switches.simulated_switch import FAULTS, SimulatedSwitch
from testbed_drivers.switches.switch import ChangeResult, Switch, sides
from testbed_drivers.transports.options import Timeouts
from tests.contract.virtual_time import VirtualDeadline, VirtualTime

SETTLE, SETTLE_MAX = 0.020, 0.050
INGRESS, EGRESS = sides(4, 4)
EVERYTHING = INGRESS | EGRESS
CAN = Capabilities(INGRESS, EGRESS, SETTLE, SETTLE_MAX, steadiness=True, monitored=EVERYTHING)


class NoDialect:
    """What is spoken without a line: nothing."""

    def held(self, deadline):
        return nullcontext()


class WithoutALine(Switch):
    """A switch that is told and asked without a word; `losses` reads of the light are lost."""

    def __init__(self, can=CAN, max_dbm={}):  # noqa: B006 - never written to
        super().__init__("ocs", "", EVERYTHING, None, Timeouts(), lambda way, data: None)
        self.time = VirtualTime()
        self.destroyed = []
        """The receivers that got more than they withstand, by egress port, and how much."""
        self.launched = dict.fromkeys(INGRESS, 0.0)
        self.faults = ArmedFaults(FAULTS, 1)
        site = SwitchSite(
            INGRESS, EGRESS, "S1", SETTLE, 1, self.time, lambda lit: None,
            launched=self.launched.get, max_dbm=max_dbm,
            destroyed=lambda port, level: self.destroyed.append((port, level)),
        )  # fmt: skip
        self.box = SimulatedSwitch(site, self.faults, RLock())
        self.can = can
        self.losses = 0
        self.readings = 0
        self.looks = []
        self.open(self.soon())

    def soon(self):
        return VirtualDeadline(self.time.now() + 10.0, self.time)

    def identify(self, deadline):
        return Identity("nobody", "none", "S1", "0")

    def state(self, deadline):
        return dict(self.box.commanded)

    def unsteady(self, deadline):
        self.looks.append(self.time.now())
        return self.box.unsteady()

    def power(self, ports, deadline):
        if self.losses:
            self.losses -= 1
            raise NoReply("ocs", "did not answer in time")
        self.readings += 1
        seen = {port: self.box.power(port) for port in ports}
        return {port: DARK if dbm is None else measured(dbm) for port, dbm in seen.items()}

    def close(self):
        pass

    def _read_capabilities(self, who, deadline):
        return self.can

    def _new_dialect(self, endpoint):
        return NoDialect()

    def _carry_out(self, change, deadline):
        self.box.disconnect(change.removes)
        self.box.connect(change.adds)
        return ChangeResult(now(), now())

    def crossbar(self, ports=EVERYTHING, limits=LightLimits(), **more):  # noqa: B008 - frozen
        clock = WallTime(self.time.now, self.time.advance)
        return Crossbar("ocs", self, ports, {}, limits, clock, **more)
