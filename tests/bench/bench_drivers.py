"""What the layers of a driver cost, as ratios to a plain socket that says the same.

The plain socket has TCP_NODELAY and no layers: the least that two exchanges can take. The naive
way is what pyvisa-py does when a command is written and its error then asked for.
"""

import socket
import statistics

import pytest
import pyvisa

from testbed.bench.contracts import SwitchSite
from testbed.clock import Deadline, now
from testbed.fabric.change import Change
from testbed.twin.scheduler import WallScheduler
from testbed.twin.wire import serve_pty, serve_tcp
from testbed_drivers.cards import PolatisOptions
from testbed_drivers.polatis import Polatis
from testbed_drivers.polatis_far_end import PolatisFarEnd

PAIRS = {port: port + 32 for port in range(1, 13)}
LISTS = "(@1,2,3,4,5,6,7,8,9,10,11,12),(@33,34,35,36,37,38,39,40,41,42,43,44)"
ADD, SUB = (f":OXC:SWIT:CONN:{verb} {LISTS}" for verb in ("ADD", "SUB"))
ROUNDS = 300


@pytest.fixture
def far_end():
    scheduler = WallScheduler()
    ingress, egress = frozenset(range(1, 33)), frozenset(range(33, 65))
    # an hour of settling keeps the work of the light out of the measurement
    site = SwitchSite(ingress, egress, "S1", 3600.0, 1, scheduler, lambda lit: None)
    yield PolatisFarEnd(site)
    scheduler.close()


@pytest.fixture
def wire(far_end):
    wire = serve_tcp(far_end)
    yield wire
    wire.close()


@pytest.fixture
def plain(wire):
    """Return a connect, or a disconnect, and its read-back, over nothing but a socket."""
    with socket.create_connection((wire.host, wire.port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(words):
            line.sendall(words.encode())
            while not line.recv(4096).endswith(b"\n"):
                pass

        def change(order):
            ask(f"{order};:SYST:ERR?\n")
            ask(":OXC:SWIT:CONN:STAT?\n")

        yield change


def median(act, rounds=ROUNDS):
    """Return the median time of `act`, which alternately connects and disconnects."""
    times = []
    for number in range(rounds):
        begun = now()
        act(number % 2 == 0)
        times.append(now() - begun)
    return statistics.median(times)


def driven(resource, transport):
    options = PolatisOptions(transport=transport)
    ports = frozenset(range(1, 65))
    driver = Polatis("ocs", resource, ports, "S1", options, lambda way, data: None)
    driver.open(Deadline.after(5))
    connect, disconnect = Change({}, PAIRS), Change(PAIRS, {})
    try:
        return median(lambda on: driver.apply(connect if on else disconnect, Deadline.after(5)))
    finally:
        driver.close()


def test_a_change_of_12_circuits_against_a_plain_socket(far_end, wire, plain):
    terminal = serve_pty(far_end)
    floor = median(lambda on: plain(ADD if on else SUB))
    serial = f"ASRL{terminal.path}::INSTR"
    rows = {
        "visa, TCP": driven(f"TCPIP::127.0.0.1::{wire.port}::SOCKET", ""),
        "pyserial, pty": driven(serial, "serial"),
        "visa, pty": driven(serial, "visa"),
    }
    terminal.close()
    print(f"\nplain socket, two exchanges: {floor * 1e3:.3f} ms")
    for name, seconds in rows.items():
        print(f"{name}: {seconds * 1e3:.3f} ms, {seconds / floor:.1f} × the plain socket")
    assert rows["visa, TCP"] < 10 * floor


def test_one_line_against_a_write_and_a_query_through_bare_pyvisa(wire, plain):
    naive = pyvisa.ResourceManager("@py").open_resource(
        f"TCPIP::127.0.0.1::{wire.port}::SOCKET",
        read_termination="\n",
        write_termination="\n",
    )

    def write_then_query(on):
        naive.write(ADD if on else SUB)
        naive.query(":SYST:ERR?")

    ours = driven(f"TCPIP::127.0.0.1::{wire.port}::SOCKET", "")
    bare = median(write_then_query, rounds=10)
    naive.close()
    print(
        f"\nwrite, then query: {bare * 1e3:.1f} ms; one line and a read-back: {ours * 1e3:.3f} ms"
    )
    assert ours < bare / 10
