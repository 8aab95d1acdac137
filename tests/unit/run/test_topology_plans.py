"""Topologies that experiment files name: which circuits are planned, and what is refused where."""

from collections import Counter
from itertools import combinations, count
from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.fabric.topology import ring
from testbed.run.planning.job_circuits import RingPorts
from testbed.run.planning.placement import place
from testbed.schema import load_experiment, load_lab

PACKET_LAB = Path(__file__).parents[3] / "configs" / "packet-quad.yaml"
TRAIN = "kind: train, ranks: 2, spares: 1, "
SPLICE = "policy: {kind: splice}\nfaults: [{kind: rank-kill, target: random, at: {step: 9}}]\n"


def lab_text(counts, switch_of=lambda port: "ocs"):
    """Return a lab whose hosts have so many ports, each with fibres to the switch of its number."""
    lines, free, switches = ["lab: bench", "hosts:"], count(1), set()
    for host, ports in enumerate(counts):
        lines += [f"  h{host}:", f"    ssh: h{host}", *(["    ports:"] if ports else [])]
        for port in range(ports):
            switch, number = switch_of(port), next(free)
            switches.add(switch)
            at = f"interface: eth{port + 1}, address: 10.0.{host}.{port + 1}/16"
            fibres = f"tx: {switch}.{number}, rx: {switch}.{number + 100}"
            lines.append(f"      p{port}: {{{at}, {fibres}}}")
    lines += ["allow: [rank-kill]", "switches:"]
    for n, switch in enumerate(sorted(switches), start=1):
        resource = f"TCPIP::192.0.2.{n}::5025::SOCKET"
        lines.append(f'  {switch}: {{driver: polatis, resource: "{resource}", ports: [1-200]}}')
    return "\n".join(lines) + "\n"


@pytest.fixture
def placed(tmp_path, monkeypatch):
    """Return what places a job of a topology in a lab."""
    monkeypatch.chdir(tmp_path)

    def placed(topology, lab, job="kind: command, ranks: 4, command: [run], ", more=""):
        Path("lab.yaml").write_text(lab)
        Path("e.yaml").write_text(
            "experiment: small\nquestion: Which circuits?\nneeds: {hosts: 4, fabric: any}\n"
            f"jobs:\n  main: {{{job}topology: {topology}}}\n{more}"
        )
        return place(load_experiment("e.yaml"), load_lab("lab.yaml"))["main"]

    return placed


def neighbours(found):
    """Count the circuits between each two hosts."""
    return Counter(tuple(sorted(circuit.hosts)) for circuit in found.circuits)


RING = ["h0", "h1"], ["h1", "h2"], ["h2", "h3"], ["h0", "h3"]


@pytest.mark.parametrize(
    "topology",
    [
        "ring",
        "{kind: ring}",
        "{kind: torus, shape: [4]}",
        "{kind: torus, shape: [1, 4]}",
        "{kind: rails, ranks_per_host: 1}",
        "{kind: rails, ranks_per_host: 1, each: {kind: torus, shape: [4]}}",
    ],
)
def test_one_fibre_to_each_neighbour_is_the_ring_from_last_ports_to_first_ones(placed, topology):
    found = placed(topology, lab_text([2] * 4))
    hosts = ["h0", "h1", "h2", "h3"]
    assert found.circuits == ring(hosts, dict.fromkeys(hosts, ("p0", "p1")))
    assert found.ring_ports == dict.fromkeys(hosts, RingPorts("p0", "p1"))


def test_two_fibres_to_each_neighbour_are_two_circuits(placed):
    found = placed("{kind: ring, fibres: 2}", lab_text([4] * 4))
    assert neighbours(found) == dict.fromkeys(map(tuple, RING), 2)
    assert set(found.ring_ports.values()) == {RingPorts("p1", "p3")}


def test_a_graph_with_a_ring_in_it_may_have_other_links(placed):
    links = "[[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]"
    found = placed(f"{{kind: graph, links: {links}}}", lab_text([3] * 4))
    assert sorted(map(str, found.circuits)) == [
        "h0.p0–h1.p0",
        "h0.p1–h3.p1",
        "h0.p2–h2.p2",
        "h1.p1–h2.p0",
        "h2.p1–h3.p0",
    ]
    assert found.ring_ports == {
        "h0": RingPorts("p1", "p0"),
        "h1": RingPorts("p0", "p1"),
        "h2": RingPorts("p0", "p1"),
        "h3": RingPorts("p0", "p1"),
    }


def test_all_to_all_with_a_port_for_every_peer_joins_all_through_a_switch_for_each_port(placed):
    found = placed("all-to-all", lab_text([3] * 4, lambda port: f"ocs{port}"))
    assert neighbours(found) == dict.fromkeys(combinations(["h0", "h1", "h2", "h3"], 2), 1)
    assert {end.port for c in found.circuits for end in c.ends} == {"p0", "p1", "p2"}
    assert all(len({end.port for end in circuit.ends}) == 1 for circuit in found.circuits)


def test_two_ranks_with_one_port_each_are_a_ring_over_one_circuit(placed):
    found = placed("ring", lab_text([1] * 4), "kind: command, ranks: 2, command: [run], ")
    assert list(map(str, found.circuits)) == ["h0.p0–h1.p0"]
    assert set(found.ring_ports.values()) == {RingPorts("p0", "p0")}


def test_of_a_host_with_more_ports_than_others_the_first_and_the_last_are_used(placed):
    found = placed("ring", lab_text([2, 5, 2, 2]))
    assert "h1.p4–h2.p0" in map(str, found.circuits)
    assert found.ring_ports["h1"] == RingPorts("p0", "p4")


def test_a_rank_alone_has_no_circuit(placed):
    found = placed("ring", lab_text([2] * 4), "kind: command, ranks: 1, command: [run], ")
    assert found.circuits == frozenset()
    assert found.ring_ports == {"h0": RingPorts("p0", "p1")}


REFUSED = {
    "a ring of more than two ranks with one port": (
        ("ring", lab_text([1] * 4)),
        "the fibres of lab bench cannot make this ring: a ring of 4 ranks with 1 fibre to each "
        "neighbour takes 2 ports on each rank, not 1: with fewer, only a matching per round can "
        "join them",
    ),
    "one host with too few ports": (
        ("{kind: ring, fibres: 2}", lab_text([4, 4, 3, 4])),
        "the fibres of lab bench cannot make this ring: a ring of 4 ranks with 2 fibres to each "
        "neighbour takes 4 ports on each rank, not 3: with fewer, only a matching per round can "
        "join them; h2 has 3",
    ),
    "a host without a port": (
        ("pairs", lab_text([1, 1, 0, 1])),
        "the fibres of lab bench cannot make this pairs: h2 has no fabric port",
    ),
    "fibres that lead to different switches": (
        ("ring", lab_text([2] * 4, lambda port: f"ocs{port}")),
        "the fibres of lab bench cannot make this ring: rank 0 port 0 cannot be joined with rank 3 "
        "port 1: h0.p0 ends on ocs0 and h3.p1 on ocs1: no path of light, and 3 more links",
    ),
    "a torus of another size": (
        ("{kind: torus, shape: [2, 3]}", lab_text([4] * 4)),
        "the fibres of lab bench cannot make this torus: a torus of 2×3 has 6 ranks, not 4",
    ),
    "ranks that are joined, but not in a ring": (
        ("{kind: torus, shape: [2, 2]}", lab_text([4] * 4)),
        "the ranks of job main begin together in a ring, and rank 1 is not joined with rank 2; "
        "join each rank with the next and the last with the first",
    ),
    "several matchings": (
        ("all-to-all", lab_text([2] * 4)),
        "this all-to-all takes 2 matchings, one after the other, and nothing in this experiment "
        "re-points them; hosts with more fabric ports need fewer matchings",
    ),
    "time slots": (
        ("{kind: time-slots, slots: [[[0, 1]], [[2, 3]]]}", lab_text([1] * 4)),
        "this time-slots takes 2 matchings",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_joined_is_refused_at_the_topology(placed, what):
    asked, said = REFUSED[what]
    with pytest.raises(FileError) as refused:
        placed(*asked)
    column = Path("e.yaml").read_text().splitlines()[4].index("topology: ") + len("topology: ") + 1
    assert str(refused.value).startswith(f"e.yaml:5:{column}: {said}")


def test_a_spare_must_be_able_to_take_every_place(placed):
    lab = lab_text([2] * 4).replace("tx: ocs.6, rx: ocs.106", "tx: far.6, rx: far.106")
    lab += '  far: {driver: polatis, resource: "TCPIP::192.0.2.9::5025::SOCKET", ports: [1-200]}\n'
    with pytest.raises(FileError, match=r"h0\.p0 ends on ocs and h2\.p1 on far"):
        placed("ring", lab, TRAIN)
    assert placed("ring", lab, TRAIN.replace("spares: 1", "spares: 0")).spares == ()


@pytest.mark.parametrize(
    ("topology", "ports"), [("{kind: ring, fibres: 2}", 4), ("{kind: pairs}", 2)]
)
def test_a_policy_that_makes_a_ring_is_refused_with_other_circuits(placed, topology, ports):
    assert placed(topology, lab_text([ports] * 4), TRAIN).spares == ("h2",)
    with pytest.raises(FileError, match=r"e\.yaml:6:16: splice re-points a ring with one fibre"):
        placed(topology, lab_text([ports] * 4), TRAIN, SPLICE)


def test_a_packet_switch_makes_no_topology(placed):
    packet = PACKET_LAB.read_text()
    assert placed("ring", packet).ring_ports == {}
    with pytest.raises(FileError, match="a packet switch has no circuits to make a torus of"):
        placed("{kind: torus, shape: [4]}", packet)
