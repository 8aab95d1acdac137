"""What the layers of a driver cost, against a plain socket that says the same; and 128 circuits.

The plain socket has TCP_NODELAY and no layers: the least that an exchange can take. Both talk to
the same far end in another process, turn by turn, so that a busy machine hits both. The naive way
is what pyvisa-py does when a command is written and its error then asked for: two small writes in a
row, so Nagle's algorithm waits for an acknowledgement that the other side delays: 44 ms.
"""

import multiprocessing
import random
import socket
import statistics

import pytest
import pyvisa

from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline, now
from testbed.fabric.change import Change
from testbed.twin.far_end_tcp_pty import serve_pty, serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.polatis import PolatisOptions
from testbed_drivers.switches.polatis import Polatis
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

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
    """A 128×128 switch in a process of its own, on TCP and on a pseudo-terminal."""

    def __init__(self, settle):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, settle), daemon=True)
        self._process.start()
        self.port, self.terminal = self._pipe.recv()

    def lit_at(self, wanted):
        """Return the instant at which exactly these circuits carried light."""
        while True:
            assert self._pipe.poll(5), "it never became light"
            instant, lit = self._pipe.recv()
            if lit == wanted:
                return instant

    def close(self):
        self._pipe.send("stop")
        self._process.join()


def serve(pipe, settle):
    """Serve a switch until told to stop; say when more circuits carry light than before."""
    sides = frozenset(ALL), frozenset(ALL.values())
    before = {}

    def lit(circuits):
        nonlocal before
        if len(circuits) > len(before):  # that it is dark would be told in the time measured
            pipe.send((now(), dict(circuits)))
        before = circuits

    far_end = PolatisFarEnd(SwitchSite(*sides, "S1", settle, 1, WallScheduler(), lit))
    pipe.send((serve_tcp(far_end).port, str(serve_pty(far_end).path)))
    pipe.recv()


@pytest.fixture
def elsewhere():
    """A switch whose circuits do not become light, so that light costs nothing here."""
    box = Box(3600.0)
    yield box
    box.close()


@pytest.fixture
def settling():
    """A switch that settles in 25 ms."""
    box = Box(SETTLE)
    yield box
    box.close()


@pytest.fixture
def plain(elsewhere):
    """Return an exchange over nothing but a socket."""
    with socket.create_connection(("127.0.0.1", elsewhere.port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(words):
            line.sendall(words)
            answer = b""
            while not answer.endswith(b"\n"):
                answer += line.recv(65536)

        yield ask


def visa_name(box):
    return f"TCPIP::127.0.0.1::{box.port}::SOCKET"


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
    """Return the sorted times of each act, taken turn by turn, in an order drawn each time.

    What runs right after something long finds caches cold and a processor asleep.
    """
    chance, names = random.Random(1), list(acts)
    times = {name: [] for name in names}
    for _ in range(rounds):
        for name in chance.sample(names, len(names)):
            times[name].append(took(acts[name]))
    return {name: sorted(row) for name, row in times.items()}


def shown(times):
    median, most = statistics.median(times) * 1e6, times[-len(times) // 100] * 1e3
    return f"{median:.0f} µs, 99 % within {most:.2f} ms"


def test_128_circuits_in_one_command_are_lit_within_the_settle_time_and_two_milliseconds(settling):
    rows = {}
    for transport in ("tcp", "visa"):
        switch = driver(visa_name(settling), transport)
        switch.apply(Change({}, ALL), soon())
        settling.lit_at(ALL)
        rows[transport] = []
        for turn in range(ROUNDS // 20):
            there, wanted = (ALL, ROTATED) if turn % 2 == 0 else (ROTATED, ALL)
            begun = now()
            applied = switch.apply(Change(there, wanted), soon())
            rows[transport].append(settling.lit_at(wanted) - begun)
            assert applied.state == wanted
        switch.apply(Change(applied.state, {}), soon())
        switch.close()
    print(f"\n128 circuits moved in one command, until all are lit; settle {SETTLE * 1e3:g} ms")
    for transport, times in rows.items():
        over = [(seconds - SETTLE) * 1e3 for seconds in times]
        print(f"  {transport}: + {statistics.median(over):.2f} ms, at most + {max(over):.2f} ms")
    assert statistics.median(rows["tcp"]) <= SETTLE + 0.002


def test_one_command_is_a_hundred_times_faster_than_one_by_one(settling):
    switch = driver(visa_name(settling), "tcp")

    def at_once():
        switch.apply(Change({}, ALL), soon())
        settling.lit_at(ALL)

    def one_by_one():
        lit = {}
        for ingress, egress in ALL.items():
            switch.apply(Change({}, {ingress: egress}), soon())
            lit[ingress] = egress
            settling.lit_at(lit)

    fast, slow = [], []
    for act, times, rounds in ((at_once, fast, 5), (one_by_one, slow, 1)):
        for _ in range(rounds):
            times.append(took(act))
            switch.apply(Change(ALL, {}), soon())
    switch.close()
    ratio = slow[0] / statistics.median(fast)
    print(
        f"\n128 circuits: one command {statistics.median(fast) * 1e3:.1f} ms, one by one "
        f"{slow[0]:.2f} s: {ratio:.0f} × (settle {SETTLE * 1e3:g} ms each time)"
    )
    assert ratio >= 100


def test_a_query_costs_at_most_twice_a_plain_socket(elsewhere, plain):
    name = visa_name(elsewhere)
    tcp, visa = driver(name, "tcp"), driver(name, "visa")
    serial = driver(elsewhere.terminal, "serial")
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
    name = visa_name(elsewhere)
    ways = {"tcp": driver(name, "tcp"), "visa": driver(name, "visa")}
    ways["pyserial"] = driver(elsewhere.terminal, "serial")
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
