"""Where light that leaves a switch comes from, over fibres from other switches."""

from pathlib import Path

import pytest

from testbed.fabric.circuits import SwitchPort
from testbed.schema import load_lab
from testbed.twin.layout import lay_out
from testbed.twin.light import origin

SLICES = Path(__file__).parents[3] / "configs" / "slices.yaml"


def feeds():
    found = {}
    for pair in load_lab(SLICES).fibre_pairs().values():
        found |= {pair.near.tx: pair.far.rx, pair.far.tx: pair.near.rx}
    return found


def paths(*rows):
    """Return paths through switches, each as `mesh0.1 11`, by egress."""
    found = {}
    for row in rows:
        ingress, egress = row.split()
        entry = SwitchPort.parse(ingress)
        found[SwitchPort(entry.switch, int(egress))] = entry
    return found


H1_P1, H2_P1, H0_P0 = SwitchPort("mesh1", 8), SwitchPort("mesh2", 8), SwitchPort("mesh0", 7)


@pytest.mark.parametrize(
    ("rows", "at", "source"),
    [
        (["mesh0.1 11", "mesh1.3 8"], H1_P1, "mesh0.1"),
        (["mesh0.1 11", "mesh1.3 11", "mesh2.3 8"], H2_P1, "mesh0.1"),
        (["mesh0.1 11", "mesh2.3 8"], H2_P1, "None"),
        (["mesh0.1 11"], H1_P1, "None"),
        (["mesh1.1 8"], H1_P1, "mesh1.1"),
        (["mesh0.1 12", "mesh1.3 8"], H1_P1, "None"),
    ],
)
def test_light_is_followed_over_fibres_to_where_it_entered_first(rows, at, source):
    assert str(origin(at, paths(*rows), feeds())) == source


def test_light_in_a_circle_of_switches_comes_from_nowhere():
    around = [f"mesh{n}.3 11" for n in range(6)]
    assert origin(SwitchPort("mesh4", 11), paths(*around), feeds()) is None
    opened = [*around[1:], "mesh0.3 7", "mesh0.1 11"]
    assert str(origin(H0_P0, paths(*opened), feeds())) == "mesh0.1"


def test_a_twin_refuses_light_from_another_switch_that_would_be_measured(tmp_path):
    text = SLICES.read_text()
    old = text[text.index("  mesh3: {driver") : text.index("  mesh4: {driver")]
    new = '  mesh3: {driver: polatis, resource: "tcp://192.0.2.23:5025", ports: [1-12]}\n'
    (tmp_path / "lab.yaml").write_text(text.replace(old, new))
    with pytest.raises(
        ValueError, match=r"fibres.f23a: a twin .* and mesh3, a polatis, may measure"
    ):
        lay_out(load_lab(tmp_path / "lab.yaml"))
