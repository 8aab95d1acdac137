"""Fibres between switches in a lab file, and the rack whose servers they join."""

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.fabric.circuits import Circuit, HostPort, cross_connects
from testbed.schema import load_lab

SLICES = Path(__file__).parents[3] / "configs" / "slices.yaml"
F01A = "  f01a: [{tx: mesh0.5, rx: mesh0.11}, {tx: mesh1.3, rx: mesh1.9}]\n"


def problems(tmp_path, *changes):
    text = SLICES.read_text()
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(FileError) as refused:
        load_lab(tmp_path / "lab.yaml")
    error = refused.value
    return [str(one).split("lab.yaml:")[1] for one in (error, *getattr(error, "others", ()))]


def test_fibres_lead_from_switch_to_switch():
    pair = load_lab(SLICES).fibre_pairs()["f01a"]
    assert list(map(str, pair.ends)) == ["mesh0.5", "mesh0.11", "mesh1.3", "mesh1.9"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            F01A,
            "",
            "1 of the fibre pairs join h0 and h1, 2 join h0 and h5; in a torus all neighbours have "
            "equally many",
        ),
        (
            "servers: [6, 1, 1]",
            "servers: [6, 1]",
            "rack.servers: element 3 of the list is missing",
        ),
        (
            F01A,
            F01A.replace("mesh1.3", "mesh2.3"),
            "fibres.f01a.1: mesh2.3 and mesh1.9 are on two switches: this is one end",
        ),
        (
            F01A,
            F01A.replace("mesh1", "mesh0").replace("mesh0.3, rx: mesh0.9", "mesh0.6, rx: mesh0.12"),
            "both ends are at mesh0, and fibres join two switches",
        ),
        (
            "servers: [6, 1, 1]",
            "servers: [5, 1, 1]",
            "rack.servers: 5 servers, and the lab has 6 hosts",
        ),
        (
            "servers: [6, 1, 1]",
            "servers: [2, 3, 1]",
            "joins no switches of two servers that are neighbours in the rack",
        ),
        (
            "rx: mesh0.11}, {tx",
            "rx: mesh0.7}, {tx",
            "mesh0.7 is wired twice",
        ),
        (
            "tx: mesh<n>.1, rx: mesh<n>.7",
            "tx: mesh0.<n+1>, rx: mesh0.<n+7>",
            "end on one switch, and those of h1 on mesh0 and mesh1",
        ),
        ("mesh0.11", "mesh0.13", "mesh0.13 is not among the listed ports of switch mesh0"),
    ],
)
def test_what_is_no_torus_of_servers_is_refused(tmp_path, old, new, said):
    assert any(said in one for one in problems(tmp_path, (old, new)))


def test_a_rack_without_fibres_is_refused(tmp_path):
    text = SLICES.read_text()
    start, end = text.index("fibres:\n"), text.index("switches:\n")
    said = problems(tmp_path, (text[start:end], ""))
    assert any("no fibres join its servers; list them under `fibres`" in one for one in said)


TWO = """\
lab: two
rack: {{servers: [2, 1, 1]}}
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: one.1, rx: one.2}}}}}}
  h1: {{ssh: h1, ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: {0}.3, rx: {0}.4}}}}}}
fibres: {{{1}}}
switches:
  one: {{driver: polatis, resource: "tcp://192.0.2.1:1", ports: [1-8], size: [8, 0]}}
  two: {{driver: polatis, resource: "tcp://192.0.2.2:1", ports: [1-8], size: [8, 0]}}
"""
A = "a: [{tx: one.7, rx: one.8}, {tx: two.7, rx: two.8}]"
B = "b: [{tx: one.5, rx: one.6}, {tx: two.5, rx: two.6}]"


def two(tmp_path, switch, fibres):
    """Read a rack of two servers, the second of which is on a switch, with fibres."""
    (tmp_path / "lab.yaml").write_text(TWO.format(switch, fibres))
    return load_lab(tmp_path / "lab.yaml")


def test_two_servers_on_one_switch_are_refused(tmp_path):
    with pytest.raises(FileError, match=r"2:17: rack\.servers: two servers of a rack are on one"):
        two(tmp_path, "one", "")


def test_fibres_along_an_axis_of_two_servers_are_even_in_number(tmp_path):
    with pytest.raises(FileError, match=r"1 of the fibre pairs join h0 and h1; .* number is even"):
        two(tmp_path, "two", A)


def test_on_a_switch_with_one_side_the_lower_port_of_a_cross_connect_comes_first(tmp_path):
    lab = two(tmp_path, "two", f"{A}, {B}")
    ends = HostPort("h0", "p0"), HostPort("h1", "p0")
    found = cross_connects([Circuit.between(*ends, [lab.fibre_pairs()["a"]])], lab.wiring())
    assert sorted(map(str, found)) == ["one.1→8", "one.2→7", "two.3→8", "two.4→7"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rx: mesh<n>.7}", "rx: mesh<n>.7, max_dbm: -3 dBm}", "hosts.h0.ports.p0.max_dbm: max_dbm"),
        ("identity: TB-0020", "identity: TB-0020, keep_alive: [7]", "mesh0.keep_alive: keep_alive"),
    ],
)
def test_limits_on_light_are_refused_where_other_switches_change_it(tmp_path, old, new, said):
    found = problems(tmp_path, (old, new))
    assert any(f"{said} cannot be kept where `fibres` bring light" in one for one in found)
