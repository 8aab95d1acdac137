"""Thousands of exchanges on bad wires: no wrong circuit is believed, no answer goes to the wrong
question, no call hangs. Every language joins by its driver being registered.

Drivers that can be given a line in memory run on an injected clock, as a connection and as a
cable; the others, whose line is a library's, over loopback with little patience.
"""

import inspect
import random
from collections import Counter

import pytest

from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.contract import outcomes
from testbed.contract.rig import Rig, States
from testbed.errors import InstrumentError
from testbed.fabric.change import after, plan_change
from testbed.plugins import kind
from tests.contract import matrix
from tests.contract.memory_wire import MemoryWire
from tests.contract.virtual_time import VirtualDeadline, VirtualTime

OF_THE_BOX = {
    name for name, expected in outcomes.EXPECTED.items() if expected.check in outcomes.BOX
}
"""Faults of which a read-back need not know."""

NOWHERE = {"ssh": "ssh://admin@192.0.2.1"}
"""Addresses for lines in memory, where a driver insists on a form of its own."""

EVERY_DAY = 120
SOAK = 10_000
STRAGGLERS = {"doubled", "drip"}
"""Never together: a second copy that still comes in after the next question was asked is, in a
language that does not number its answers, the answer to that question."""
OVERRUN = 0.5
"""Seconds after its deadline at which a call counts as hung."""


class InMemory:
    """A family's twin and its driver, on an injected clock; settling takes no time."""

    patience = 5.0

    def __init__(self, family, *, cable):
        self.time = VirtualTime()
        self.is_cable = cable
        self.is_blind = family.blind
        self.lit = {}
        inputs, outputs = family.inputs, family.outputs
        ingress = frozenset(range(1, inputs + 1))
        egress = frozenset(range(inputs + 1, inputs + outputs + 1))
        driver_kind = kind("drivers", family.driver)
        options = driver_kind.options(**family.options)
        site = SwitchSite(ingress, egress, "S1", 0.0, 1, self.time, self._hear)
        self.far_end = kind("far_ends", driver_kind.far_end).load()(site, options)
        wire = MemoryWire(self.far_end, self.time, cable=cable)
        resource = "/dev/ttyS0" if cable else NOWHERE.get(family.wires[0], "tcp://192.0.2.1:1")
        self.switch = driver_kind.load()(
            "ocs",
            resource,
            ingress | egress,
            family.serial,
            options,
            lambda way, data: None,
            dial=wire.dial,
        )
        if family.blind:
            self.switch.presume({})

    def _hear(self, lit):
        self.lit = lit

    def deadline(self):
        """Return the deadline of a call that begins now."""
        return VirtualDeadline(self.time.now() + self.patience, self.time)

    def light(self):
        """Return what carries light now that nothing moves."""
        self.time.advance(0.0)
        return self.lit

    def fall_silent(self):
        """Let everything arrive that is still under way."""
        self.time.advance(100 * self.patience)

    def close(self):
        self.switch.close()


class OnLoopback:
    """A family's twin and its driver on the first wire that it claims."""

    patience = 0.06
    is_cable = False

    def __init__(self, family, directory):
        self.is_blind = family.blind
        self._rig = Rig(family, family.wires[0], directory, settle=0.0)
        self.far_end = self._rig.far_end
        self.switch = self._rig.driver()
        self.switch.close()

    def deadline(self):
        """Return the deadline of a call that begins now."""
        return Deadline.after(self.patience)

    def light(self):
        """Return what carries light now that nothing moves."""
        self._rig.wait(0.0)
        return self._rig.lit

    def close(self):
        self._rig.close()


class Soak:
    """Random exchanges under random faults, each compared with the light; seeded.

    A cable has no fresh line: old answers still come out of it when it is opened again. Where an
    answer is lost while another is late, a language that does not number them cannot tell; so a
    cable has one kind of trouble at a time, and falls silent before the next.
    """

    def __init__(self, place, seed):
        self.place = place
        self.chance = random.Random(seed)
        self.came = Counter()
        self.faults = sorted(place.far_end.known_faults.keys() - OF_THE_BOX)
        self.identity = place.switch.open(place.deadline())
        self.states = States(place.switch.capabilities)

    def run(self, count):
        for _ in range(count):
            self._upset()
            deadline = self.place.deadline()
            try:
                self._exchange(deadline)
            except InstrumentError as error:
                self.came[type(error).__name__] += 1
            else:
                self.came["right"] += 1
            assert not deadline.later(OVERRUN).passed, "it hung"

    def _upset(self):
        """Arm up to two faults, end all of them, or let another client change something."""
        draw = self.chance.random()
        if draw < 0.3:
            self.place.far_end.clear()
        elif draw < 0.8 and self.place.is_cable:
            self.place.far_end.clear()
            self.place.fall_silent()
            self._arm(self.chance.choice(self.faults))
        elif draw < 0.8:
            for _ in range(self.chance.randint(1, 2)):
                self._arm(self.chance.choice(self.faults))
        elif draw < 0.85 and not self.place.is_blind:
            self.place.far_end.fault("meddled")

    def _arm(self, name):
        if name in STRAGGLERS:
            for other in STRAGGLERS - {name}:
                self.place.far_end.clear(other)
        delay = self.chance.choice((0.002, 0.06, 0.6)) * self.place.patience
        self.place.far_end.fault(
            name,
            count=self.chance.randint(1, 3),
            probability=self.chance.choice((0.3, 1.0)),
            delay=delay / 100 if name == "drip" else delay,  # which waits for every byte
        )

    def _exchange(self, deadline):
        draw = self.chance.random()
        switch = self.place.switch
        if draw < 0.4:
            assert switch.state(deadline) == self.place.light()
        elif draw < 0.55:
            assert switch.identify(deadline) == self.identity
        elif draw < 0.65:
            assert switch.unsteady(deadline) == {}
        else:
            self._change(deadline)

    def _change(self, deadline):
        before = self.place.light()
        wanted = self._wanted()
        can = self.place.switch.capabilities
        order = plan_change(before, wanted, before, can.ingress | can.egress, can)
        try:
            applied = self.place.switch.apply(order, deadline)
        except InstrumentError:
            left = self.place.light().items()
            assert left <= before.items() | wanted.items(), "it made what was not wanted"
            raise
        assert applied.state == self.place.light()
        if not applied.refused:
            assert applied.state == after(before, order)

    def _wanted(self):
        can = self.place.switch.capabilities
        if can.positions:
            return dict(self.chance.choice(can.positions))
        count = self.chance.randint(0, min(len(can.ingress), len(can.egress)))
        ingress = self.chance.sample(sorted(can.ingress), count)
        return dict(zip(ingress, self.chance.sample(sorted(can.egress), count), strict=True))


def natures(family):
    """Return how a family's line can be run: in memory as what it claims, or on loopback."""
    if "dial" not in inspect.signature(kind("drivers", family.driver).load()).parameters:
        return ["loopback"]
    has_cable = any("serial" in wire for wire in family.wires)
    has_connection = any("serial" not in wire for wire in family.wires)
    return ["connection"] * has_connection + ["cable"] * has_cable


LINES = [
    pytest.param(family, nature, id=f"{name}-{nature}")
    for name, family in matrix.FAMILIES.items()
    for nature in natures(family)
]


@pytest.fixture
def place(family, nature, tmp_path):
    if nature == "loopback":
        place = OnLoopback(family, tmp_path)
    else:
        place = InMemory(family, cable=nature == "cable")
    yield place
    place.close()


@pytest.mark.parametrize(("family", "nature"), LINES)
def test_no_exchange_over_a_faulty_wire_gives_a_wrong_result(place):
    soak = Soak(place, seed=1)
    soak.run(EVERY_DAY)
    assert soak.came["right"] > EVERY_DAY / 5, soak.came
    assert soak.came.total() - soak.came["right"] > EVERY_DAY / 20, soak.came


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("family", "nature"), LINES)
def test_ten_thousand_exchanges_over_faulty_wires_give_no_wrong_result(place):
    soak = Soak(place, seed=2)
    soak.run(SOAK)
    struck = {name: place.far_end.struck(name) for name in soak.faults}
    print(f"\n{dict(soak.came)}; strikes: {struck}")
    assert soak.came["right"] > SOAK / 5, soak.came
    never = {name for name, count in struck.items() if not count}
    # a cable has no connections, and SSH logs in below the line
    assert never <= {"refuse", "login-rejected"}, struck
