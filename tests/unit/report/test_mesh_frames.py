"""The figures of photonic meshes, from what a run sent to them."""

import json

import pytest

from testbed.analysis.summary import summarise
from testbed.events import Event
from testbed.fabric.mesh import hexagonal
from testbed.fabric.mesh_routes import route
from testbed.report.canvas import WIDE
from testbed.report.mesh_frames import frames, mesh_drawings, routed_drawing
from testbed.schema import load_experiment
from testbed_drivers.switches.photonic_mesh import cells_line

LAB = """
lab: small
hosts:
  h0: {ssh: h0, ports: {p0: {interface: eth1, address: 10.0.0.1/24, tx: mesh.1, rx: mesh.4}}}
  h1: {ssh: h1, ports: {p0: {interface: eth1, address: 10.0.0.2/24, tx: mesh.2, rx: mesh.5}}}
switches:
  mesh:
    driver: photonic-mesh
    resource: TCPIP::192.0.2.10::5025::SOCKET
    ports: [1-6]
    width: 3
    height: 3
"""
MESH = hexagonal(3, 3)
WANTED = ({1: 5, 2: 4}, {1: 4}, {1: 5, 2: 4})


def line(direction, data):
    return json.dumps({"mono": 1.0, "instrument": "mesh", "direction": direction, "data": data})


@pytest.fixture
def run(tmp_path):
    (tmp_path / "lab.yaml").write_text(LAB)
    (tmp_path / "wire").mkdir()
    sent = [cells_line(dict(enumerate(route(MESH, one).setting))) + "\n" for one in WANTED]
    said = cells_line(dict(enumerate(route(MESH, {2: 6}).setting)))  # nothing that was sent
    rows = [line("receive", "photonic mesh, 38 cells\n"), *(line("send", one) for one in sent)]
    rows += [line("send", "[(0, 'x')]\n"), line("note", said), '{"mono": 1.0, "dire']
    (tmp_path / "wire" / "mesh.jsonl").write_text("\n".join(rows))
    return tmp_path


def test_there_is_a_frame_for_each_set_of_circuits_in_order(run):
    assert [frame.circuits for frame in frames(run)] == [WANTED[0], WANTED[1]]


def test_a_figure_has_the_cells_of_every_route_as_rows(run):
    first, second = mesh_drawings(run)
    assert (first.name, second.name) == ("mesh-01", "mesh-02")
    assert first.headings == ("ingress", "egress", "place", "cell", "gate")
    paths = route(MESH, WANTED[0]).paths
    by_circuit = {i: [(row[3], row[4]) for row in first.rows if row[0] == i] for i in (1, 2)}
    assert by_circuit == {i: [(s.cell, s.gate.value) for s in paths[i].steps] for i in (1, 2)}


def test_the_light_of_a_circuit_is_drawn_through_as_many_corners_as_cells_and_one_more(run):
    first, _ = mesh_drawings(run)
    (ax,) = first.draw(WIDE).axes
    drawn = {drawing.get_label(): len(drawing.get_xdata()) for drawing in ax.lines}
    paths = route(MESH, WANTED[0]).paths
    assert drawn == {
        f"{i} to {e}: {len(paths[i].steps)} cells": len(paths[i].steps) + 1
        for i, e in WANTED[0].items()
    }
    (sides,) = ax.collections
    assert len(sides.get_segments()) == len(MESH.cells)
    assert {text.get_text() for text in ax.texts} == set("123456")


def test_a_run_without_a_mesh_has_no_such_figure(tmp_path):
    assert list(mesh_drawings(tmp_path)) == []
    (tmp_path / "lab.yaml").write_text(LAB)
    assert list(mesh_drawings(tmp_path)) == []


DEGRADED = """
experiment: degraded
question: How much is routed?
needs: {hosts: 0, fabric: any}
jobs: {main: {kind: mesh-model, width: 2, height: 2, ranks: 4, stuck: 1}}
variants: {k1: {}, k2: {jobs.main.stuck: 2}}
"""


def summary(tmp_path, said):
    path = tmp_path / "degraded.yaml"
    path.write_text(DEGRADED)
    events = [Event(0, 0.0, "run.begin", "degraded", None, {"label": "model", "lab": "rack"})]
    for number, (arm, share) in enumerate(said):
        events.append(Event(len(events), 0.0, "trial.begin", arm, number, {}))
        values = {"matchings_routed": share, "meshes_routed": share / 2}
        events.append(Event(len(events), 0.0, "model", arm, number, values))
        end = {"valid": True, "recovered": True, "reason": ""}
        events.append(Event(len(events), 0.0, "trial.end", arm, number, end))
    return summarise("1", load_experiment(path), events)


def test_what_was_routed_is_drawn_by_arm_in_percent(tmp_path):
    found = summary(tmp_path, [("k1", 1.0), ("k2", 0.5), ("k1", 0.8), ("k2", 0.4)])
    (drawing,) = routed_drawing(found)
    assert drawing.name == "routed"
    expected = [
        ("k1", "matchings_routed", 2, 90, 80, 100),
        ("k1", "meshes_routed", 2, 45, 40, 50),
        ("k2", "matchings_routed", 2, 45, 40, 50),
        ("k2", "meshes_routed", 2, 22.5, 20, 25),
    ]
    assert [row[:2] for row in drawing.rows] == [row[:2] for row in expected]
    assert [row[2:] for row in drawing.rows] == [pytest.approx(row[2:]) for row in expected]
    (ax,) = drawing.draw(WIDE).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert drawn == {
        "matchings routed": pytest.approx([90, 45]),
        "meshes routed": pytest.approx([45, 22.5]),
    }


def test_one_arm_alone_is_not_drawn(tmp_path):
    assert list(routed_drawing(summary(tmp_path, [("k1", 1.0)]))) == []
