"""What of the contract may be asked of a real switch: `make test-lab LAB=configs/my-lab.yaml`.

Only ports that the lab file lists, protects not, and no fibre of the lab uses; only while they are
dark; never a fault, never a verb that ends circuits of others. The driver is given no other port,
so it refuses every other by itself. PostRun the ports are dark again and all others as before.
"""

import threading

import pytest

from testbed.bench.conformance_probe import spare_ports
from testbed.bench.lease_resources import whole_of
from testbed.bench.reported_identities import ReportedIdentities
from testbed.cli.lease_stores import leases_of
from testbed.contract.rig import change, soon
from testbed.errors import Rejected, UsageError
from testbed.fabric.change import Change
from testbed.plugins import kind
from testbed.schema import load_lab

pytestmark = pytest.mark.hardware


def pytest_generate_tests(metafunc):
    path = metafunc.config.getoption("--lab", default=None)
    names = list(load_lab(path).switches) if path else []
    metafunc.parametrize("name", names, scope="module")


@pytest.fixture(autouse=True)
def home():
    """Keep the person's own home directory, with the keys that open the lab."""


class Spare:
    """A switch of the lab, as far as it is spare."""

    def __init__(self, lab, name):
        self.ports = lab.switches[name].usable
        spec = lab.switches[name]
        make = kind("drivers", spec.driver).load()
        trace = lambda way, data: None  # noqa: E731
        looking = make(name, spec.resource, frozenset(), spec.identity, spec.options, trace)
        self.identity = looking.open(soon())
        can = looking.capabilities
        if can.positions:
            pytest.skip(f"{name} is never dark, so it has no spare ports")
        if can.mesh:
            pytest.skip(f"{name} sets all of its cells at a time, so no port of it is spare")
        self.others = looking.state(soon())
        looking.close()
        self.ingress, self.egress = spare_ports(lab, name, can)
        self.ports = frozenset(self.ingress + self.egress)
        if busy := self.on_ours(self.others):
            pytest.skip(f"{name} holds circuits on its spare ports: {busy}")
        self.switch = make(name, spec.resource, self.ports, spec.identity, spec.options, trace)
        self.switch.open(soon())

    def on_ours(self, state):
        return {i: e for i, e in state.items() if {i, e} & self.ports}

    def reach(self, wanted):
        present = self.on_ours(self.switch.state(soon()))
        return self.on_ours(self.switch.apply(change(present, wanted), soon()).state)

    def close(self):
        left = self.reach({})
        state = self.switch.state(soon())
        self.switch.close()
        assert not left, f"these circuits could not be taken down: {left}"
        assert state == self.others, "circuits of others changed meanwhile"


@pytest.fixture(scope="module")
def spare(name, request):
    lab = load_lab(request.config.getoption("--lab"))
    lease = leases_of(lab).take(whole_of(lab, name), "make test-lab")
    try:
        spare = Spare(lab, name)
        answered = ReportedIdentities(lab)
        answered.instrument(name, spare.identity)
        lease.widen(answered.resources(lease.resources))
        yield spare
        spare.close()
    finally:
        lease.release()


@pytest.fixture
def one(spare):
    """The first pair of spare ports."""
    return {spare.ingress[0]: spare.egress[0]}


@pytest.fixture
def other(spare):
    """The same ingress port to the other spare egress port."""
    return {spare.ingress[0]: spare.egress[1]}


def test_the_identity_is_that_of_the_lab_file(spare):
    assert spare.switch.identify(soon()) == spare.identity


def test_connecting_a_circuit_once_or_twice_reads_back(spare, one):
    assert spare.reach(one) == one
    assert spare.on_ours(spare.switch.apply(Change({}, one), soon()).state) == one


def test_a_circuit_on_a_used_port_is_not_replaced(spare, one, other):
    spare.reach(one)
    try:
        assert spare.switch.apply(Change({}, other), soon()).refused
    except (Rejected, UsageError) as error:
        assert str(error)
    assert spare.on_ours(spare.switch.state(soon())) == one


def test_a_moved_circuit_reads_back(spare, one, other):
    spare.reach(one)
    assert spare.reach(other) == other


def test_removing_an_absent_circuit_changes_nothing(spare, one, other):
    spare.reach(one)
    applied = spare.switch.apply(Change(other, {}), soon())
    assert spare.on_ours(applied.state) == one


def test_circuits_on_all_spare_ports_are_moved_in_one_change(spare):
    straight = dict(zip(spare.ingress, spare.egress, strict=True))
    crossed = dict(zip(spare.ingress, spare.egress[::-1], strict=True))
    assert spare.reach(straight) == straight
    assert spare.reach(crossed) == crossed


def test_ports_outside_the_lab_file_are_refused_before_the_first_byte(spare):
    can = spare.switch.capabilities
    foreign = min(can.ingress - spare.ports)
    with pytest.raises(UsageError):
        spare.switch.apply(Change({}, {foreign: spare.egress[0]}), soon())


def test_a_new_connection_reads_the_same_state(spare, one):
    spare.reach(one)
    spare.switch.close()
    spare.switch.close()
    assert spare.on_ours(spare.switch.state(soon())) == one


def test_replies_to_concurrent_threads_are_not_mixed_up(spare, one):
    spare.reach(one)
    state, wrong = spare.switch.state(soon()), []

    def ask(question, expected):
        wrong.extend(1 for _ in range(10) if question(soon()) != expected)

    questions = [(spare.switch.identify, spare.identity), (spare.switch.state, state)]
    threads = [threading.Thread(target=ask, args=question) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
