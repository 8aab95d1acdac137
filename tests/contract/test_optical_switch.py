"""The contract of an optical switch, kept by every driver over every wire to its far end.

The bytes are real: TCP on loopback and pseudo-terminals. Only the box is a twin.
"""

import threading

import pytest

from testbed.bench.contracts import SwitchSite
from testbed.clock import Deadline, now
from testbed.errors import InstrumentError, LinkLost, NoReply, Rejected
from testbed.fabric.change import Change
from testbed.twin.scheduler import WallScheduler
from testbed.twin.wire import serve_pty, serve_tcp
from testbed_drivers.cards import PolatisOptions
from testbed_drivers.polatis import Polatis
from testbed_drivers.polatis_far_end import PolatisFarEnd

SETTLE = 0.003
INPUTS = 70
FIRST_OUTPUT = INPUTS + 1
ALL = {port: port + INPUTS for port in range(1, INPUTS + 1)}


class TcpBench:
    """A switch twin on a TCP port."""

    def serve(self, far_end, directory):
        self.wire = serve_tcp(far_end, port=getattr(self, "port", 0))
        self.port = self.wire.port
        self.resource = f"TCPIP::127.0.0.1::{self.port}::SOCKET"
        self.transport = ""


class PtyBench:
    """A switch twin on a pseudo-terminal."""

    def __init__(self, transport):
        self.transport = transport

    def serve(self, far_end, directory):
        self.wire = serve_pty(far_end, directory / "ttyOCS")
        self.resource = f"ASRL{self.wire.path}::INSTR"


BENCHES = {
    "visa-tcp": TcpBench,
    "visa-asrl-pty": lambda: PtyBench("visa"),
    "serial-pty": lambda: PtyBench("serial"),
}


class Rig:
    """A switch twin behind a wire, the light it shows, and drivers for it."""

    def __init__(self, bench, directory):
        self.scheduler = WallScheduler()
        self.lit = {}
        self._changed = threading.Condition()
        self._bench = bench
        self._directory = directory
        self._drivers = []
        self.trace = []
        self.far_end = self.build("S1")
        bench.serve(self.far_end, directory)

    def build(self, serial):
        outputs = frozenset(range(FIRST_OUTPUT, 2 * INPUTS + 1))
        inputs = frozenset(range(1, FIRST_OUTPUT))
        site = SwitchSite(inputs, outputs, serial, SETTLE, 1, self.scheduler, self._hear)
        return PolatisFarEnd(site)

    def _hear(self, lit):
        with self._changed:
            self.lit = lit
            self._changed.notify_all()

    def wait_for_light(self, wanted):
        with self._changed:
            assert self._changed.wait_for(lambda: self.lit == wanted, 5), self.lit

    def driver(self, identity="S1"):
        driver = Polatis(
            "ocs",
            self._bench.resource,
            frozenset(range(1, 2 * INPUTS + 1)),
            identity,
            PolatisOptions(transport=self._bench.transport),
            lambda way, data: self.trace.append((way, data)),
        )
        self._drivers.append(driver)
        driver.open(soon())
        return driver

    def somebody_else(self, line):
        """Say a line from a second client; return what the switch answered."""
        said = []
        self.far_end.session(said.append).receive(line.encode() + b"\n")
        return said

    def cut(self, far_end=None):
        """Break the line; afterwards the switch, or another one, answers there again."""
        self._bench.wire.close()
        self._bench.serve(far_end or self.far_end, self._directory)

    def unplug(self):
        self._bench.wire.close()

    def close(self):
        for driver in self._drivers:
            driver.close()
        self._bench.wire.close()
        self.scheduler.close()


def soon():
    return Deadline.after(5)


@pytest.fixture(params=BENCHES)
def rig(request, tmp_path):
    rig = Rig(BENCHES[request.param](), tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def switch(rig):
    return rig.driver()


class TestOpticalSwitch:
    def test_it_says_who_it_is_and_what_it_can_do(self, switch):
        assert switch.identify(soon()).serial == "S1"
        assert switch.capabilities.ingress == frozenset(ALL)
        assert switch.capabilities.egress == frozenset(ALL.values())

    def test_it_starts_with_what_is_there(self, rig, switch):
        assert switch.state(soon()) == {}
        rig.somebody_else("OXC:SWIT:CONN:ADD (@5),(@80)")
        assert switch.state(soon()) == {5: 80}

    def test_connecting_gives_light_once_and_twice(self, rig, switch):
        for _ in range(2):
            assert switch.apply(Change({}, {1: 71}), soon()).state == {1: 71}
            rig.wait_for_light({1: 71})

    def test_a_move_goes_dark_and_lights_the_new_path(self, rig, switch):
        switch.apply(Change({}, {1: 71}), soon())
        rig.wait_for_light({1: 71})
        applied = switch.apply(Change({1: 71}, {1: 72}), soon())
        assert applied.state == {1: 72}
        assert applied.commanded <= applied.answered <= applied.read_back
        rig.wait_for_light({1: 72})

    def test_removing_what_is_absent_is_harmless(self, switch):
        assert switch.apply(Change({1: 71}, {}), soon()).state == {}

    def test_all_ports_move_at_once(self, rig, switch):
        assert switch.apply(Change({}, ALL), soon()).state == ALL
        rotated = {port: port % INPUTS + 1 + INPUTS for port in ALL}
        assert switch.apply(Change(ALL, rotated), soon()).state == rotated
        rig.wait_for_light(rotated)

    def test_a_port_in_use_is_refused_and_nothing_changes(self, rig, switch):
        rig.somebody_else("OXC:SWIT:CONN:ADD (@1),(@71)")
        with pytest.raises(Rejected, match="port 1 is in use"):
            switch.apply(Change({}, {1: 72, 2: 73}), soon())
        assert switch.state(soon()) == {1: 71}

    def test_the_errors_of_others_are_not_blamed_on_a_change(self, rig):
        rig.somebody_else("NONSENSE")
        assert rig.driver().apply(Change({}, {1: 71}), soon()).state == {1: 71}

    def test_an_idle_line_that_was_cut_costs_only_a_new_line(self, rig, switch):
        rig.cut()
        assert switch.apply(Change({}, {1: 71}), soon()).state == {1: 71}

    def test_an_unplugged_switch_is_a_lost_link(self, rig, switch):
        rig.unplug()
        with pytest.raises(LinkLost):
            switch.state(soon())

    def test_another_switch_at_the_same_place_is_refused(self, rig, switch):
        other = rig.build("S2")
        rig.cut(other)
        with pytest.raises(InstrumentError, match="S2 instead of S1"):
            switch.apply(Change({}, {1: 71}), soon())
        assert rig.somebody_else("OXC:SWIT:CONN:STAT?") == [b"(@),(@)\n"]

    def test_silence_ends_at_the_deadline_and_the_next_answer_is_the_right_one(self, rig, switch):
        rig.somebody_else("OXC:SWIT:CONN:ADD (@1),(@71)")
        rig.far_end.fault("silent", count=1, command="CONN:STAT?")
        deadline = Deadline.after(0.05)
        with pytest.raises(NoReply):
            switch.state(deadline)
        assert deadline.passed
        assert now() < deadline.at + 1.0
        assert switch.state(soon()) == {1: 71}

    def test_a_late_answer_is_never_taken_for_the_next_one(self, rig, switch):
        rig.somebody_else("OXC:SWIT:CONN:ADD (@1),(@71)")
        rig.far_end.fault("late", count=1, delay=0.1, command="CONN:STAT?")
        with pytest.raises(NoReply):
            switch.state(Deadline.after(0.03))
        rig.somebody_else("OXC:SWIT:CONN:ADD (@2),(@72)")
        for _ in range(5):
            assert switch.state(soon()) == {1: 71, 2: 72}
            assert switch.identify(soon()).serial == "S1"

    def test_a_change_without_an_answer_was_sent_once_and_can_be_read(self, rig, switch):
        rig.far_end.fault("silent", count=1, command="CONN:ADD")
        with pytest.raises(NoReply):
            switch.apply(Change({}, {1: 71}), Deadline.after(0.05))
        assert switch.state(soon()) == {1: 71}
        assert sum(way == "send" and b"ADD" in data for way, data in rig.trace) == 1

    def test_a_garbled_answer_is_asked_for_again(self, rig, switch):
        rig.far_end.fault("garbled", count=1, command="CONN:STAT?")
        assert switch.state(soon()) == {}

    def test_an_error_answer_is_a_refusal_in_the_words_of_the_switch(self, rig, switch):
        rig.far_end.fault("error", count=1, command="CONN:ADD")
        with pytest.raises(Rejected, match="-200, Execution error") as caught:
            switch.apply(Change({}, {1: 71}), soon())
        assert caught.value.reply == "Execution error"
        assert switch.apply(Change({}, {1: 71}), soon()).state == {1: 71}

    def test_a_stuck_port_shows_in_what_was_applied(self, rig, switch):
        rig.far_end.fault("stuck", port=1)
        assert switch.apply(Change({}, {1: 71, 2: 72}), soon()).state == {2: 72}
        rig.far_end.clear()
        assert switch.apply(Change({}, {1: 71}), soon()).state == {1: 71, 2: 72}

    def test_a_port_that_lies_is_seen_by_its_light_alone(self, rig, switch):
        rig.far_end.fault("lie", port=1)
        assert switch.apply(Change({}, {1: 71, 2: 72}), soon()).state == {1: 71, 2: 72}
        rig.wait_for_light({2: 72})

    def test_threads_do_not_mix_their_answers(self, switch):
        wrong = []

        def ask(question, expected):
            wrong.extend(1 for _ in range(50) if question(soon()) != expected)

        identity = switch.identify(soon())
        questions = [(switch.identify, identity), (switch.state, {})]
        threads = [threading.Thread(target=ask, args=question) for question in questions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_closing_twice_is_harmless_and_leaves_the_light(self, rig, switch):
        switch.apply(Change({}, {1: 71}), soon())
        rig.wait_for_light({1: 71})
        switch.close()
        switch.close()
        assert rig.lit == {1: 71}
        assert switch.state(soon()) == {1: 71}


def test_two_drivers_on_one_switch_see_each_others_changes(tmp_path):
    rig = Rig(TcpBench(), tmp_path)
    try:
        first, second = rig.driver(), rig.driver()
        first.apply(Change({}, {1: 71}), soon())
        assert second.apply(Change({}, {2: 72}), soon()).state == {1: 71, 2: 72}
        assert first.state(soon()) == {1: 71, 2: 72}
    finally:
        rig.close()
