"""Dead host or dark circuit: what can be known from carriers and probes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.suspicion import Evidence
from testbed.control.words import CarrierLost, HostAnswered, HostSilent, ProbeHost
from testbed.fabric.circuits import Circuit, HostPort
from testbed.fabric.topology import ring

HOSTS = ("h0", "h1", "h2", "h3")
PORTS = dict.fromkeys(HOSTS, ("p0", "p1"))
RING = ring(HOSTS, PORTS)
LIMIT = 0.01

BEFORE, BEHIND = HostPort("h0", "p1"), HostPort("h2", "p0")
"""The far ends of h1's circuits."""
OWN = (HostPort("h1", "p0"), HostPort("h1", "p1"))


def weigh(*observations, circuits=RING):
    """Return the evidence after some observations, and the probes that the last one called for."""
    evidence, probes = Evidence.none(circuits, LIMIT), ()
    for observation in observations:
        evidence, probes = evidence.with_(observation)
    return evidence, probes


def dark(*ports):
    return [CarrierLost(port) for port in ports]


def verdict(*observations):
    evidence, _ = weigh(*observations)
    return evidence.dead_host, {str(circuit) for circuit in evidence.dark_between_living}


ONE_DARK = "h0.p1–h1.p0"
OTHER_DARK = "h1.p1–h2.p0"
SILENT, ANSWERED = HostSilent("h1"), HostAnswered("h1")
NEIGHBOURS = [HostAnswered("h0"), HostAnswered("h2")]


@pytest.mark.parametrize(
    ("seen", "dead", "circuits"),
    [
        # nothing, or darkness alone, proves nothing
        ([], None, set()),
        (dark(BEFORE, BEHIND), None, set()),
        (dark(BEFORE, BEHIND, *OWN), None, set()),
        # cut off and silent: dead
        ([*dark(BEFORE, BEHIND), SILENT], "h1", set()),
        ([*dark(BEFORE), SILENT, *dark(BEHIND)], "h1", set()),
        ([*dark(BEFORE, BEHIND), *NEIGHBOURS, SILENT], "h1", set()),
        # half dark and silent once: too busy to answer, perhaps
        ([*dark(BEFORE), SILENT], None, set()),
        ([*dark(BEFORE), SILENT, *NEIGHBOURS], None, set()),
        # half dark and silent for long: dead
        ([*dark(BEFORE), SILENT, SILENT], "h1", set()),
        # half dark, silent, but it did answer in the end: it lives, and so its circuit is dark
        ([*dark(BEFORE), SILENT, ANSWERED, *NEIGHBOURS], None, {ONE_DARK}),
        ([*dark(BEFORE), SILENT, ANSWERED, *dark(BEHIND)], None, set()),
        ([*dark(BEFORE, BEHIND), ANSWERED, *NEIGHBOURS], None, {ONE_DARK, OTHER_DARK}),
        # a dark circuit whose hosts both answer
        ([*dark(BEFORE), *NEIGHBOURS, ANSWERED], None, {ONE_DARK}),
        ([*dark(OWN[0]), *NEIGHBOURS, ANSWERED], None, {ONE_DARK}),
        ([*dark(BEFORE), HostAnswered("h0")], None, set()),
        # its own last words: it saw darkness and died; that it spoke then is no proof of life
        ([*dark(*OWN), *NEIGHBOURS], None, set()),
        ([*dark(*OWN, BEFORE, BEHIND), *NEIGHBOURS, SILENT], "h1", set()),
        ([*dark(*OWN), *NEIGHBOURS, SILENT], None, set()),
        ([*dark(*OWN), *NEIGHBOURS, SILENT, SILENT], "h1", set()),
        # a host that is silent although its circuits are lit is no business of the fabric's
        ([SILENT], None, set()),
    ],
)
def test_the_verdict_is_what_the_evidence_allows(seen, dead, circuits):
    assert verdict(*seen) == (dead, circuits)


@given(st.permutations([*dark(BEFORE, BEHIND, *OWN), *NEIGHBOURS, SILENT]))
def test_the_order_in_which_a_death_is_seen_does_not_matter(seen):
    assert verdict(*seen) == ("h1", set())


@given(st.permutations([*dark(BEFORE, OWN[0]), *NEIGHBOURS, ANSWERED, HostAnswered("h3")]))
def test_the_order_in_which_a_dark_circuit_is_seen_does_not_matter(seen):
    assert verdict(*seen) == (None, {ONE_DARK})


def test_both_hosts_of_a_dark_circuit_are_asked_at_once_and_only_once():
    _, probes = weigh(*dark(BEFORE))
    assert probes == (ProbeHost("h0", LIMIT), ProbeHost("h1", LIMIT))
    _, probes = weigh(*dark(BEFORE, BEFORE))
    assert probes == ()
    _, probes = weigh(*dark(BEFORE, BEHIND))
    assert probes == (ProbeHost("h2", LIMIT),)


def test_a_host_that_lost_some_circuits_gets_a_second_and_longer_chance():
    _, probes = weigh(*dark(BEFORE), SILENT)
    assert probes == (ProbeHost("h1", 20 * LIMIT),)
    _, probes = weigh(*dark(BEFORE), SILENT, SILENT)
    assert probes == ()


def test_a_host_that_lost_all_circuits_gets_none():
    _, probes = weigh(*dark(BEFORE, BEHIND), SILENT)
    assert probes == ()


def test_a_port_that_is_in_no_circuit_asks_nobody():
    evidence, probes = weigh(*dark(HostPort("h5", "p0")))
    assert probes == ()
    assert evidence.dead_host is None


def test_a_host_that_is_in_no_circuit_is_not_judged():
    strangers = [HostSilent("h9"), HostSilent("h9")]
    evidence, probes = weigh(*dark(BEFORE), *strangers)
    assert (evidence.dead_host, probes) == (None, ())


def test_of_two_hosts_either_may_be_the_dead_one():
    pair = ring(("h0", "h1"), PORTS)
    both = dark(HostPort("h0", "p1"), HostPort("h0", "p0"))
    evidence, _ = weigh(*both, SILENT, circuits=pair)
    assert evidence.dead_host == "h1"
    evidence, _ = weigh(*both, ANSWERED, HostAnswered("h0"), circuits=pair)
    assert evidence.dark_between_living == {
        Circuit.parse("h0.p0", "h1.p1"),
        Circuit.parse("h0.p1", "h1.p0"),
    }
