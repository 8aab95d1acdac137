"""The names of a Calient's ports and circuits, and their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed_drivers.switches.calient_ports import PortNames, capabilities_with
from testbed_drivers.switches.descriptors.calient import CalientOptions
from testbed_drivers.switches.switch import capabilities_of, sides

BIGGEST = PortNames.first(320)


def test_ports_of_a_320_port_switch_are_named_1_1_1_to_5_8_8():
    assert (BIGGEST.name(1), BIGGEST.name(320), BIGGEST.name(321)) == ("1.1.1", "5.8.8", "1.1.1")
    assert len(BIGGEST) == 320


def test_port_names_are_ordered_numerically():
    names = PortNames(["1.1.10", "1.1.9", "1.2.1"])
    assert [names.name(number) for number in (1, 2, 3)] == ["1.1.9", "1.1.10", "1.2.1"]


@given(st.integers(1, 320), st.integers(321, 640))
def test_a_unidirectional_circuit_name_is_parsed(ingress, egress):
    assert BIGGEST.pairs(BIGGEST.circuit(ingress, egress)) == {ingress: egress}


def test_a_bidirectional_circuit_name_is_parsed_as_two_pairs():
    assert BIGGEST.pairs("1.1.1-1.1.2") == {1: 322, 2: 321}


@pytest.mark.parametrize("circuit", ["", "1.1.1", "1.1.1>", ">1.1.1", "1.1.1>9.1.1", "1.1.1=1.1.2"])
def test_an_invalid_circuit_name_is_refused(circuit):
    with pytest.raises(ValueError, match=r"not a circuit name|not a port name|no port"):
        BIGGEST.pairs(circuit)


@pytest.mark.parametrize("names", [["1.1.1", "1.1.1"], ["10.2a.4"], [""]])
def test_invalid_port_names_are_refused(names):
    with pytest.raises(ValueError, match=r"not a port name|no port|twice"):
        PortNames(names)


def test_more_ports_than_the_largest_model_has_are_refused():
    with pytest.raises(ValueError, match="expected 321 port names"):
        PortNames.first(321)


def test_monitors_average_as_the_options_say_and_ports_without_monitors_do_not():
    options = CalientOptions(averaging=0.4)
    assert capabilities_with(options, 4).averaging == 0.4
    assert capabilities_of(options, sides(4, 4)).averaging == 0.0
    own = capabilities_of(options, sides(4, 4), monitored=frozenset({1}), averaging=0.1)
    assert own.averaging == 0.1
