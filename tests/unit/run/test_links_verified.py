"""Circuits verified from both ends, however long the switch takes to make them."""

import time
from concurrent.futures import Future
from functools import partial
from threading import Thread
from types import SimpleNamespace

import pytest

from testbed.bench.link import Answer
from testbed.clock import Deadline, now
from testbed.errors import LabError
from testbed.fabric.circuits import Circuit, HostPort
from testbed.record.log import read_events
from testbed.run import circuits
from testbed.run.circuits import paced, verify_links, verify_paths

LIMIT = 0.4
"""Seconds that light may take after a change, here."""

CIRCUIT = Circuit.between(HostPort("h0", "p1"), HostPort("h1", "p0"))


class Ends:
    """Hosts whose agents ask as long as they are told to, over fibres that carry light one day."""

    def __init__(self, seen=(), settles_unseen=False):
        self.fabric = SimpleNamespace(settles_unseen=settles_unseen)
        self.light = float("inf")
        self.asked = 0
        self.intervals = set()
        self._seen = list(seen)
        self.switches = {"ocs": SimpleNamespace(capabilities=SimpleNamespace(settle=0.0))}
        self.hosts = {
            name: SimpleNamespace(name=name, ask_identity=self._ask) for name in ("h0", "h1")
        }

    def _ask(self, port, peer, peer_port, *, limit, interval, direct):
        future, end = Future(), now() + limit
        self.intervals.add(interval)
        self.asked += 1

        def answer():
            while now() < min(self.light, end):
                time.sleep(0.001)
            good = now() >= self.light
            value = {"good": good, "seen": [] if good else self._seen, "mono": now()}
            future.set_result(Answer(value, now(), now()))

        Thread(target=answer, daemon=True).start()
        return future

    def change(self, takes, light_after=0.0):
        """Return a change that takes so long, and after which light comes so late."""

        def act():
            time.sleep(takes)
            self.light = now() + light_after

        return act


@pytest.fixture(autouse=True)
def short_limit(monkeypatch):
    monkeypatch.setattr(circuits, "_LIGHT_LIMIT", LIMIT)


def test_a_link_that_comes_up_after_a_long_change_is_verified(log, tmp_path):
    ends = Ends()
    verdicts = verify_links(ends, frozenset([CIRCUIT]), log, ends.change(2 * LIMIT, LIMIT / 4))
    assert [verdict.good for verdict in verdicts] == [True, True]
    assert [event.kind for event in read_events(tmp_path / "log.jsonl")] == ["link.good"] * 2


def test_each_end_of_a_circuit_is_probed_once_during_a_short_change(log):
    ends = Ends()
    verify_links(ends, frozenset([CIRCUIT]), log, ends.change(0.01))
    assert ends.asked == 2


@pytest.mark.parametrize(("settles_unseen", "asked_by_then"), [(False, 2), (True, 0)])
def test_ends_ask_before_a_change_unless_it_is_over_before_its_light(
    log, settles_unseen, asked_by_then
):
    ends, asked = Ends(settles_unseen=settles_unseen), []
    change = ends.change(0.0, LIMIT / 4)

    def noted():
        asked.append(ends.asked)
        change()

    verdicts = verify_links(ends, frozenset([CIRCUIT]), log, noted)
    assert [verdict.good for verdict in verdicts] == [True, True]
    assert (asked, ends.asked) == ([asked_by_then], 2)


def test_one_end_of_a_circuit_asks_where_its_answer_is_enough(log):
    ends = Ends()
    change = ends.change(0.01)
    how = {"ends_that_ask": 1, "interval": 0.004}
    (verdict,) = verify_links(ends, frozenset([CIRCUIT]), log, change, **how)
    assert ends.intervals == {0.004}
    assert verdict.good
    assert ends.asked == 1


def test_a_link_without_light_within_the_time_limit_is_not_verified(log):
    ends = Ends([["h9", "p0"]])
    verdicts = verify_links(ends, frozenset([CIRCUIT]), log, ends.change(LIMIT, 1e6))
    assert {verdict.detail for verdict in verdicts} == {"h9.p0 answered"}


class PacketSwitch:
    """Ports of hosts that reach each other, but for those that are in a VLAN of their own."""

    def __init__(self, hosts, apart=()):
        self.asked = []
        self._apart = {HostPort(*port.split(".")) for port in apart}
        self.hosts = {
            name: SimpleNamespace(name=name, ask_identity=partial(self._ask, name))
            for name in hosts
        }

    def _ask(self, name, port, peer, peer_port, *, limit, interval, direct):
        near, far = HostPort(name, port), HostPort(peer.name, peer_port)
        self.asked.append((near, far))
        good = direct and (near in self._apart) == (far in self._apart)
        future = Future()
        future.set_result(Answer({"good": good, "seen": [], "mono": now()}, now(), now()))
        return future


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_every_port_on_a_packet_switch_asks_once_and_answers_once(log, count):
    ports = [HostPort(f"h{number}", "p0") for number in range(count)]
    switch = PacketSwitch([port.host for port in ports])
    verify_paths(switch, ports, log, Deadline.after(10))
    assert len(switch.asked) == (count if count > 1 else 0)
    for side in zip(*switch.asked, strict=True):
        assert sorted(side) == sorted(ports)


@pytest.mark.parametrize("apart", [["h0.p0"], ["h2.p0"], ["h4.p0"], ["h1.p0", "h2.p0"]])
def test_a_port_in_another_vlan_is_found_wherever_it_is_in_the_row(log, apart):
    ports = [HostPort(f"h{number}", "p0") for number in range(5)]
    switch = PacketSwitch([port.host for port in ports], apart)
    with pytest.raises(LabError, match=r"h\d.p0 does not reach h\d.p0 through the packet switch"):
        verify_paths(switch, ports, log, Deadline.after(10))


def test_questions_over_many_circuits_come_more_rarely():
    def between(count):
        return frozenset(
            Circuit.between(HostPort(f"h{n}", "p0"), HostPort(f"h{n}", "p1")) for n in range(count)
        )

    assert paced(between(2)) == paced(between(4)) == 0.001
    assert paced(between(8)) == 0.004
    assert paced(between(16)) == 0.012
