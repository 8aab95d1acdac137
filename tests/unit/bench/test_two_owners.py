"""Two owners of circuits in one run, on real drivers over TCP: neither ever touches the other's."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import combinations
from time import sleep

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from testbed.bench.fabric import Fabric
from testbed.bench.verification import WallTime
from testbed.clock import Deadline, now
from testbed.errors import BusyError, InstrumentError, TestbedError, UnsafeError
from testbed.fabric.circuits import Circuit, HostPort, cross_connects, matching
from testbed.fabric.light import LightLimits
from tests.unit.bench.optical_rig import Rack, soon

ONE, OTHER = Circuit.parse("h0.p1", "h1.p0"), Circuit.parse("h1.p1", "h2.p0")
ELSEWHERE = Circuit.parse("h1x.p1", "h2x.p0")
ONE_CROSSED, OTHER_CROSSED = {2: 19, 3: 18}, {4: 21, 5: 20}
NONE = frozenset()
SETTLE = 0.5
"""Seconds that light takes in a change that is held: longer than a busy machine until it looks."""
TURNS = 60.0
"""Seconds that only a hang takes until a dozen changes have had their turns on one port."""
_MOVE = re.compile(r"CONN:(ADD|SUB) \(@([\d,]*)\),\(@([\d,]*)\)")


class Owners(Rack):
    """A rack whose switches see light, and in which one thread can be held in its verification."""

    def __init__(self, directory, switches=("ocs",), limits={}):  # noqa: B006 - read
        self.told = []
        """By whom each line was sent that moved light, and what it said, in order."""
        super().__init__(directory, switches, monitors=True, settle_max=4 * SETTLE)
        for site in self.sites.values():
            site.launched = lambda port: -6.0
        self.is_verifying, self.go = threading.Event(), threading.Event()
        around = (self.journal, self.log, self, limits, WallTime(now, self._wait))
        self.fabric = Fabric(self.drivers, self.wiring, self.ports, *around)
        self.fabric.adopt({}, soon())
        self._pool = ThreadPoolExecutor(1, "held")

    def _wait(self, seconds):
        if not threading.current_thread().name.startswith("held"):
            return sleep(seconds)
        self.is_verifying.set()
        assert self.go.wait(10)
        return sleep(seconds)

    def _hear(self, way, data):
        super()._hear(way, data)
        if way == "send":
            who = threading.current_thread().name
            for verb, *ends in _MOVE.findall(data.decode()):
                ingress, egress = ([int(n) for n in end.split(",") if n] for end in ends)
                pairs = [(min(p), max(p)) for p in zip(ingress, egress, strict=True)]
                self.told.append((who, verb, pairs))

    def has(self, owner, *circuits, patience=5.0):
        """Let an owner have just these circuits; `patience` is in seconds."""
        return self.fabric.set_circuits(owner, frozenset(circuits), Deadline.after(patience))

    def held(self, owner, *circuits):
        """Begin a change in a thread; return once its switch was told, and its light is not right.

        It goes on when `go` is set.
        """
        before = [site.settle for site in self.sites.values()]
        for site in self.sites.values():
            site.settle = SETTLE
        change = self._pool.submit(self.has, owner, *circuits)
        assert self.is_verifying.wait(10)
        for site, settle in zip(self.sites.values(), before, strict=True):
            site.settle = settle
        return change

    def close(self):
        self.go.set()
        self._pool.shutdown()
        super().close()


@pytest.fixture
def rack(tmp_path):
    rack = Owners(tmp_path)
    yield rack
    rack.close()


def test_an_event_of_a_change_has_no_circuit_of_one_that_is_logged_later(rack, monkeypatch):
    held, at = rack.held("one", ONE), rack.log.at

    def let_the_other_end(instant):
        if threading.current_thread() is threading.main_thread():
            rack.go.set()
            wait([held], timeout=2 * SETTLE)
        return at(instant)

    monkeypatch.setattr(rack.log, "at", let_the_other_end)
    rack.has("other", OTHER)
    held.result()
    circuits = [event.data["circuits"] for event in rack.events()]
    assert circuits == [[str(OTHER)], [str(ONE), str(OTHER)]]


@pytest.fixture
def two_switches(tmp_path):
    rack = Owners(tmp_path, ("a", "b"))
    yield rack
    rack.close()


def test_each_owner_changes_its_own_circuits_alone(rack):
    rack.has("x", ONE)
    rack.has("y", OTHER)
    assert rack.shown() == ONE_CROSSED | OTHER_CROSSED
    assert rack.fabric.circuits == {ONE, OTHER}
    rack.has("x")
    assert rack.shown() == OTHER_CROSSED
    assert (rack.fabric.owned.of("x"), rack.fabric.owned.of("y")) == (NONE, {OTHER})
    said = [(e.origin.owner, e.data["circuits"]) for e in rack.events()]
    assert said == [("x", [str(ONE)]), ("y", [str(ONE), str(OTHER)]), ("x", [str(OTHER)])]


def test_a_port_or_a_circuit_of_another_owner_is_refused_before_anything_moves(rack):
    rack.has("x", ONE)
    before = len(rack.sent)
    wish = Circuit.parse("h0.p1", "h2.p1")
    refusal = r"y cannot have circuit h0\.p1–h2\.p1: port h0\.p1 is in use by circuit .* of x"
    with pytest.raises(BusyError, match=refusal):
        rack.has("y", OTHER, wish)
    with pytest.raises(BusyError, match=r"y has no circuit .*: it is a circuit of x"):
        rack.fabric.change("y", frozenset({ONE}), NONE, soon())
    assert len(rack.sent) == before
    assert rack.fabric.circuits == {ONE}


def test_a_circuit_stays_unless_its_owner_removes_it(rack):
    rack.has("x", ONE)
    rack.fabric.change("x", NONE, frozenset({OTHER}), soon())
    assert rack.shown() == ONE_CROSSED | OTHER_CROSSED
    rack.fabric.change("x", frozenset({ONE}), NONE, soon())
    assert rack.shown() == OTHER_CROSSED


def test_a_port_that_one_owner_gave_up_is_free_for_another(rack):
    rack.has("x", ONE)
    rack.has("x")
    rack.has("y", ONE)
    assert rack.fabric.owned.owner_of(ONE) == "y"
    with pytest.raises(BusyError, match="of y"):
        rack.has("x", ONE)


def test_a_change_that_fails_takes_back_only_its_own(rack):
    rack.has("x", ONE)
    rack.told.clear()
    rack.far_ends["ocs"].fault("stuck", port=21)
    with pytest.raises(InstrumentError, match="rolled back"):
        rack.has("y", OTHER)
    assert rack.shown() == ONE_CROSSED
    assert rack.fabric.circuits == {ONE}
    touched = {port for _, _, pairs in rack.told for pair in pairs for port in pair}
    assert touched <= {4, 5, 20, 21}
    rack.has("x")
    assert rack.shown() == {}


def test_a_circuit_of_another_owner_that_a_change_takes_down_makes_it_fail(rack):
    rack.has("x", ONE)
    rack.far_ends["ocs"].fault("swept", count=1)
    with pytest.raises(InstrumentError, match=r"took down 3→18 .*, made by another owner") as said:
        rack.has("y", OTHER)
    assert "rolled back" in str(said.value)
    assert rack.shown() == {2: 19}
    with pytest.raises(BusyError, match=r"3→18 .* is gone"):
        rack.has("x")


def test_the_circuits_of_all_owners_are_restored_and_journalled_before_they_are_made(rack):
    rack.has("x", ONE)
    rack.has("y", OTHER)
    for line, undone in rack.sent:
        for _, ingress, egress in re.findall(r"(ADD) \(@([\d,]*)\),\(@([\d,]*)\)", line):
            pairs = zip(ingress.split(","), egress.split(","), strict=True)
            (entry,) = undone
            assert all([int(i), int(e)] in entry["made"]["ocs"] for i, e in pairs)
    rack.fabric.restore(soon())
    assert rack.shown() == {} and rack.undone() == []
    assert rack.fabric.circuits == NONE
    rack.has("y", ONE)


def test_what_others_find_lit_is_theirs(rack):
    rack.has("x", ONE, OTHER)
    later = Fabric(rack.drivers, rack.wiring, rack.ports, rack.journal, rack.log, rack)
    later.adopt({"x": frozenset({ONE}), "y": frozenset({OTHER})}, soon())
    assert (later.owned.of("x"), later.owned.of("y")) == ({ONE}, {OTHER})
    later.set_circuits("y", NONE, soon())
    assert rack.shown() == ONE_CROSSED


def test_circuits_to_be_taken_down_go_whoever_owns_them(rack):
    rack.has("x", ONE)
    rack.has("y", OTHER, Circuit.parse("h0.p0", "h2.p1"))
    rack.fabric.take_down(lambda circuit: "h1" in circuit.hosts, soon(), "fence")
    assert set(map(str, rack.fabric.circuits)) == {"h0.p0–h2.p1"}
    changes = [(e.subject, e.origin.owner) for e in rack.events()]
    assert changes == [("x", "x"), ("y", "y"), ("fence", "x"), ("fence", "y")]


def test_two_owners_change_one_switch_side_by_side(rack):
    mine = rack.held("x", ONE)
    rack.has("y", OTHER)
    assert not mine.done()
    rack.go.set()
    mine.result(10)
    assert rack.shown() == ONE_CROSSED | OTHER_CROSSED
    assert [e.subject for e in rack.events()] == ["y", "x"]
    rack.fabric.check(soon())


def test_two_owners_change_two_switches_side_by_side(two_switches):
    rack = two_switches
    mine = rack.held("x", ONE)
    rack.has("y", ELSEWHERE)
    assert not mine.done()
    rack.go.set()
    mine.result(10)
    assert (rack.shown("a"), rack.shown("b")) == (ONE_CROSSED, OTHER_CROSSED)


def test_a_failure_beside_a_change_under_way_takes_back_only_its_own(rack):
    mine = rack.held("x", ONE)
    rack.far_ends["ocs"].fault("stuck", port=21)
    with pytest.raises(InstrumentError, match="rolled back"):
        rack.has("y", OTHER)
    rack.go.set()
    mine.result(10)
    assert rack.shown() == ONE_CROSSED


def test_a_change_under_way_that_fails_takes_back_only_its_own(rack):
    rack.has("y", OTHER)
    rack.far_ends["ocs"].fault("dim", port=2)
    mine = rack.held("x", ONE)
    later = Circuit.parse("h0.p0", "h2.p1")
    rack.has("y", OTHER, later)
    rack.go.set()
    with pytest.raises(InstrumentError, match="rolled back"):
        mine.result(10)
    assert rack.shown() == OTHER_CROSSED | {1: 22, 6: 17}
    rack.fabric.restore(soon())
    assert rack.shown() == {}


def test_what_a_refused_line_did_wrong_is_taken_back_with_it(rack):
    before = Circuit.parse("h0.p0", "h2.p0")
    rack.has("x", before)
    for fault, scope in (("error", {"command": "SUB"}), ("misrouted", {"port": 6})):
        rack.far_ends["ocs"].fault(fault, count=1, **scope)
    with pytest.raises(InstrumentError, match=r"refused .* the change was rolled back"):
        rack.has("x", Circuit.parse("h1.p1", "h2.p1"))
    assert rack.shown() == {1: 21, 5: 17}
    rack.fabric.restore(soon())
    assert rack.shown() == {}


@pytest.mark.parametrize(
    ("owner", "circuit"), [("x", OTHER), ("y", ONE), ("y", Circuit.parse("h0.p1", "h2.p1"))]
)
def test_changes_of_one_owner_or_of_one_port_take_turns(rack, owner, circuit):
    mine = rack.held("x", ONE)
    before = len(rack.sent)
    with pytest.raises(BusyError, match=f"{owner} could not .*: a change of x went on too long"):
        rack.fabric.set_circuits(owner, frozenset({circuit}), soon().within(0.05))
    with pytest.raises(BusyError, match="circuits of x still change"):
        rack.fabric.check(soon().within(0.05))
    with pytest.raises(UnsafeError, match="not brought back: circuits of x still change"):
        rack.fabric.restore(soon().within(0.05))
    assert len(rack.sent) == before
    rack.go.set()
    mine.result(10)
    assert rack.shown() == ONE_CROSSED


class Reader:
    """A thread that is held when it first asks a switch of a rack something."""

    def __init__(self, rack, act, *arguments):
        self._reading, self._go = threading.Event(), threading.Event()
        rack.before_sending = self._wait
        self._pool = ThreadPoolExecutor(1, "reader")
        self._done = self._pool.submit(act, *arguments)
        assert self._reading.wait(10)

    def _wait(self, line):
        if threading.current_thread().name.startswith("reader"):
            self._reading.set()
            assert self._go.wait(10)

    def end(self):
        self._go.set()
        self._pool.shutdown()
        return self._done.result(0)


def test_no_change_begins_while_all_switches_are_read(rack):
    rack.has("x", ONE)
    check = Reader(rack, rack.fabric.check, soon())
    with pytest.raises(BusyError, match="a check of all switches went on too long"):
        rack.fabric.set_circuits("y", frozenset({OTHER}), soon().within(0.05))
    check.end()
    rack.has("y", OTHER)


def test_what_a_first_change_under_way_will_make_is_restored_too(rack):
    change = Reader(rack, rack.has, "x", ONE)
    with pytest.raises(UnsafeError, match="circuits of x still change"):
        rack.fabric.restore(soon().within(0.05))
    with pytest.raises(BusyError, match="circuits of x still change"):
        rack.fabric.discard_undo(soon().within(0.05))
    change.end()
    rack.fabric.restore(soon())
    assert rack.shown() == {} and rack.undone() == []


@pytest.fixture
def limited(tmp_path):
    rack = Owners(tmp_path, limits={"ocs": LightLimits({19: -3.0})})
    yield rack
    rack.close()


def test_a_receiver_is_watched_while_its_circuit_is_being_made(limited):
    rack = limited
    rack.has("y", OTHER)
    mine = rack.held("x", ONE)
    rack.sites["ocs"].launched = lambda port: 0.0
    sleep(1.5 * SETTLE)
    (found,) = rack.fabric.overloads(soon())
    assert (found.ingress, found.egress) == (2, 19)
    rack.go.set()
    with pytest.raises(TestbedError, match=r"h1\.p0 is behind it"):
        mine.result(10)
    assert rack.shown() == OTHER_CROSSED


# --- any changes of two owners, with failures, at the same time -----------------------------------

PORTS = [HostPort(f"h{host}", f"p{port}") for host in range(3) for port in range(2)]
CIRCUITS = [Circuit.between(*pair) for pair in combinations(PORTS, 2)]


@st.composite
def wishes(draw):
    """Draw what an owner wants, one after the other."""
    wanted = []
    for _ in range(draw(st.integers(1, 4))):
        chosen = draw(st.lists(st.sampled_from(CIRCUITS), max_size=2))
        used = [end for circuit in chosen for end in circuit.ends]
        wanted.append(matching(chosen if len(used) == len({*used}) else chosen[:1]))
    return wanted


ports = st.sampled_from([*range(1, 7), *range(17, 23)])
troubles = st.lists(
    st.tuples(st.sampled_from(["stuck", "misrouted", "failed"]), ports.map(lambda p: {"port": p}))
    | st.tuples(
        st.sampled_from(["error", "reset"]),
        st.sampled_from([{"command": "ADD"}, {"command": "SUB"}]),
    )
    | st.just(("partial", {})),
    max_size=2,
).filter(lambda troubles: not {"reset", "misrouted"} <= {name for name, _ in troubles})
"""Not both: what a switch joined by mistake is left where an answer was lost, see below."""


def play(rack, plans, troubles):
    """Have owners change their circuits at the same time; return the last ones that each had."""
    had, wrong = dict.fromkeys(plans, NONE), []

    def go_on(owner):
        threading.current_thread().name = owner
        for wanted in plans[owner]:
            try:
                rack.has(owner, *wanted, patience=TURNS)
                had[owner] = wanted
            except TestbedError as error:
                wrong.append(error)

    for name, scope in troubles:
        rack.far_ends["ocs"].fault(name, count=2, **scope)
    with ThreadPoolExecutor(len(plans)) as pool:
        list(pool.map(go_on, plans))
    rack.far_ends["ocs"].clear()
    return had, wrong


def judge(rack, had, wrong, has_trouble):
    """Check what the switch shows, and that nobody took down what another had made."""
    assert {owner: rack.fabric.owned.of(owner) for owner in had} == had
    made_by = {}
    for who, verb, pairs in rack.told:
        for ingress, _ in pairs:
            if verb == "ADD":
                made_by[ingress] = who
            elif not any(isinstance(error, UnsafeError) for error in wrong):
                assert made_by[ingress] == who, "a circuit was removed by another owner"
    if any(isinstance(error, UnsafeError) for error in wrong):
        assert has_trouble
        return "unsafe"
    everybody = cross_connects(frozenset().union(*had.values()), rack.wiring)
    assert rack.shown() == {c.ingress: c.egress for c in everybody}
    rack.fabric.check(soon())
    if not has_trouble:
        refused = [" cannot have circuit " in str(error) for error in wrong]
        assert all(refused), "nothing but real conflicts"
    return "failed" if any(isinstance(e, InstrumentError) for e in wrong) else "done"


def story(rack, plans, troubles):
    rack.has("x", ONE)  # from now on it is known that the switch answers at once
    rack.has("x")
    rack.told.clear()
    had, wrong = play(rack, dict(zip("xyz", plans, strict=False)), troubles)
    try:
        event(judge(rack, had, wrong, bool(troubles)))
    finally:
        rack.fabric.restore(soon())
    assert rack.shown() == {} and rack.undone() == []


@pytest.fixture
def quick(tmp_path):
    rack = Owners(tmp_path)
    yield rack
    rack.close()


several = st.lists(wishes(), min_size=2, max_size=3)


@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
@given(plans=several, troubles=troubles)
def test_owners_at_the_same_time_end_with_just_what_they_were_told_they_have(
    quick, plans, troubles
):
    story(quick, plans, troubles)


@pytest.mark.soak
@settings(max_examples=1500, suppress_health_check=list(HealthCheck), deadline=None)
@given(plans=several, troubles=troubles)
def test_thousands_of_changes_at_the_same_time(quick, plans, troubles):
    story(quick, plans, troubles)


def test_an_owner_is_given_circuits_of_another_and_removes_them(rack):
    rack.fabric.change("one", NONE, frozenset([ONE]), soon())
    rack.fabric.owned.give(frozenset([ONE]), "other", soon())
    assert rack.fabric.owned.of("one") == NONE
    with pytest.raises(BusyError, match="one has no circuit"):
        rack.fabric.change("one", frozenset([ONE]), NONE, soon())
    rack.fabric.change("other", frozenset([ONE]), frozenset([OTHER]), soon())
    assert rack.fabric.owned.all == frozenset([OTHER])
    with pytest.raises(BusyError, match="there is no circuit"):
        rack.fabric.owned.give(frozenset([ONE]), "other", soon())


def test_what_a_switch_joined_by_mistake_before_it_hung_up_is_left_and_named(rack):
    """After a lost answer it may have restarted, and have the circuit from elsewhere."""
    rack.has("x", Circuit.parse("h0.p0", "h1.p0"), Circuit.parse("h0.p1", "h2.p0"))
    far_end = rack.far_ends["ocs"]
    far_end.fault("misrouted", port=4, count=2)
    far_end.fault("reset", command="SUB", count=2)
    with pytest.raises(UnsafeError, match="4→17"):
        rack.has("x", OTHER)
    far_end.clear()
    assert rack.shown()[4] == 17
    with pytest.raises(UnsafeError, match="4→17"):
        rack.fabric.restore(soon())
    assert rack.shown() == {4: 17}
