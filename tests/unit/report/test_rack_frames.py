"""The figures of racks, from the options and the seed of a run that models them."""

import pytest

from testbed.rack.fleet import MIXES
from testbed.rack.fleet_study import case
from testbed.rack.history import history
from testbed.rack.torus import Torus
from testbed.report.canvas import WIDE
from testbed.report.rack_frames import LENGTH, most_scattered, rack_drawings

EXPERIMENT = """
experiment: fleet
question: How are slices placed?
needs: {hosts: 0, fabric: any}
jobs: {main: {kind: fleet-model, racks: 2}}
variants: {equal: {}, chips: {jobs.main.mix: equal-chips}}
"""
SEED = 4
MOMENTS = {
    arm: history(Torus(), MIXES[mix], SEED, spares=frozenset({15}), length=LENGTH)
    for arm, mix in (("equal", "equal-requests"), ("chips", "equal-chips"))
}


@pytest.fixture
def found(tmp_path):
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    return {drawing.name: drawing for drawing in rack_drawings(tmp_path, SEED)}


def test_a_run_that_models_racks_has_one_rack_for_each_arm(found):
    assert list(found) == ["rack-equal", "rack-chips", "fragmentation", "rack-gain"]


def test_a_rack_is_drawn_with_its_chips_and_the_circuits_of_its_slices(found):
    moment = most_scattered(MOMENTS["chips"])
    assert moment.scattered
    drawing = found["rack-chips"]
    paths = {(row[0], row[4]) for row in drawing.rows}
    expected = {
        (n, " ".join(map(str, path))) for n, of in enumerate(moment.slices) for path in of.paths
    }
    assert paths == expected
    (ax,) = drawing.draw(WIDE).axes
    hops = sum(len(path) - 1 for of in moment.slices for path in dict.fromkeys(of.paths))
    assert len(ax.lines) == hops
    points = [len(group.get_offsets()) for group in ax.collections]
    free, spare, *slices = points
    assert (free, spare, sum(points)) == (4 * len(moment.free), 4, 64)
    assert slices == [4 * len(of.servers) for of in moment.slices]


def test_fragmentation_is_drawn_over_the_changes_of_a_rack(found):
    (ax,) = found["fragmentation"].draw(WIDE).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert drawn == {arm: [m.fragmentation for m in of] for arm, of in MOMENTS.items()}
    first = found["fragmentation"].rows[0]
    assert first == ("equal", 0, "placed", MOMENTS["equal"][0].fragmentation)


def test_the_gains_of_racks_are_those_of_the_first_cluster(found):
    gains = sorted(case("equal-requests", SEED, 2).bandwidth.gain["communication-bound"])
    assert [row[1] for row in found["rack-gain"].rows if row[0] == "equal"] == gains
    (ax,) = found["rack-gain"].draw(WIDE).axes
    assert list(ax.lines[0].get_xdata()) == gains
    assert [text.get_text().strip() for text in ax.texts] == [
        "half of the paper's racks",
        "the paper's best",
    ]


def test_other_runs_have_no_racks(tmp_path):
    assert list(rack_drawings(tmp_path, SEED)) == []
    text = EXPERIMENT.replace("fleet-model, racks: 2", "mesh-model, width: 2, height: 2, ranks: 4")
    text = text.replace("mix: equal-chips", "ranks: 2")
    (tmp_path / "experiment.yaml").write_text(text)
    assert list(rack_drawings(tmp_path, SEED)) == []
