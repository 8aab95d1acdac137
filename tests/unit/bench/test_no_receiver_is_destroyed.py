"""Random labs whose sources come and go: what the limits let through destroys no receiver.

The light is that of the twin: true levels, losses of paths, receivers that remember what they got.
Monitors err, some tell of circuits only, and some ports have none.
"""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.bench.multi_switch_change import PlannedChange, change_all
from testbed.errors import TestbedError
from testbed.fabric.light import LightLimits
from testbed.fabric.reading import NOT_CONNECTED, Light, measured
from tests.unit.bench.driver_without_line import CAN, EGRESS, INGRESS, SETTLE_MAX, WithoutALine

KINDS = ("measures", "measures", "measures", "in circuits", "none")
MANY = 5_000


@dataclass(frozen=True)
class Lab:
    """True levels by ingress port, what the lab file says, and how each port is measured."""

    levels: dict
    lit: frozenset
    limits: LightLimits
    kinds: dict
    errors: dict


class Box(WithoutALine):
    """A switch whose monitors are as a lab has them."""

    def __init__(self, lab):
        self.lab = lab
        there = frozenset(port for port, kind in lab.kinds.items() if kind != "none")
        super().__init__(replace(CAN, monitored=there), lab.limits.max_dbm)
        self.launched.update({i: lab.levels[i] if i in lab.lit else None for i in INGRESS})

    def power(self, ports, deadline):
        return {port: self._read(port, one) for port, one in super().power(ports, deadline).items()}

    def _read(self, port, reading):
        used = {*self.box.commanded, *self.box.commanded.values()}
        if self.lab.kinds[port] == "in circuits" and port not in used:
            return NOT_CONNECTED
        if reading.light is Light.MEASURED:
            return measured(reading.dbm + self.lab.errors[port])
        return reading

    def toggle(self, ingress):
        """Let a source come on, at its own level, or go off."""
        is_off = self.launched[ingress] is None
        self.launched[ingress] = self.lab.levels[ingress] if is_off else None
        self.box.refresh()
        self.time.advance(SETTLE_MAX)


@st.composite
def labs(draw):
    """Draw a lab whose file is right: no source sends more than its `launch`."""
    levels = {i: draw(st.integers(-8, 8)) / 4 for i in sorted(INGRESS)}
    launch = {i: levels[i] + draw(st.integers(0, 2)) / 2 for i in levels if draw(st.booleans())}
    max_dbm = {e: draw(st.integers(-8, 8)) / 4 for e in sorted(EGRESS)[1:]}
    kinds = {port: draw(st.sampled_from(KINDS)) for port in sorted(INGRESS | EGRESS)}
    errors = {port: draw(st.sampled_from([-0.5, 0.0, 0.5])) for port in kinds}
    lit = frozenset(i for i in levels if draw(st.booleans()))
    return Lab(levels, lit, LightLimits(max_dbm, launch=launch), kinds, errors)


@st.composite
def crossings(draw):
    count = draw(st.sampled_from([0, 1, 1, 2]))
    ends = draw(st.permutations(sorted(EGRESS)))
    return dict(zip(draw(st.permutations(sorted(INGRESS)))[:count], ends, strict=False))


acts = st.lists(
    crossings() | crossings() | st.sampled_from(sorted(INGRESS)), min_size=4, max_size=12
)


def play(lab, acts):
    """Let a lab go through sources that come and go, and changes that are refused or not."""
    box = Box(lab)
    crossbar = box.crossbar(limits=lab.limits)
    for act in acts:
        if isinstance(act, int):
            box.toggle(act)
            continue
        try:
            change_all([PlannedChange(crossbar, *crossbar.plan(act, box.soon()))], box.soon())
        except TestbedError as error:
            assert "withstands" in str(error), error
        box.time.advance(SETTLE_MAX)
    assert box.destroyed == []


@given(labs(), acts)
def test_no_receiver_is_destroyed_by_a_permitted_change(lab, acts):
    play(lab, acts)


@pytest.mark.soak
@settings(max_examples=MANY, deadline=None)
@given(labs(), acts)
def test_no_receiver_is_destroyed_by_a_permitted_change_in_many_labs(lab, acts):
    play(lab, acts)
