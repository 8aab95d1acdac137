"""The topology of a job, as a file gives it."""

import pytest

from testbed.errors import FileError
from testbed.fabric.topologies import (
    TOPOLOGIES,
    AllToAll,
    Graph,
    Pairs,
    Rails,
    Ring,
    TimeSlots,
    Torus,
)
from testbed.schema import load_experiment
from testbed.schema.json_schema import json_schema


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return what reads a job's topology, with overrides."""
    monkeypatch.chdir(tmp_path)

    def read(topology, *overrides):
        (tmp_path / "f").write_text(
            "experiment: e\nquestion: How?\nneeds: {hosts: 4}\n"
            f"jobs: {{main: {{kind: allreduce, ranks: 4, sizes: [4 KiB]{topology}}}}}\n"
        )
        return load_experiment("f", overrides).jobs["main"].options.topology

    return read


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("", Ring()),
        (", topology: ring", Ring()),
        (", topology: {kind: ring, fibres: 2}", Ring(2)),
        (", topology: pairs", Pairs()),
        (", topology: {kind: pairs, stride: 2, fibres: 3}", Pairs(2, 3)),
        (", topology: {kind: torus, shape: [2, 2]}", Torus((2, 2))),
        (", topology: all-to-all", AllToAll()),
        (", topology: {kind: rails, ranks_per_host: 2}", Rails(2)),
        (", topology: {kind: rails, ranks_per_host: 2, each: pairs}", Rails(2, Pairs())),
        (
            ", topology: {kind: rails, ranks_per_host: 2, each: {kind: torus, shape: [2]}}",
            Rails(2, Torus((2,))),
        ),
        (", topology: {kind: graph, links: [[0, 1], [2, 3]]}", Graph(((0, 1), (2, 3)))),
        (
            ", topology: {kind: time-slots, slots: [[[0, 1]], []]}",
            TimeSlots((((0, 1),), ())),
        ),
    ],
)
def test_a_topology_is_a_name_or_a_kind_with_options(read, written, found):
    assert read(written) == found


def test_an_override_sets_a_topology_or_an_option_of_it(read):
    assert read("", "jobs.main.topology=pairs") == Pairs()
    ring = ", topology: {kind: ring}"
    assert read(ring, "jobs.main.topology.fibres=2") == Ring(2)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("rng", "4:68: jobs.main.topology: 'rng' is not one of the topologies; did you mean"),
        ("{kind: toru}", "4:75: jobs.main.topology.kind: 'toru' is not one of the topologies; did"),
        ("[ring]", "4:68: jobs.main.topology: expected a topology by name, or as {kind: torus"),
        ("3", "4:68: jobs.main.topology: expected a topology by name"),
        ("{fibres: 2}", "jobs.main.topology: the key 'kind' is missing; known: "),
        ("torus", "jobs.main.topology: the key 'shape' is missing"),
        ("{kind: torus}", "jobs.main.topology: the key 'shape' is missing"),
        ("{kind: torus, shape: [2, x]}", "4:93: jobs.main.topology.shape.1: expected a whole"),
        ("{kind: torus, shape: [2, 0]}", "jobs.main.topology: a torus has axes of at least one"),
        ("{kind: ring, fibre: 2}", "4:81: jobs.main.topology.fibre: no such key; did you mean"),
        ("{kind: ring, fibres: 0}", "jobs.main.topology: fibres must be at least 1, not 0"),
        ("{kind: graph, links: [[0]]}", "jobs.main.topology.links.0"),
        (
            "{kind: rails, ranks_per_host: 2, each: rails}",
            "4:107: jobs.main.topology.each: 'rails' is not one of the topologies",
        ),
        (
            "{kind: rails, ranks_per_host: 2, each: {kind: ring, fibres: 0}}",
            "jobs.main.topology.each: fibres must be at least 1, not 0",
        ),
    ],
)
def test_a_mistake_is_told_at_its_place(read, written, said):
    with pytest.raises(FileError) as refused:
        read(f", topology: {written}")
    assert str(refused.value).startswith("f:4:")
    assert said in str(refused.value)


def test_editors_are_told_every_topology_with_its_options():
    jobs = json_schema("experiment")["properties"]["jobs"]["patternProperties"]
    (entry,) = jobs.values()
    job = next(one for one in entry["oneOf"] if one["title"] == "allreduce")
    names, *kinds = job["properties"]["topology"]["oneOf"]
    assert names == {"enum": ["all-to-all", "pairs", "ring"]}
    assert {one["title"] for one in kinds} == set(TOPOLOGIES)
    assert all(one["properties"]["kind"] == {"const": one["title"]} for one in kinds)
    assert "default" not in job["properties"]["topology"]
    rails = next(one for one in kinds if one["title"] == "rails")
    within = {one["title"] for one in rails["properties"]["each"]["oneOf"][1:]}
    assert within == set(TOPOLOGIES) - {"rails"}
