"""What the layers of a driver cost, against a plain socket that says the same; and 128 circuits.

The plain socket has TCP_NODELAY and no layers: the least that an exchange can take. Both talk to
the same far end in another process, turn by turn, so that a busy machine hits both. The naive way
is what pyvisa-py does when a command is written and its error then asked for: two small writes in a
row, so Nagle's algorithm waits for an acknowledgement that the other side delays: 44 ms.
"""

import multiprocessing
import socket
import statistics
import threading

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

SETTLE = 0.025
INPUTS = 128
ALL = {port: port + INPUTS for port in range(1, INPUTS + 1)}
ROTATED = {port: port % INPUTS + 1 + INPUTS for port in ALL}
PAIRS = {port: port + INPUTS for port in range(1, 13)}
LISTS = f"(@{','.join(map(str, PAIRS))}),(@{','.join(map(str, PAIRS.values()))})"
ADD, SUB = (f":OXC:SWIT:CONN:{verb} {LISTS}" for verb in ("ADD", "SUB"))
ROUNDS = 1000
NAGLE = 0.040
"""Seconds: the least that a delayed acknowledgement costs."""


class Box:
    """A 128×128 switch in this process, on a TCP port, and the light that it shows."""

    def __init__(self, settle):
        self.scheduler = WallScheduler()
        self._lit = {}
        self._changed = threading.Condition()
        self.far_end = PolatisFarEnd(site(settle, self.scheduler, self._hear))
        self.wire = serve_tcp(self.far_end)

    def _hear(self, lit):
        with self._changed:
            self._lit = lit
            self._changed.notify_all()

    def wait_for_light(self, wanted):
        with self._changed:
            assert self._changed.wait_for(lambda: self._lit == wanted, 5)

    def close(self):
        self.wire.close()
        self.scheduler.close()


def site(settle, scheduler, lit):
    ingress, egress = frozenset(ALL), frozenset(ALL.values())
    return SwitchSite(ingress, egress, "S1", settle, 1, scheduler, lit)


def serve_elsewhere(pipe):
    """Serve a switch on TCP and on a pseudo-terminal until told to stop."""
    scheduler = WallScheduler()
    # an hour of settling keeps the work of the light out of the measurement
    far_end = PolatisFarEnd(site(3600.0, scheduler, lambda lit: None))
    tcp, pty = serve_tcp(far_end), serve_pty(far_end)
    pipe.send((tcp.port, str(pty.path)))
    pipe.recv()


@pytest.fixture(scope="module")
def elsewhere():
    """The TCP port and the terminal of a switch in another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_elsewhere, args=(theirs,), daemon=True)
    process.start()
    yield ours.recv()
    ours.send("stop")
    process.join()


@pytest.fixture
def plain(elsewhere):
    """Return an exchange over nothing but a socket."""
    with socket.create_connection(("127.0.0.1", elsewhere[0])) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(words):
            line.sendall(words)
            answer = b""
            while not answer.endswith(b"\n"):
                answer += line.recv(65536)

        yield ask


def driver(resource, transport):
    made = Polatis(
        "ocs",
        resource,
        frozenset(range(1, 2 * INPUTS + 1)),
        "S1",
        PolatisOptions(transport=transport),
        lambda way, data: None,
    )
    made.open(soon())
    return made


def soon():
    return Deadline.after(5)


def took(act):
    begun = now()
    act()
    return now() - begun


def side_by_side(acts, rounds=ROUNDS):
    """Return the sorted times of each act, taken turn by turn."""
    turns = [[took(act) for act in acts.values()] for _ in range(rounds)]
    columns = zip(*turns, strict=True)
    return {name: sorted(times) for name, times in zip(acts, columns, strict=True)}


def shown(times):
    median, most = statistics.median(times) * 1e6, times[-len(times) // 100] * 1e3
    return f"{median:.0f} µs, 99 % within {most:.2f} ms"


def test_128_circuits_in_one_command_are_lit_within_the_settle_time_and_two_milliseconds():
    box = Box(SETTLE)
    rows = {}
    for transport in ("tcp", "visa"):
        resource = f"TCPIP::127.0.0.1::{box.wire.port}::SOCKET"
        switch = driver(resource, transport)
        switch.apply(Change({}, ALL), soon())
        box.wait_for_light(ALL)
        rows[transport] = []
        for turn in range(20):
            there, wanted = (ALL, ROTATED) if turn % 2 == 0 else (ROTATED, ALL)

            begun = now()
            applied = switch.apply(Change(there, wanted), soon())
            box.wait_for_light(wanted)
            rows[transport].append(now() - begun)
            assert applied.state == wanted
        switch.apply(Change(ALL, {}), soon())
        switch.close()
    box.close()
    print(f"\n128 circuits moved in one command, until all are lit; settle {SETTLE * 1e3:g} ms")
    for transport, times in rows.items():
        over = [(seconds - SETTLE) * 1e3 for seconds in times]
        print(f"  {transport}: + {statistics.median(over):.2f} ms, at most + {max(over):.2f} ms")
    assert statistics.median(rows["tcp"]) <= SETTLE + 0.002


def test_one_command_is_a_hundred_times_faster_than_one_by_one():
    box = Box(SETTLE)
    switch = driver(f"TCPIP::127.0.0.1::{box.wire.port}::SOCKET", "tcp")

    def at_once():
        switch.apply(Change({}, ALL), soon())
        box.wait_for_light(ALL)

    def one_by_one():
        lit = {}
        for ingress, egress in ALL.items():
            switch.apply(Change({}, {ingress: egress}), soon())
            lit[ingress] = egress
            box.wait_for_light(lit)

    fast, slow = [], []
    for act, times, rounds in ((at_once, fast, 5), (one_by_one, slow, 1)):
        for _ in range(rounds):
            times.append(took(act))
            switch.apply(Change(ALL, {}), soon())
    switch.close()
    box.close()
    ratio = slow[0] / statistics.median(fast)
    print(
        f"\n128 circuits: one command {statistics.median(fast) * 1e3:.1f} ms, one by one "
        f"{slow[0]:.2f} s: {ratio:.0f} × (settle {SETTLE * 1e3:g} ms each time)"
    )
    assert ratio >= 100


def test_a_query_costs_at_most_twice_a_plain_socket(elsewhere, plain):
    port, terminal = elsewhere
    name = f"TCPIP::127.0.0.1::{port}::SOCKET"
    tcp, visa, serial = driver(name, "tcp"), driver(name, "visa"), driver(terminal, "serial")
    times = side_by_side(
        {
            "plain socket": lambda: plain(b":OXC:SWIT:CONN:STAT?\n"),
            "driver, tcp": lambda: tcp.state(soon()),
            "driver, visa over TCP": lambda: visa.state(soon()),
            "driver, pyserial on a pseudo-terminal": lambda: serial.state(soon()),
        }
    )
    for opened in (tcp, visa, serial):
        opened.close()
    floor = statistics.median(times["plain socket"])
    print(f"\na query, {ROUNDS} times each, turn by turn")
    for way, row in times.items():
        print(f"  {way}: {shown(row)}, {statistics.median(row) / floor:.2f} × the plain socket")
    assert statistics.median(times["driver, tcp"]) <= 2 * floor


def test_no_order_waits_for_a_delayed_acknowledgement(elsewhere, plain):
    port, terminal = elsewhere
    name = f"TCPIP::127.0.0.1::{port}::SOCKET"
    ways = {"tcp": driver(name, "tcp"), "visa": driver(name, "visa")}
    ways["pyserial"] = driver(terminal, "serial")
    naive = pyvisa.ResourceManager("@py").open_resource(
        name, read_termination="\n", write_termination="\n"
    )

    def write_then_query():
        naive.write(ADD)
        naive.query(":SYST:ERR?")
        plain(f"{SUB};:SYST:ERR?\n".encode())

    def there_and_back(switch):
        switch.apply(Change({}, PAIRS), soon())
        switch.apply(Change(PAIRS, {}), soon())

    bare = sorted(took(write_then_query) for _ in range(20))
    print(f"\n12 circuits: bare pyvisa, write then query: {shown(bare)}")
    for way, switch in ways.items():
        times = sorted(took(lambda s=switch: there_and_back(s)) for _ in range(ROUNDS // 2))
        slow = sum(seconds >= NAGLE for seconds in times)
        print(f"  driver, {way}, connect and disconnect: {shown(times)}; {slow} of 44 ms")
        assert times[-len(times) // 100] < NAGLE / 2
        switch.close()
    naive.close()
    assert statistics.median(bare) > NAGLE, "the trap that the drivers avoid is not there"
