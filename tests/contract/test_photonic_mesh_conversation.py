"""What the photonic mesh's driver says, connection by connection, and what it makes of answers."""

from dataclasses import replace

import pytest

from testbed.clock import Deadline
from testbed.errors import (
    Garbled,
    InstrumentError,
    LinkLost,
    NoReply,
    NotKnown,
    Rejected,
    UsageError,
)
from testbed.fabric.change import Change, plan_change
from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_routes import route
from testbed_drivers.switches.photonic_mesh import cells_line
from tests.contract.scripted import Conversation

GREETING = b"photonic mesh, serial S1, 38 cells\n"
DONE = b"OK: 38 cells set\n"
MESH = hexagonal(3, 3)


def soon():
    return Deadline.after(5)


class Visit(Conversation):
    """One connection: it begins with a greeting, and ends by being hung up."""

    def __init__(self, pairs, greeting):
        super().__init__(pairs)
        self.say(greeting)

    def receive(self, end, deadline):
        if self._answer is None:
            raise LinkLost("ocs", "the other side closed the connection")
        return super().receive(end, deadline)


class Mesh:
    """A 3×3 mesh, its driver, and the connections that are expected."""

    def __init__(self, script, **options):
        self.script = script
        self.driver = script.driver("photonic-mesh", **{"width": 3, "height": 3, **options})

    def visited(self, *answers, greeting=GREETING):
        """Expect a connection; on it one line, answered so, for each setting and answer."""
        pairs = [(line_of(setting), answer) for setting, answer in answers]
        self.script.lines.append(Visit(pairs, greeting))

    def open(self):
        self.visited()
        self.driver.open(soon())
        self.driver.presume({})


def line_of(setting):
    return cells_line(dict(enumerate(setting))).encode() + b"\n"


def setting_of(wanted, present=None):
    return route(replace(MESH, setting=present), wanted).setting


@pytest.fixture
def mesh(script):
    mesh = Mesh(script)
    mesh.open()
    return mesh


ONE = setting_of({1: 4})
BOTH = setting_of({1: 4, 2: 5}, ONE)


def test_the_greeting_gives_the_identity_and_nothing_is_sent(mesh):
    assert mesh.driver.capabilities.ingress == {1, 2, 3}
    assert mesh.driver.capabilities.egress == {4, 5, 6}
    assert mesh.driver.capabilities.mesh == MESH
    mesh.visited()
    assert mesh.driver.identify(soon()).serial == "S1"
    assert all(line.closed for line in mesh.script.opened)


def test_before_the_first_change_only_presumed_circuits_are_known(script):
    mesh = Mesh(script)
    mesh.visited()
    mesh.driver.open(soon())
    mesh.visited()
    with pytest.raises(NotKnown, match=r"cannot report its circuits.* switch ocs apply wanted"):
        mesh.driver.state(soon())
    with pytest.raises(NotKnown):
        mesh.driver.apply(Change({}, {1: 4}), soon())
    mesh.driver.presume({1: 4})
    mesh.visited()
    assert mesh.driver.state(soon()) == {1: 4}
    assert ("note", b"nothing was told yet; presumed: {1: 4}") in script.trace


def test_a_change_opens_one_connection_and_sends_one_line_that_sets_every_cell(mesh):
    mesh.visited((ONE, DONE))
    mesh.visited()
    applied = mesh.driver.apply(Change({}, {1: 4}), soon())
    assert applied.state == {1: 4}
    assert applied.commanded <= applied.answered <= applied.read_back
    assert mesh.driver.capabilities.mesh.setting == ONE


def test_the_line_is_a_python_list_of_pairs():
    assert line_of((Gate.BAR, Gate.CROSS)) == b"[(0, '='), (1, 'x')]\n"


def test_later_changes_start_from_the_last_setting_that_was_sent(mesh):
    mesh.visited((ONE, DONE))
    mesh.visited()
    mesh.driver.apply(Change({}, {1: 4}), soon())
    mesh.visited((BOTH, DONE))
    mesh.visited()
    assert mesh.driver.apply(Change({}, {2: 5}), soon()).state == {1: 4, 2: 5}
    mesh.visited((setting_of({2: 5}, BOTH), DONE))
    mesh.visited()
    assert mesh.driver.apply(Change({1: 4}, {}), soon()).state == {2: 5}


def test_after_a_refusal_the_setting_is_known_and_unchanged(mesh):
    mesh.visited((ONE, b"ERROR: there is no cell 37\n"))
    with pytest.raises(Rejected, match="ERROR: there is no cell 37") as caught:
        mesh.driver.apply(Change({}, {1: 4}), soon())
    assert caught.value.reply == "ERROR: there is no cell 37"
    mesh.visited()
    assert mesh.driver.state(soon()) == {}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (NoReply("ocs", "did not answer in time"), NoReply),
        (LinkLost("ocs", "the other side closed the connection"), LinkLost),
        (b"OK: 38 ce", LinkLost),
        (b"OK: 38 \xe3ells set\n", Garbled),
        (b"OK: 38 cells set\x1a", Garbled),
    ],
)
def test_an_unknown_setting_becomes_known_by_sending_it_again(mesh, answer, error):
    mesh.visited((ONE, answer))
    with pytest.raises(error):
        mesh.driver.apply(Change({}, {1: 4}), soon())
    assert mesh.driver.capabilities.mesh.setting is None
    mesh.visited((ONE, DONE))
    assert mesh.driver.state(soon()) == {1: 4}
    mesh.visited()
    assert mesh.driver.state(soon()) == {1: 4}


def test_while_the_setting_is_unknown_no_other_change_is_made(mesh):
    mesh.visited((ONE, NoReply("ocs", "did not answer in time")))
    with pytest.raises(NoReply):
        mesh.driver.apply(Change({}, {1: 4}), soon())
    with pytest.raises(InstrumentError, match="no other can be planned; read its state first"):
        mesh.driver.apply(Change({}, {2: 5}), soon())


def test_the_setting_stays_unknown_when_sending_it_again_is_refused(mesh):
    """The first sending may have arrived, whatever is said to the second."""
    mesh.visited((ONE, NoReply("ocs", "did not answer in time")))
    with pytest.raises(NoReply):
        mesh.driver.apply(Change({}, {1: 4}), soon())
    mesh.visited((ONE, b"ERROR: busy\n"))
    with pytest.raises(Rejected):
        mesh.driver.state(soon())
    mesh.visited((ONE, DONE))
    assert mesh.driver.state(soon()) == {1: 4}


def test_after_a_failed_connection_the_setting_is_still_known(mesh):
    mesh.visited(greeting=LinkLost("ocs", "the other side closed the connection"))
    with pytest.raises(LinkLost):
        mesh.driver.apply(Change({}, {1: 4}), soon())
    mesh.visited()
    assert mesh.driver.state(soon()) == {}


def test_a_port_in_use_is_refused_before_any_connection(mesh):
    mesh.visited((ONE, DONE))
    mesh.visited()
    mesh.driver.apply(Change({}, {1: 4}), soon())
    for adds in ({1: 5}, {2: 4}):
        with pytest.raises(UsageError, match="in use by 1→4"):
            mesh.driver.apply(Change({}, adds), soon())


CROWDED = ({2: 7, 3: 5, 4: 8}, {1: 6, 2: 7, 3: 5, 4: 8})
"""Two matchings of a 3×3 mesh; from the first to the second, 3→5 must take another path."""


def test_a_circuit_goes_dark_only_in_a_change_that_removes_or_disturbs_it(script):
    mesh = Mesh(script, ingress=(0, 6, 12, 18), egress=(3, 9, 15, 21))
    mesh.open()
    ports = frozenset(range(1, 9))
    for wanted in CROWDED:
        can, state = mesh.driver.capabilities, mesh.driver.state
        mesh.visited()
        present = state(soon())
        change = plan_change(present, wanted, present, ports, can)
        if wanted is CROWDED[-1]:
            assert change.disturbs == {(3, 5)}
            with pytest.raises(UsageError, match="3→5 would be dark for a moment"):
                mesh.driver.apply(replace(change, disturbs=frozenset()), soon())
        mesh.visited((route(can.mesh, wanted).setting, b"OK\n"))
        mesh.visited()
        assert mesh.driver.apply(change, soon()).state == wanted
    assert ("note", "these circuits stay, on another path: 3→5".encode()) in script.trace


def test_circuits_that_are_blocked_together_are_refused_before_any_connection(script):
    mesh = Mesh(script, width=1, height=1, ingress=(0, 2, 4), egress=(6, 8, 10))
    mesh.visited(greeting=b"photonic mesh, serial S1, 6 cells\n")
    mesh.driver.open(soon())
    mesh.driver.presume({})
    refusal = "no routes through the mesh for 1→4, 2→6, 3→5 at the same time"
    with pytest.raises(UsageError, match=refusal):
        mesh.driver.apply(Change({}, {1: 4, 2: 6, 3: 5}), soon())


def test_another_serial_number_is_refused_before_anything_is_sent(mesh):
    mesh.visited(greeting=GREETING.replace(b"S1", b"S2"))
    with pytest.raises(InstrumentError, match="S2 instead of S1"):
        mesh.driver.apply(Change({}, {1: 4}), soon())


def test_a_greeting_without_a_serial_number_is_garbled_where_one_is_expected(mesh):
    for _ in range(2):
        mesh.visited(greeting=b"welcome\n")
    with pytest.raises(Garbled, match="'welcome', which names no serial number"):
        mesh.driver.identify(soon())


def test_any_greeting_is_accepted_where_no_serial_number_is_expected(script):
    mesh = Mesh(script, identity=None)
    mesh.visited(greeting=b"welcome\n")
    assert mesh.driver.open(soon()).model == "welcome"


def test_a_mesh_of_another_size_is_refused(script):
    mesh = Mesh(script)
    mesh.visited(greeting=b"photonic mesh, serial S1, 72 cells\n")
    with pytest.raises(InstrumentError, match="has 72 cells instead of 38") as caught:
        mesh.driver.open(soon())
    assert "'width' and 'height'" in caught.value.hint


def test_ports_that_the_mesh_does_not_have_are_refused(script):
    with pytest.raises(UsageError, match="the external ports of this mesh are numbered 0 to 27"):
        Mesh(script, ingress=(0,), egress=(28,))
