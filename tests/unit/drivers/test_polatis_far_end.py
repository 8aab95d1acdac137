"""The Polatis far end as a state machine, on a clock that only moves when told to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.sites import SwitchSite
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.025


class Box:
    """A 4×4 switch, its time and the light it showed."""

    def __init__(self, **options):
        self.time = VirtualTime()
        self.lit = {}
        self.history = []
        self.launched = dict.fromkeys(range(1, 5), 0.0)
        self.destroyed = []
        site = SwitchSite(
            ingress=frozenset(range(1, 5)),
            egress=frozenset(range(5, 9)),
            serial="S1",
            settle=SETTLE,
            seed=1,
            scheduler=self.time,
            lit=self._hear,
            launched=lambda port: self.launched.get(port),
            max_dbm={7: -3.0},
            destroyed=lambda port, level: self.destroyed.append((port, level)),
        )
        self.site = site
        self.far_end = PolatisFarEnd(site, PolatisOptions(**options))
        self._said = []
        self._line = self.far_end.session(self._said.append)

    def _hear(self, lit):
        self.lit = lit
        self.history.append((self.time.now(), lit))

    def say(self, line):
        """Send a line; return the answer without its end, None when there is none."""
        self._said.clear()
        self._line.receive(line.encode() + b"\n")
        return self._said[0].decode().rstrip("\n") if self._said else None

    def state(self):
        ingress, egress = self.say(":OXC:SWIT:CONN:STAT?").split("),(")
        return dict(zip(numbers(ingress), numbers(egress), strict=True))


def numbers(text):
    return [int(number) for number in text.strip("(@)").split(",") if number]


@pytest.fixture
def box():
    return Box()


def test_set_commands_have_no_reply_and_queries_have_one(box):
    assert box.say("*CLS") is None
    assert box.say("OXC:SWIT:CONN:ADD (@1),(@5)") is None
    assert box.say("*IDN?") == "Polatis,I-OST-4x4-LU1-DMHNS,S1,6.5.2.18"
    assert box.say("oxc:switch:size?") == "4,4"
    assert box.say("*OPC?") == "1"


def test_replies_to_one_command_line_are_joined(box):
    assert box.say("OXC:SWIT:SIZE?;CONN:STAT?;:SYST:ERR?") == '4,4;(@),(@);0, "No error"'


def test_command_lines_are_assembled_from_any_pieces(box):
    for piece in (b"*ID", b"N?\r", b"\n*OPC?\n*OPC?\n"):
        box._line.receive(piece)
    assert len(box._said) == 3


def test_an_added_circuit_is_dark_until_its_mirror_has_settled(box):
    box.say("OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
    assert box.state() == {1: 5, 2: 6}
    box.time.advance(SETTLE * 0.99)
    assert box.lit == {}
    box.time.advance(SETTLE * 0.01)
    assert box.lit == {1: 5, 2: 6}


def test_a_removed_circuit_is_dark_at_once(box):
    box.say("OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
    box.time.advance(SETTLE)
    box.say("OXC:SWIT:CONN:SUB (@1),(@5)")
    assert box.lit == {2: 6}


def test_a_circuit_removed_while_settling_stays_dark(box):
    box.say("OXC:SWIT:CONN:ADD (@1),(@5)")
    box.time.advance(SETTLE / 2)
    box.say("OXC:SWIT:CONN:SUB (@1),(@5)")
    box.say("OXC:SWIT:CONN:ADD (@1),(@5)")
    box.time.advance(SETTLE / 2)
    assert box.lit == {}
    box.time.advance(SETTLE / 2)
    assert box.lit == {1: 5}


def test_the_ends_of_a_circuit_may_be_named_in_any_order(box):
    box.say("OXC:SWIT:CONN:ADD (@5),(@1)")
    assert box.state() == {1: 5}


def test_add_on_a_used_port_is_refused_as_a_whole(box):
    box.say("OXC:SWIT:CONN:ADD (@1),(@5)")
    box.say("OXC:SWIT:CONN:ADD (@2,3),(@6,5)")
    assert box.say("SYST:ERR?").startswith("-221, ")
    assert box.state() == {1: 5}


def test_add_of_the_same_circuit_again_does_not_darken_it(box):
    box.say("OXC:SWIT:CONN:ADD (@1),(@5)")
    box.time.advance(SETTLE)
    assert box.say("OXC:SWIT:CONN:ADD (@1),(@5);:SYST:ERR?") == '0, "No error"'
    assert box.history == [(SETTLE, {1: 5})]


def test_sub_accepts_one_end_of_a_circuit_and_ignores_unused_ports(box):
    box.say("OXC:SWIT:CONN:ADD (@1,2,3),(@5,6,7)")
    box.say("OXC:SWIT:CONN:SUB (@1,7),(@)")
    assert box.state() == {2: 6}
    assert box.say("OXC:SWIT:CONN:SUB (@2),(@8);:SYST:ERR?") == '0, "No error"'
    assert box.state() == {2: 6}


def test_the_scpi_command_only_removes_all_circuits_that_it_does_not_list(box):
    box.say("OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
    box.time.advance(SETTLE)
    box.say("OXC:SWIT:CONN:ONLY (@1,3),(@5,6)")
    assert box.state() == {1: 5, 3: 6}
    assert box.lit == {1: 5}


def test_one_command_removes_all_circuits(box):
    for line in ("OXC:SWIT:DISC:ALL", "*RST"):
        box.say("OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
        box.time.advance(SETTLE)
        box.say(line)
        assert (box.state(), box.lit) == ({}, {})


def test_a_disabled_port_passes_no_light(box):
    box.say("OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
    box.time.advance(SETTLE)
    box.say("OXC:SWIT:PORT:DIS (@5)")
    assert box.lit == {2: 6}
    assert box.say("OXC:SWIT:PORT:STAT? (@1,5)") == "(E,D)"
    box.say("OXC:SWIT:PORT:ENAB (@5)")
    assert box.lit == {1: 5, 2: 6}


def test_the_peer_of_a_port_is_quoted(box):
    box.say("OXC:SWIT:CONN:ADD (@1),(@5)")
    assert box.say("OXC:SWIT:CONN:PORT? 5") == '"1"'
    assert box.say("OXC:SWIT:CONN:PORT? 2") == '""'


def test_the_boot_mode_of_the_switch_is_stored(box):
    box.say("OXC:BOOT:MODE aut")
    assert box.say("OXC:BOOT:MODE?") == "AUTOSAVE"
    box.say("OXC:BOOT:MODE AUTO")
    assert box.say("SYST:ERR?") == '-224, "Illegal parameter value"'


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("NONSENSE", -113),
        ("OXC:SWIT:CONN:ADD", -104),
        ("OXC:SWIT:CONN:ADD (@1)", -109),
        ("OXC:SWIT:CONN:ADD (@1,2),(@5)", -109),
        ("OXC:SWIT:CONN:ADD (@1,1),(@5,6)", -221),
        ("OXC:SWIT:CONN:ADD (@1),(@2)", -222),
        ("OXC:SWIT:CONN:ADD (@1),(@9)", -222),
        ("OXC:SWIT:PORT:DIS (@1),(@2)", -108),
    ],
)
def test_a_bad_command_changes_nothing_and_queues_one_error(box, line, number):
    assert box.say(line) is None
    assert box.state() == {}
    assert box.say("SYST:ERR?").startswith(f"{number}, ")
    assert box.say("SYST:ERR?") == '0, "No error"'


def test_a_full_error_queue_ends_with_the_overflow_error(box):
    for _ in range(40):
        box.say("NONSENSE")
    rows = box.say("SYST:ERR:ALL?").split(",-")
    assert len(rows) == 16
    assert rows[-1] == '350, "Queue overflow"'
    assert box.say("SYST:ERR:ALL?") == '0, "No error"'


def test_the_error_queue_can_be_cleared(box):
    box.say("NONSENSE;*CLS")
    assert box.say("SYST:ERR?") == '0, "No error"'


def test_a_stuck_port_keeps_its_light_and_its_read_back(box):
    box.say("OXC:SWIT:CONN:ADD (@1),(@5)")
    box.time.advance(SETTLE)
    box.far_end.fault("stuck", port=1)
    answer = box.say("OXC:SWIT:CONN:SUB (@1),(@5);ADD (@2),(@6);:SYST:ERR?")
    box.time.advance(SETTLE)
    assert answer == '0, "No error"'
    assert (box.state(), box.lit) == ({1: 5, 2: 6}, {1: 5, 2: 6})


def test_a_port_with_a_false_read_back_shows_the_commanded_circuit(box):
    box.far_end.fault("lie", port=5)
    box.say("OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
    box.time.advance(SETTLE)
    assert (box.state(), box.lit) == ({1: 5, 2: 6}, {2: 6})
    box.far_end.clear("lie")
    box.say("OXC:SWIT:CONN:SUB (@1),(@5);ADD (@1),(@5)")
    box.time.advance(SETTLE)
    assert box.lit == {1: 5, 2: 6}


def test_a_fault_with_a_count_occurs_that_often(box):
    box.far_end.fault("silent", count=2, command="idn")
    assert [box.say("*IDN?"), box.say("*OPC?"), box.say("*IDN?")] == [None, "1", None]
    assert box.say("*IDN?") is not None


def test_a_fault_with_a_probability_is_reproducible_by_its_seed():
    def answers():
        box = Box()
        box.far_end.fault("silent", probability=0.5)
        return [box.say("*OPC?") is None for _ in range(50)]

    assert 5 < sum(answers()) < 45
    assert answers() == answers()


def test_clearing_ends_one_fault_or_all_faults_and_may_be_repeated(box):
    box.far_end.clear()
    box.far_end.fault("silent")
    box.far_end.fault("garbled")
    box.far_end.clear("silent")
    assert box._line.receive(b"*OPC?\n") is None
    assert box._said == [b"\xb1\n"]  # the 1 with its top bit flipped
    box.far_end.clear()
    assert box.say("*OPC?") == "1"


def test_a_late_reply_delays_all_later_replies(box):
    box.far_end.fault("late", count=1, delay=0.1)
    assert [box.say("*IDN?"), box.say("*OPC?")] == [None, None]
    box._said.clear()
    box.time.advance(0.1)
    assert [said[:3] for said in box._said] == [b"Pol", b"1\n"]


@pytest.mark.parametrize(("port", "struck"), [(2, 1), (7, 1), (4, 0)])
def test_the_fault_that_loses_half_a_list_applies_only_to_lists_with_its_port(box, port, struck):
    box.far_end.fault("partial", port=port)
    box.say(":OXC:SWIT:CONN:ADD (@1,2),(@6,7)")
    assert box.far_end.struck("partial") == struck
    assert box.state() == ({1: 6} if struck else {1: 6, 2: 7})


def test_an_unknown_fault_is_refused_with_the_nearest_name(box):
    with pytest.raises(ValueError, match="did you mean 'silent'"):
        box.far_end.fault("silence")


ports = st.lists(st.integers(0, 9), max_size=3)
verbs = st.sampled_from(["CONN:ADD", "CONN:SUB", "CONN:ONLY", "PORT:DIS", "PORT:ENAB", "DISC:ALL"])
moves = st.one_of(
    st.tuples(verbs, ports, ports),
    st.tuples(st.just("stuck"), st.integers(1, 8)),
    st.tuples(st.just("clear")),
    st.tuples(st.just("wait"), st.floats(0, 2 * SETTLE)),
)


@given(st.lists(moves, max_size=25))
def test_no_port_ever_has_two_circuits_and_none_is_lit_before_it_settled(script):
    box = Box()
    pointed = {}
    for verb, *arguments in script:
        if verb == "stuck":
            box.far_end.fault("stuck", port=arguments[0], count=1)
        elif verb == "clear":
            box.far_end.clear()
        elif verb == "wait":
            box.time.advance(arguments[0])
        else:
            lists = ",".join(f"(@{','.join(map(str, some))})" for some in arguments)
            box.say(f"OXC:SWIT:{verb} {lists}")
        state = box.state()
        assert len(set(state.values())) == len(state)
        pointed = {pair: pointed.get(pair, box.time.now()) for pair in state.items()}
        assert all(len(set(lit.values())) == len(lit) for _, lit in box.history)
        for pair in box.lit.items():
            if pair in pointed:
                assert box.time.now() >= pointed[pair] + SETTLE


def test_without_monitors_power_queries_are_refused(box):
    assert box.say(":PMON:POW? (@1);:SYST:ERR?") == '-113, "Undefined header"'


def test_monitors_measure_input_and_output_power_except_while_settling():
    box = Box(monitors=True)
    assert box.say("*IDN?") == "Polatis,VST-4x4-LU1-DMHNS,S1,6.5.2.18"
    box.launched = {1: -3.0, 2: None}
    box.say(":OXC:SWIT:CONN:ADD (@1,2),(@5,6)")
    assert box.say(":PMON:POW? (@1,2,5,6)") == "(-3.0,-60.0,-60.0,-60.0)"
    box.time.advance(SETTLE)
    levels = [float(level) for level in box.say(":PMON:POW? (@1,5,6)")[1:-1].split(",")]
    assert levels[0] == -3.0
    assert -4.7 < levels[1] < -3.5
    assert levels[2] == -60.0


@pytest.mark.parametrize(("side", "there", "missing"), [("outputs", 5, 4), ("inputs", 4, 5)])
def test_a_port_without_a_monitor_is_refused(side, there, missing):
    box = Box(monitors=side)
    assert box.say(f":PMON:POW? (@{there});:SYST:ERR?").endswith('0, "No error"')
    refused = f'-241, "Hardware missing; no monitor at port {missing}"'
    assert box.say(f":PMON:POW? (@{there},{missing});:SYST:ERR?") == refused


def test_a_receiver_above_its_maximum_power_is_destroyed_permanently(box):
    box.launched = {1: -3.0, 2: 0.0, 3: 9.0}
    box.say(":OXC:SWIT:CONN:ADD (@1,3),(@7,6)")
    assert box.destroyed == [], "the mirrors still move"
    box.time.advance(SETTLE)
    assert box.lit == {1: 7, 3: 6}
    assert box.destroyed == [], "a switch takes a little, and other receivers withstand anything"
    box.launched[1] = 0.0
    box.site.look_again()
    ((port, level),) = box.destroyed
    assert port == 7
    assert -1.7 < level < -0.5
    assert box.lit == {3: 6}
    box.launched[1] = -20.0
    box.site.look_again()
    box.say(":OXC:SWIT:CONN:SUB (@1),(@7);:OXC:SWIT:CONN:ADD (@2),(@7)")
    box.time.advance(SETTLE)
    assert box.lit == {3: 6}, "it never understands light again"
    assert len(box.destroyed) == 1


def test_fibre_loss_behind_the_switch_can_protect_a_receiver(box):
    box.site.beyond = {7: 5.0}.get
    box.say(":OXC:SWIT:CONN:ADD (@1),(@7)")
    box.time.advance(SETTLE)
    assert box.destroyed == []
    assert box.lit == {1: 7}
