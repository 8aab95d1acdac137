"""Wiring that no box of the named kind can have is refused by the file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.fabric.circuits import Side
from testbed.plugins import kinds
from testbed.schema import load_experiment, load_lab

LAB = """\
lab: bench
hosts:
  h0:
    ssh: h0
    ports: {{p0: {{interface: eth1, address: 10.0.0.1/24, {one}}}}}
  h1:
    ssh: {ssh}
    ports: {{p0: {{interface: eth1, address: 10.0.0.2/24, {other}}}}}
switches:
  ocs: {{resource: "{resource}", {switch}}}
"""
CALIENT = "driver: calient, user: admin, ports: [1-4, 321-324{more}]"
POLATIS = "driver: polatis, ports: [1-32]"
OTHER = "bidi: ocs.2"
TCP, TTY = "TCPIP::192.0.2.10::3082::SOCKET", "/dev/ttyUSB0"


def written(tmp_path, switch, **said):
    words = {"one": "tx: ocs.1, rx: ocs.17", "other": "tx: ocs.2, rx: ocs.18", "ssh": "h1"}
    file = tmp_path / "lab.yaml"
    file.write_text(LAB.format(**words | {"resource": TCP} | said, switch=switch))
    return file


def problems(tmp_path, switch, **said):
    """Return what is said of a lab with two hosts on one switch, without the file's name."""
    with pytest.raises(FileError) as refused:
        load_lab(written(tmp_path, switch, **said))
    error = refused.value
    return [str(one).split("lab.yaml:")[1] for one in (error, *getattr(error, "others", ()))]


ON_CALIENT = {"one": "tx: ocs.1, rx: ocs.321", "other": "tx: ocs.2, rx: ocs.322"}


def test_a_port_beyond_the_shape_of_an_s320_is_refused(tmp_path):
    (said,) = problems(tmp_path, CALIENT.format(more=", 999"), **ON_CALIENT)
    assert said == (
        "10:91: switches.ocs.ports: a 320×320 calient has no port 999; its inputs are 1-320, its "
        "outputs 321-640"
    )


def test_wiring_ten_ports_of_a_1x8_switch_is_refused(tmp_path):
    wired = {"one": "tx: ocs.1, rx: ocs.2", "other": "packet: tor.1"}
    said = problems(tmp_path, "driver: agiltron, ports: [1-10]", resource=TTY, **wired)
    assert said[-1].endswith(
        "switches.ocs.ports: a 1×8 agiltron has no port 10; its inputs are 1, its outputs 2-9"
    )


def test_tx_and_rx_swapped_are_refused_where_the_size_is_known(tmp_path):
    wired = {"one": "tx: ocs.321, rx: ocs.1", "other": "tx: ocs.2, rx: ocs.322"}
    tx, rx = problems(tmp_path, CALIENT.format(more=""), **wired)
    assert "hosts.h0.ports.p0.tx: light leaves the switch at ocs.321 and cannot enter it" in tx
    assert "hosts.h0.ports.p0.rx: light enters the switch at ocs.1 and cannot leave it" in rx
    assert tx.endswith("the inputs of ocs are 1-320; are tx and rx swapped?")


def test_tx_and_rx_swapped_are_refused_where_the_size_is_unknown(tmp_path):
    (said,) = problems(tmp_path, POLATIS, one="tx: ocs.17, rx: ocs.1")
    assert said == (
        "5:61: hosts.h0.ports.p0.tx: light enters the switch at ocs.17 and leaves it at ocs.1, a "
        "lower port; inputs come before outputs; are tx and rx swapped?"
    )


def test_an_ingress_port_numbered_above_an_egress_port_is_refused(tmp_path):
    (said,) = problems(tmp_path, POLATIS, one="tx: ocs.20, rx: ocs.21")
    assert "light enters at ocs.20, a higher port than ocs.18, where light leaves" in said
    assert said.endswith("see hosts.h1.ports.p0.rx")


def test_an_unreachable_idle_port_is_refused(tmp_path):
    (said,) = problems(tmp_path, CALIENT.format(more="") + ", safe: {3: 4}", **ON_CALIENT)
    assert said.endswith(
        "switches.ocs.safe.3: 3 must be an input and 4 an output with a higher number; the inputs "
        "of ocs are 1-320"
    )


@pytest.mark.parametrize(
    ("safe", "reason"),
    [
        ("{18: 2}", "18 must be an input and 2 an output"),
        ("{19: 20}", "19 must be an input and 20 an output"),
        ("{1: 2}", "1 must be an input and 2 an output"),
    ],
)
def test_a_reversed_idle_circuit_is_refused_where_the_size_is_unknown(tmp_path, safe, reason):
    (said,) = problems(tmp_path, f"{POLATIS}, safe: {safe}")
    assert said.startswith("10:")
    assert f"switches.ocs.safe.{safe[1:].partition(':')[0]}: {reason} with" in said
    assert said.endswith("inputs come before outputs; write it as {ingress: egress}")


def test_an_idle_circuit_between_the_sides_is_accepted_where_the_size_is_unknown(tmp_path):
    assert load_lab(written(tmp_path, f"{POLATIS}, safe: {{3: 19, 16: 20}}")).lab == "bench"


@pytest.mark.parametrize("switch", ["driver: sonic-ocs, ports: [1-32]", CALIENT.format(more="")])
def test_a_bidirectional_port_is_refused_for_a_unidirectional_switch(tmp_path, switch):
    driver = switch.split()[1].rstrip(",")
    said = problems(tmp_path, switch, one="bidi: ocs.1", other="packet: tor.1")
    assert (
        "5:63: hosts.h0.ports.p0.bidi: ocs.1 carries light one way only, as all ports of a "
        f"{driver} do; give the port tx and rx, each a switch port of its own"
    ) in said


def test_a_photonic_mesh_takes_bidirectional_ports_where_its_options_name_some(tmp_path):
    mesh = "driver: photonic-mesh, ports: [1-4]"
    wired = {"one": "bidi: ocs.1", "other": "bidi: ocs.3"}
    assert load_lab(written(tmp_path, f"{mesh}, bidi: [0, 3, 6, 9]", **wired)).lab == "bench"
    said = problems(tmp_path, mesh, **wired)
    words = "ocs.1 carries light one way only, by the options of ocs"
    assert any(words in each for each in said)


def test_a_bidirectional_port_is_refused_where_its_side_is_unknown(tmp_path):
    said = problems(tmp_path, POLATIS, one="bidi: ocs.1", other="tx: ocs.2, rx: ocs.17")
    assert said == [
        "5:63: hosts.h0.ports.p0.bidi: the file does not tell whether ocs.1 is an input or an "
        "output; write its size, as in switches.ocs.size: [16, 16], inputs and outputs"
    ]


def test_each_bidirectional_port_is_an_input_or_an_output(tmp_path):
    file = written(tmp_path, f"{POLATIS}, size: [16, 16]", one="bidi: ocs.16", other="bidi: ocs.17")
    assert [f.side for f in load_lab(file).wiring().values()] == [Side.INPUT, Side.OUTPUT]


ONE_SIDE = "driver: polatis, size: [16, 0], ports: [1-16{more}]"


def test_idle_circuits_of_a_one_sided_switch_may_name_ports_in_any_order(tmp_path):
    ends = {"one": "tx: ocs.16, rx: ocs.1", "other": "bidi: ocs.3"}
    lab = load_lab(written(tmp_path, ONE_SIDE.format(more="") + ", safe: {4: 7}", **ends))
    assert [fibres.side for fibres in lab.wiring().values()] == [Side.ANY, Side.ANY]


def test_a_one_sided_switch_has_only_its_ports_and_orders_each_pair_by_number(tmp_path):
    safe = ", safe: {7: 4}"
    said = problems(
        tmp_path, ONE_SIDE.replace("1-16{more}", "1-18") + safe, one="bidi: ocs.1", other=OTHER
    )
    assert [line.partition(" ")[2] for line in said] == [
        "switches.ocs.ports: a polatis with 16 ports on one side has no port 17-18; "
        "its ports are 1-16",
        "switches.ocs.safe.7: 7 is not below 4: the lower port comes first; write {4: 7}",
    ]


@pytest.mark.parametrize("port", ["ocs.0", "ocs.4097"])
def test_an_impossible_port_number_is_refused_without_an_invalid_hint(tmp_path, port):
    (said,) = problems(tmp_path, POLATIS, one=f"tx: {port}, rx: ocs.17")
    assert said == (
        f"5:61: hosts.h0.ports.p0.tx: '{port}' is not a switch port: their numbers are 1 to 4096"
    )


def test_a_port_beyond_a_known_size_gets_no_hint_to_list_it(tmp_path):
    sized = "driver: polatis, size: [16, 16], ports: [1-32]"
    said = problems(tmp_path, sized, one="tx: ocs.1, rx: ocs.40")
    assert said == [
        "5:72: hosts.h0.ports.p0.rx: ocs.40 is not among the listed ports of switch ocs; "
        "a polatis of this size has no such port"
    ]


@pytest.mark.parametrize("ssh", ["h0", "you@H0", "h0:22"])
def test_two_hosts_with_one_address_are_refused(tmp_path, ssh):
    (said,) = problems(tmp_path, POLATIS, ssh=ssh)
    assert said.startswith("7:10: hosts.h1.ssh: h0:22 is the SSH address of two hosts; first at ")


def test_two_hosts_behind_one_address_with_different_ports_are_accepted(tmp_path):
    assert load_lab(written(tmp_path, POLATIS, ssh="h0:2222")).lab == "bench"


def test_every_switch_driver_defines_its_port_numbers():
    for name, kind in kinds("drivers").items():
        if kind.role == "switch" and kind.implementation.startswith("testbed_drivers."):
            assert kind.sides is not None, name
            inputs, outputs = kind.sides(kind.options())
            assert inputs >= 0 and outputs >= 0


def test_a_matrix_over_a_twin_setting_that_cannot_change_is_refused(tmp_path):
    file = tmp_path / "rates.yaml"
    file.write_text(
        "experiment: rates\nquestion: Is it faster?\nneeds: {hosts: 2}\n"
        "jobs: {main: {kind: train, ranks: 2}}\n"
        "matrix: {lab.twin.rate: [100 Mbit/s, 500 Mbit/s]}\n"
    )
    with pytest.raises(FileError) as refused:
        load_experiment(file)
    assert str(refused.value).startswith(
        f"{file}:5:10: lab.twin.rate cannot change from one trial to the next; set it for the whole"
    )


RACK = Path(__file__).parents[3] / "configs" / "rack.yaml"


def test_an_outlet_beyond_the_size_of_its_unit_is_refused(tmp_path):
    sized = RACK.read_text().replace("driver: redfish,", "driver: redfish, outlets: 5,")
    (tmp_path / "lab.yaml").write_text(sized)
    with pytest.raises(FileError) as refused:
        load_lab(tmp_path / "lab.yaml")
    assert str(refused.value).split("lab.yaml:")[1] == (
        "40:12: hosts.h5.power: pdu has no outlet 6; see power.pdu.outlets"
    )
    (tmp_path / "lab.yaml").write_text(sized.replace("outlets: 5", "outlets: 6"))
    assert load_lab(tmp_path / "lab.yaml").power["pdu"].options.outlets == 6


@pytest.mark.parametrize("size", ["[0, 16]", "[-1, 0]", "[16, -1]"])
def test_a_switch_size_that_no_model_has_is_refused(tmp_path, size):
    (said,) = problems(tmp_path, f"{POLATIS}, size: {size}")
    assert f"size {size} is not inputs and outputs, as [16, 16]" in said
