"""The search for fibres, against fibres that lead where a test says and not where the file does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.circuits import Circuit, Fibres, HostPort, Side, SwitchPort, cross_connects
from testbed.fabric.fibre_search import FibreSearch

TX, RX, BOTH = ("tx",), ("rx",), ("tx", "rx")


def wired(hosts, ports=1, switch="ocs"):
    """Return what a lab file says: each port has two fibres of its own."""
    numbers = iter(range(1, hosts * ports + 1))
    return {
        HostPort(f"h{host}", f"p{port}"): Fibres(SwitchPort(switch, n), SwitchPort(switch, n + 100))
        for host in range(hosts)
        for port in range(ports)
        if (n := next(numbers))
    }


class Room:
    """Fibres as they really are, under what the lab file says of them.

    A circuit is the light of its cross-connects; who hears whom follows from the true fibres.
    """

    def __init__(self, file):
        self.file = file
        self.fibres = dict(file)
        self.dirty = {}
        """The share of frames that each port's fibres lose."""
        self.lit = []
        self.told = []

    def swap(self, one, other, ends=BOTH):
        mine, theirs = self.fibres[one], self.fibres[other]
        self.fibres[one] = replace(mine, **{end: getattr(theirs, end) for end in ends})
        self.fibres[other] = replace(theirs, **{end: getattr(mine, end) for end in ends})

    def unplug(self, port):
        self.fibres[port] = Fibres(SwitchPort("floor", 1), SwitchPort("floor", 2))

    def carries(self, circuit, wiring):
        self.lit.append(circuit)
        paths = {
            SwitchPort(c.switch, one): SwitchPort(c.switch, other)
            for c in cross_connects([circuit], wiring)
            for one, other in ((c.ingress, c.egress), (c.egress, c.ingress))
        }
        sinks = {fibres.rx: port for port, fibres in self.fibres.items()}
        a, b = circuit.ends
        heard_by = {p: sinks.get(paths.get(self.fibres[p].tx)) for p in (a, b)}
        if a.host == b.host or heard_by != {a: b, b: a}:
            return None
        lost = max(self.dirty.get(port, 0.0) for port in circuit.ends)
        return {a: lost, b: lost}

    def search(self):
        """Return the state of every port, having checked that each was told once."""
        findings = FibreSearch(self.file, self.carries, self.told.append).run()
        assert [finding.port for finding in findings] == list(self.file)
        assert sorted(self.told, key=findings.index) == findings
        self.text = {str(finding.port): finding.text for finding in findings}
        return {str(finding.port): finding.state for finding in findings}


def states(room, state, *ports):
    """Return what is expected: all ports are found but these."""
    return {str(p): "found" for p in room.file} | dict.fromkeys(map(str, ports), state)


# --- as the file says


@pytest.mark.parametrize(("hosts", "ports"), [(2, 1), (3, 1), (2, 2), (3, 3), (6, 2), (1, 3)])
def test_every_port_of_a_correctly_wired_lab_is_found(hosts, ports):
    room = Room(wired(hosts, ports))
    one_host = hosts == 1  # a host drops what it hears from itself, so nobody can be asked
    expected = states(room, "dark", *room.file) if one_host else states(room, "found")
    assert room.search() == expected
    assert len(room.lit) <= hosts * ports


def test_every_port_is_tested_for_any_number_of_ports_per_host():
    file = wired(1, 5) | {
        HostPort("h1", "p0"): Fibres(SwitchPort("ocs", 50), SwitchPort("ocs", 150))
    }
    room = Room(file)
    assert room.search() == states(room, "found")


def test_a_lab_with_a_single_port_gets_no_verdict_on_its_fibres():
    room = Room(wired(1))
    assert room.search() == {"h0.p0": "dark"}
    assert "this port cannot be tested" in room.text["h0.p0"]
    assert room.lit == []


def test_each_switch_is_searched_separately():
    far = {HostPort(f"x{p.host}", p.port): f for p, f in wired(3, switch="far").items()}
    room = Room(wired(3) | far)
    room.unplug(HostPort("xh1", "p0"))
    found = room.search()
    assert found["xh1.p0"] == "dark"
    assert all({e.host[0] for e in c.ends} in ({"h"}, {"x"}) for c in room.lit)


def test_a_port_may_transmit_into_one_switch_and_receive_from_another():
    file = {
        HostPort(f"h{n}", "p0"): Fibres(SwitchPort("ab"[n % 2], n), SwitchPort("ba"[n % 2], n))
        for n in range(5)
    }
    room = Room(file)
    assert room.search() == states(room, "found")
    room = Room(file)
    room.unplug(HostPort("h2", "p0"))
    assert room.search() == states(room, "dark", "h2.p0")


# --- and where it does not


@pytest.mark.parametrize("ends", [TX, RX, BOTH])
@pytest.mark.parametrize("other", [1, 2, 3, 4, 5])
def test_two_swapped_fibres_are_named_together(ends, other):
    room = Room(wired(6))
    one, other = HostPort("h0", "p0"), HostPort(f"h{other}", "p0")
    room.swap(one, other, ends)
    assert room.search() == states(room, "swapped", one, other)
    what = {TX: "its transmit fibre and that of", RX: "its receive fibre and that of"}
    for here, there in ((one, other), (other, one)):
        words = what.get(ends, "its fibres and those of")
        assert room.text[str(here)].startswith(f"{words} {there} are swapped")


@pytest.mark.parametrize("count", [3, 4])
def test_swapped_connectors_are_detected_although_the_two_ports_reach_each_other(count):
    room = Room(wired(count))
    one, other = HostPort("h0", "p0"), HostPort("h1", "p0")
    room.swap(one, other)
    assert room.carries(Circuit.between(one, other), room.file) is not None
    found = room.search()
    assert (found[str(one)], found[str(other)]) == ("swapped", "swapped")


def test_a_swap_between_two_lone_ports_is_undetectable_and_harmless():
    room = Room(wired(2))
    room.swap(*room.file)
    assert room.search() == states(room, "found")


def test_single_fibre_ports_are_swapped_in_both_directions_together():
    both_ways = {HostPort(f"h{n}", "p0"): Fibres(*[SwitchPort("ocs", n)] * 2) for n in range(4)}
    room = Room(both_ways)
    one, other = HostPort("h0", "p0"), HostPort("h2", "p0")
    room.swap(one, other)
    assert room.search() == states(room, "swapped", one, other)
    room = Room(both_ways)
    room.unplug(one)
    room.unplug(other)
    assert room.search() == states(room, "dark", one, other)


def test_an_unconnected_fibre_is_reported_dark_with_its_port():
    room = Room(wired(6))
    room.unplug(HostPort("h2", "p0"))
    assert room.search() == states(room, "dark", "h2.p0")
    assert room.text["h2.p0"] == (
        "no light to or from ocs.3 and ocs.103: unplugged, broken or elsewhere"
    )


@pytest.mark.parametrize("first", [0, 1])
def test_ports_are_found_although_every_other_port_is_dark(first):
    room = Room(wired(6))
    dark = list(room.file)[first::2]
    for port in dark:
        room.unplug(port)
    assert room.search() == states(room, "dark", *dark)


def test_a_search_in_a_dark_lab_ends_early():
    room = Room(wired(6, 2))
    for port in room.file:
        room.unplug(port)
    assert set(room.search().values()) == {"dark"}
    assert len(room.lit) <= 2 * len(room.file)  # every silent circuit takes long


def test_only_the_port_whose_fibres_lose_frames_is_lossy():
    room = Room(wired(6))
    dirty = HostPort("h2", "p0")
    room.dirty[dirty] = 0.125
    assert room.search() == states(room, "lossy", dirty)
    assert "12.5% of its frames lost" in room.text["h2.p0"]


def test_a_finding_is_reported_as_soon_as_it_is_certain():
    room = Room(wired(6))
    after = []
    FibreSearch(room.file, room.carries, lambda finding: after.append(len(room.lit))).run()
    assert after == [2, 2, 3, 4, 5, 5]


def test_a_fibre_search_that_cannot_continue_states_the_reason():
    def refuse(circuit, wiring):
        raise InterruptedError("ended")

    with pytest.raises(InterruptedError, match="ended"):
        FibreSearch(wired(3), refuse, lambda finding: None).run()


# --- whatever happened


@given(st.data())
def test_the_verdict_on_each_port_matches_its_simulated_fibres(data):
    """Three ports side by side are right; of the others, any two are swapped, any are dark."""
    file = wired(data.draw(st.integers(3, 9)))
    room, others = Room(file), list(file)[3:]
    shuffled = data.draw(st.permutations(others))
    swaps = data.draw(st.integers(0, len(others) // 2))
    expected = states(room, "found")
    for n in range(swaps):
        pair = shuffled[2 * n : 2 * n + 2]
        room.swap(*pair, data.draw(st.sampled_from([TX, RX, BOTH])))
        expected |= dict.fromkeys(map(str, pair), "swapped")
    for port in shuffled[2 * swaps :]:
        if data.draw(st.booleans()):
            room.unplug(port)
            expected[str(port)] = "dark"
    assert room.search() == expected


@given(st.data())
def test_no_finding_is_false_for_any_mix_of_faulty_fibres(data):
    """Where one port is right, at least: between exchanged ones nobody can tell."""
    file = wired(data.draw(st.integers(3, 7)))
    room, ports = Room(file), list(file)
    right = data.draw(st.sampled_from(ports))
    rest = [port for port in ports if port != right]
    tx, rx = data.draw(st.permutations(rest)), data.draw(st.permutations(rest))
    for port, sends, hears in zip(rest, tx, rx, strict=True):
        room.fibres[port] = Fibres(file[sends].tx, file[hears].rx)
    are_right = {str(port): room.fibres[port] == file[port] for port in ports}
    for port, state in room.search().items():
        is_right = are_right[port]
        assert is_right or state != "found"
        assert not is_right or state != "swapped"
        assert not is_right or "no light" not in room.text[port]


# --- one fibre for both directions


def bidi(hosts):
    """Return ports with one fibre: two of each host, at the inputs and at the outputs."""
    return {
        HostPort(f"h{host}", f"p{port}"): Fibres(
            end := SwitchPort("ocs", host + 1 + 16 * port), end, (Side.INPUT, Side.OUTPUT)[port]
        )
        for host in range(hosts)
        for port in range(2)
    }


@pytest.mark.parametrize("hosts", [2, 3, 6])
def test_every_port_of_a_correctly_wired_lab_of_single_fibres_is_found(hosts):
    room = Room(bidi(hosts))
    assert room.search() == states(room, "found")


def test_swapped_and_unplugged_bidirectional_fibres_are_found():
    room = Room(bidi(6))
    one, other, gone = HostPort("h1", "p0"), HostPort("h3", "p0"), HostPort("h4", "p1")
    room.swap(one, other)
    room.unplug(gone)
    wrong = {"h1.p0": "swapped", "h3.p0": "swapped", "h4.p1": "dark"}
    assert room.search() == states(room, "found") | wrong
