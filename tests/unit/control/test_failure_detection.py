"""Dead host or dark circuit: what can be known from carriers and probes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.failure_detection import Evidence
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    HostAnswered,
    HostOff,
    HostSilent,
    ProbeHost,
)
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
    hosts = tuple(sorted({end.host for circuit in circuits for end in circuit.ends}))
    evidence, probes = Evidence(hosts, circuits, LIMIT), ()
    for observation in observations:
        evidence, probes = evidence.after(observation)
    return evidence, probes


def dark(*ports):
    return [CarrierLost(port) for port in ports]


def verdict(*observations):
    evidence, _ = weigh(*observations)
    found = [(one.host, one.failure) for one in evidence.failed]
    return (found[0] if len(found) == 1 else found or None), {
        str(circuit) for circuit in evidence.dark_between_answering_hosts
    }


ONE_DARK = "h0.p1–h1.p0"
OTHER_DARK = "h1.p1–h2.p0"
SILENT, ANSWERED = HostSilent("h1"), HostAnswered("h1")
NEIGHBOURS = [HostAnswered("h0"), HostAnswered("h2")]


DEAD, UNREACHABLE = ("h1", "dead"), ("h1", "unreachable")
OFF, OFF_TOO = ("h1", "off"), ("h2", "off")
REST = [*NEIGHBOURS, HostAnswered("h3")]
EVERYWHERE = dark(*(end for circuit in RING for end in circuit.ends))


@pytest.mark.parametrize(
    ("seen", "failed", "circuits"),
    [
        # nothing, or darkness alone, proves nothing
        ([], None, set()),
        (dark(BEFORE, BEHIND), None, set()),
        (dark(BEFORE, BEHIND, *OWN), None, set()),
        # one missed answer proves nothing either
        ([*dark(BEFORE, BEHIND), SILENT], None, set()),
        ([*dark(BEFORE, BEHIND), *NEIGHBOURS, SILENT], None, set()),
        # cut off and silent for long: dead
        ([*dark(BEFORE, BEHIND), SILENT, SILENT], DEAD, set()),
        ([*dark(BEFORE), SILENT, *dark(BEHIND), SILENT], DEAD, set()),
        ([*dark(BEFORE, BEHIND), *NEIGHBOURS, SILENT, SILENT], DEAD, set()),
        # cut off, and its agent's line ended: dead
        ([*dark(BEFORE, BEHIND), AgentLost("h1")], DEAD, set()),
        ([AgentLost("h1"), *dark(BEFORE, BEHIND)], DEAD, set()),
        # its outlet reads off: that is proof enough
        ([*dark(BEFORE), SILENT, HostOff("h1")], ("h1", "off"), set()),
        ([HostOff("h9")], None, set()),
        # half dark and silent once: too busy to answer, perhaps
        ([*dark(BEFORE), SILENT], None, set()),
        ([*dark(BEFORE), SILENT, *NEIGHBOURS], None, set()),
        # half dark and silent for long: unreachable, if all others answer after that
        ([*dark(BEFORE), *REST, SILENT, SILENT], None, set()),
        ([*dark(BEFORE), SILENT, SILENT, *NEIGHBOURS], None, set()),
        ([*dark(BEFORE), SILENT, SILENT, *REST], UNREACHABLE, set()),
        # its agent is gone although its light is there: unreachable, if all others answer
        ([AgentLost("h1"), *NEIGHBOURS], None, set()),
        ([*REST, AgentLost("h1")], None, set()),
        ([AgentLost("h1"), *REST], UNREACHABLE, set()),
        ([AgentLost("h1"), AgentLost("h3"), *NEIGHBOURS], None, set()),
        # all is dark, as when the switch restarts: whoever is silent may be late only
        ([*EVERYWHERE, SILENT], None, set()),
        ([*EVERYWHERE, SILENT, *REST], None, set()),
        ([*EVERYWHERE, SILENT, SILENT], None, set()),
        ([*EVERYWHERE, SILENT, SILENT, *REST], UNREACHABLE, set()),
        ([*EVERYWHERE, SILENT, *REST, ANSWERED], None, {str(circuit) for circuit in RING}),
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
        ([*dark(*OWN, BEFORE, BEHIND), *NEIGHBOURS, SILENT, SILENT], DEAD, set()),
        ([*dark(*OWN), *NEIGHBOURS, SILENT], None, set()),
        ([*dark(*OWN), SILENT, SILENT, *REST], UNREACHABLE, set()),
        # a host that is silent although its circuits are lit is no business of the fabric's
        ([SILENT], None, set()),
    ],
)
def test_the_verdict_on_a_host_follows_from_the_evidence(seen, failed, circuits):
    assert verdict(*seen) == (failed, circuits)


@given(st.permutations([*dark(BEFORE, BEHIND, *OWN), *NEIGHBOURS, SILENT, SILENT]))
def test_a_dead_host_is_detected_in_any_order_of_observations(seen):
    assert verdict(*seen) == (DEAD, set())


@given(st.permutations([*EVERYWHERE, *REST, SILENT, ANSWERED]))
def test_a_host_late_once_is_not_declared_dead_after_a_restart_of_the_switch(seen):
    evidence = Evidence(HOSTS, RING, LIMIT)
    for observation in seen:
        evidence, _ = evidence.after(observation)
        assert evidence.failed == ()


@given(st.permutations([*dark(OWN[0]), *NEIGHBOURS, ANSWERED, HostAnswered("h3")]))
def test_a_dark_circuit_is_detected_in_any_order_of_observations(seen):
    assert verdict(*dark(BEFORE), *seen) == (None, {ONE_DARK})


def test_a_host_that_answered_is_probed_again_when_another_of_its_circuits_goes_dark():
    _, probes = weigh(*dark(BEFORE), *REST, *dark(BEHIND))
    assert probes == (ProbeHost("h2", LIMIT),)
    _, probes = weigh(*dark(BEHIND), *REST, *dark(HostPort("h3", "p0")))
    assert probes == (ProbeHost("h2", LIMIT), ProbeHost("h3", LIMIT))


FEED = dark(HostPort("h0", "p1"), HostPort("h3", "p0"))
"""What the other hosts see where h1 and h2, which are neighbours, lose their power."""


@pytest.mark.parametrize(
    ("seen", "failed"),
    [
        ([*FEED, *[SILENT, HostSilent("h2")] * 2], [("h1", "dead"), ("h2", "dead")]),
        ([*FEED, AgentLost("h1"), AgentLost("h2")], [("h1", "dead"), ("h2", "dead")]),
        ([*FEED, SILENT, HostSilent("h2"), HostOff("h2"), HostOff("h1")], [OFF, OFF_TOO]),
        ([*FEED, SILENT, HostSilent("h2"), HostOff("h2")], [OFF_TOO]),
        # one of them is silent once only, or their light is there: it is not known which failed
        ([*FEED, SILENT, SILENT, HostSilent("h2")], []),
        ([*FEED[:1], *[SILENT, HostSilent("h2")] * 2, HostAnswered("h0")], []),
        ([AgentLost("h1"), AgentLost("h2"), *REST], []),
    ],
)
def test_several_hosts_have_failed_where_the_evidence_is_against_all_of_them(seen, failed):
    evidence, _ = weigh(*seen)
    assert [(one.host, one.failure) for one in evidence.failed] == failed


def test_what_is_known_of_hosts_that_stay_outlives_the_others():
    evidence, _ = weigh(*FEED, SILENT, HostSilent("h2"), HostOff("h2"), AgentLost("h3"))
    kept = frozenset(c for c in RING if c.hosts == {"h0", "h3"})
    among = evidence.among(("h0", "h1", "h3"), kept)
    assert (among.off, among.silent, among.lost) == (set(), ("h1",), {"h3"})
    assert not among.dark


def test_both_hosts_of_a_dark_circuit_are_probed_at_once_and_only_once():
    _, probes = weigh(*dark(BEFORE))
    assert probes == (ProbeHost("h0", LIMIT), ProbeHost("h1", LIMIT))
    _, probes = weigh(*dark(BEFORE, BEFORE))
    assert probes == ()
    _, probes = weigh(*dark(BEFORE, BEHIND))
    assert probes == (ProbeHost("h2", LIMIT),)


@pytest.mark.parametrize("seen", [dark(BEFORE), dark(BEFORE, BEHIND), EVERYWHERE])
def test_a_host_that_missed_a_probe_is_probed_again_for_longer(seen):
    _, probes = weigh(*seen, SILENT)
    assert probes == (ProbeHost("h1", 20 * LIMIT),)


def test_an_answer_to_an_earlier_probe_does_not_count_after_a_later_one():
    evidence, probes = weigh(*dark(BEFORE))
    first = {probe.host: probe.number for probe in probes}["h1"]
    evidence, (again,) = evidence.after(SILENT)
    late, _ = evidence.after(HostAnswered("h1", first))
    assert ("h1" in late.answered, late.silent) == (False, ("h1",))
    new, _ = late.after(HostAnswered("h1", again.number))
    assert ("h1" in new.answered, new.silent) == (True, ())
    kept = evidence.among(HOSTS[:3], RING)
    assert kept.after(HostAnswered("h1", first))[0].silent == ("h1",)


def test_when_a_host_stays_silent_all_others_are_probed():
    _, probes = weigh(*dark(BEFORE), *REST, SILENT, SILENT)
    assert probes == tuple(ProbeHost(host, 20 * LIMIT) for host in ("h0", "h2", "h3"))
    _, probes = weigh(*dark(BEFORE), *REST, SILENT, SILENT, SILENT)
    assert probes == ()


def test_when_an_agent_is_lost_all_other_hosts_are_probed_once():
    _, probes = weigh(AgentLost("h1"))
    assert probes == tuple(ProbeHost(host, 20 * LIMIT) for host in HOSTS)
    _, probes = weigh(AgentLost("h1"), SILENT)
    assert probes == ()


def test_a_port_outside_any_circuit_triggers_no_probe():
    evidence, probes = weigh(*dark(HostPort("h5", "p0")))
    assert probes == ()
    assert evidence.failed == ()


def test_a_host_that_is_in_no_circuit_is_not_judged():
    others = [HostSilent("h9"), HostSilent("h9")]
    evidence, probes = weigh(*dark(BEFORE), *others)
    assert (evidence.failed, probes) == ((), ())


def test_with_two_hosts_a_dark_circuit_does_not_show_which_is_dead():
    pair = ring(("h0", "h1"), PORTS)
    both = dark(HostPort("h0", "p1"), HostPort("h0", "p0"))
    evidence, _ = weigh(*both, SILENT, SILENT, circuits=pair)
    assert [(one.host, one.failure) for one in evidence.failed] == [DEAD]
    evidence, _ = weigh(*both, ANSWERED, HostAnswered("h0"), circuits=pair)
    assert evidence.dark_between_answering_hosts == {
        Circuit.parse("h0.p0", "h1.p1"),
        Circuit.parse("h0.p1", "h1.p0"),
    }


WITHOUT_H1 = (*dark(BEFORE, BEHIND), *NEIGHBOURS, SILENT)


@given(st.permutations([*WITHOUT_H1, *REST]), st.integers(0, len(WITHOUT_H1)))
def test_of_a_host_that_is_left_out_and_its_circuits_no_more_is_observed(seen, at):
    evidence, _ = weigh(*seen[:at])
    evidence = evidence.without(["h1"], frozenset())
    for observation in seen[at:]:
        evidence, _ = evidence.after(observation)
    assert evidence.hosts == ("h0", "h2", "h3")
    assert {str(circuit) for circuit in evidence.circuits} == {"h2.p1–h3.p0", "h0.p0–h3.p1"}
    assert (evidence.failed, evidence.unreachable) == ((), ())
    assert evidence.dark_between_answering_hosts == frozenset()
