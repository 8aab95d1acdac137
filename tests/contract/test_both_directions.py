"""Cross-connects that carry light both ways: every driver that says so, and a switch with one side.

As in `test_every_switch.py` the bytes are real and only the box is a twin.
"""

import re
from pathlib import Path

import pytest

from testbed.contract.family import Family, families
from testbed.contract.rig import Rig, States, reach, soon
from testbed.errors import InstrumentError, UsageError
from testbed.fabric.change import Change
from testbed.fabric.matchings import round_robin
from testbed.fabric.mesh import hexagonal
from testbed.fabric.mesh_ports import choose_ports
from testbed.plugins import kind

BOTH_WAYS = [one for name, one in families().items() if kind("drivers", name).reciprocal]


@pytest.mark.parametrize("family", BOTH_WAYS, ids=lambda family: family.driver)
def test_one_cross_connect_carries_light_in_both_directions(family, tmp_path):
    rig = Rig(family, family.wires[0], tmp_path, both_ways=True)
    try:
        switch = rig.driver()
        states = States(switch.capabilities)
        for state in (states.one, states.other):
            assert reach(switch, state).state == state
            rig.wait_for_light({**state, **{e: i for i, e in state.items()}})
    finally:
        rig.close()


ONE_SIDE = Family("polatis", ("tcp",), inputs=8, outputs=0, options={"size": (8, 0)})


@pytest.fixture
def one_side(tmp_path):
    rig = Rig(ONE_SIDE, "tcp", tmp_path, both_ways=True)
    yield rig
    rig.close()


def test_a_switch_with_one_side_joins_any_two_of_its_ports(one_side):
    switch = one_side.driver()
    can = switch.capabilities
    assert can.has_one_side and can.ingress == frozenset(range(1, 9))
    assert not can.monitored
    assert reach(switch, {1: 2, 3: 8}).state == {1: 2, 3: 8}
    one_side.wait_for_light({1: 2, 2: 1, 3: 8, 8: 3})
    assert one_side.second_driver().state(soon()) == {1: 2, 3: 8}
    assert reach(switch, {2: 3}).state == {2: 3}
    one_side.wait_for_light({2: 3, 3: 2})


def test_a_port_of_a_switch_with_one_side_is_in_one_cross_connect(one_side):
    switch = one_side.driver()
    with pytest.raises(UsageError, match="a port is to be used in two cross-connects"):
        switch.apply(Change({}, {1: 2, 2: 3}), soon())
    reach(switch, {2: 5})
    with pytest.raises(InstrumentError, match="port 2 is in use"):
        switch.apply(Change({}, {1: 2}), soon())
    assert switch.state(soon()) == {2: 5}


def test_the_device_reports_that_all_its_ports_are_on_one_side(one_side):
    one_side.family = Family("polatis", ("tcp",), inputs=8, outputs=0)
    assert one_side.driver().capabilities.has_one_side


def test_a_photonic_mesh_joins_two_ports_by_one_route_that_light_takes_both_ways(tmp_path):
    routed = choose_ports(hexagonal(4, 4), 8, "bidi")
    size = {"width": 4, "height": 4, "bidi": routed.rim}
    mesh = Family("photonic-mesh", ("tcp",), inputs=8, outputs=0, options=size, blind=True)
    rig = Rig(mesh, "tcp", tmp_path, both_ways=True)
    try:
        switch = rig.driver()
        switch.presume({})
        assert switch.capabilities.has_one_side
        for matching in round_robin(8):
            wanted = {1 + a: 1 + b for a, b in matching}
            assert reach(switch, wanted).state == wanted
            rig.wait_for_light({**wanted, **{e: i for i, e in wanted.items()}})
        assert reach(switch, {2: 7}).state == {2: 7}
        rig.wait_for_light({2: 7, 7: 2})
    finally:
        rig.close()


@pytest.mark.parametrize("fault", ["misrouted", "lie", "stuck", "vanish"])
def test_faults_of_a_switch_with_one_side_show_in_its_read_back(one_side, fault):
    switch = one_side.driver()
    reach(switch, {4: 6})
    one_side.far_end.fault(fault, delay=0.001)
    done = switch.apply(Change({}, {1: 5}), soon())
    after = one_side.settled_light()
    state = switch.state(soon())
    expected = {"misrouted": {1: 2, 4: 6}, "lie": {1: 5, 4: 6}}.get(fault, {4: 6})
    assert state == expected
    lit = {4: 6} if fault == "lie" else expected
    assert after == {**lit, **{e: i for i, e in lit.items()}}
    assert done.state[4] == 6


def test_the_drivers_page_lists_bidirectional_and_one_sided_switches():
    page = (Path(__file__).parents[2] / "drivers" / "README.md").read_text()
    table = page[page.index("## Light both ways") : page.index("## What each claim rests on")]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (yes|no) \| (.+?) \|", table, re.MULTILINE)
    said = {name: (bidi == "yes", one_side != "no") for name, bidi, one_side in rows}
    known = {name: kind("drivers", name) for name in families()}
    assert said == {n: (k.reciprocal, k.one_side is not None) for n, k in known.items()}
