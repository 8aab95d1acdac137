"""When the servers of the authors' messages answer, beside the delay of an emulated switch.

Run with `make bench ARGS='-k opus'`. Criterion O1 of Opus (arXiv 2602.12521) on sockets: eight
clients, two rails, a delay of 50 ms for every bit of a word that changes, all bits side by side as
in the authors' emulation. Nobody is answered before the last has asked; a change takes one delay,
to 20 ms in nine of ten cases on a machine that does other things too, however many bits it has; a
word that is already set, and another rail, wait for nothing.
"""

import select
import time
from contextlib import ExitStack
from statistics import median
from threading import Thread

from tests.unit.opus.test_servers import Desk
from tests.unit.opus.transcript import RANKS, address_of

ROUNDS = 20
DELAY, TOLERANCE = 0.050, 0.020
"""Seconds of the emulated switch, and by how much an answer may miss them (criterion O1)."""

PIPELINE, DATA = 11, 2
"""What the authors' ranks send for the pair of stages 0 and 1, and for data-parallel groups."""

PAIRS = {"B0": (0, 4), "B1": (1, 5), "C0": (0, 2), "C2": (4, 6)}
"""Communicators and their ranks; rail 0 has all but B1."""


def test_answers_come_one_delay_after_the_last_request_and_rails_are_independent(tmp_path):
    with ExitStack() as stack:
        ranks = Ranks(Desk(stack, tmp_path, apply=set_bits_side_by_side))
        ranks.both_answered("B1", PIPELINE, 1_000_000)  # sets both bits of rail 1, once for all
        took = {name: [] for name in ("two bits", "no bit", "one bit", "other rail")}
        for turn in range(ROUNDS):
            ranks.ask(0, "B0", PIPELINE, 1_000_000 + 2 * turn)
            assert not ranks.has_line(0, within=DELAY + TOLERANCE)
            took["two bits"].append(ranks.last_asks(4, "B0", PIPELINE, 1_000_000 + 2 * turn))
            took["no bit"].append(ranks.both_answered("B0", PIPELINE, 1_000_001 + 2 * turn))
            ranks.ask(0, "C0", DATA, turn)
            begin = time.perf_counter()
            ranks.ask(2, "C0", DATA, turn)
            took["other rail"].append(ranks.both_answered("B1", PIPELINE, 1_000_001 + turn))
            took["one bit"].append(ranks.answered("C0", since=begin))
            took["one bit"].append(ranks.both_answered("C2", DATA, 1_000_000 + turn))
    for name, seconds in took.items():
        print_and_check(name, sorted(seconds), DELAY if name in ("one bit", "two bits") else 0.0)


def print_and_check(name, seconds, delay):
    """Check that no answer comes before the delay, and nine of ten soon after it."""
    found = f"{seconds[0] * 1e3:.1f} to {seconds[-1] * 1e3:.1f} ms, n = {len(seconds)}"
    middle = f"{median(seconds) * 1e3:.1f} ms"
    print(f"\n{name}: median {middle}, {found}; the switch {delay * 1e3:g} ms")
    assert delay <= seconds[0]
    assert seconds[len(seconds) * 9 // 10 - 1] <= delay + TOLERANCE


def set_bits_side_by_side(before, word):
    """Take the delay for each bit that changes, in a thread of its own, as the authors' worker."""
    threads = [Thread(target=time.sleep, args=(DELAY,)) for _ in range((before ^ word).bit_count())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Ranks:
    """Eight clients on four nodes that have checked in to their communicators."""

    def __init__(self, desk):
        self._clients = [desk.client(address_of(rank)) for rank in range(RANKS)]
        for name, pair in PAIRS.items():
            for rank in pair:
                self._clients[rank].send(f"COMM;{name},2,{rank % 2}\n".encode())
            assert [self._clients[rank].line() for rank in pair] == [
                f"CHECKIN_ACK;{name},0\n".encode()
            ] * 2

    def ask(self, rank, name, number, counter):
        self._clients[rank].send(f"CONFIG_REQ;{name},{number},{counter}\n".encode())

    def has_line(self, rank, within):
        return bool(select.select([self._clients[rank].socket], [], [], within)[0])

    def answered(self, name, since):
        """Wait until both ranks have their answer; return the seconds since an instant."""
        for rank in PAIRS[name]:
            assert self._clients[rank].line() == f"CONFIG_ACK;{name}\n".encode()
        return time.perf_counter() - since

    def last_asks(self, rank, name, number, counter):
        """Send the request that the other rank waits for; return the seconds to both answers."""
        begin = time.perf_counter()
        self.ask(rank, name, number, counter)
        return self.answered(name, since=begin)

    def both_answered(self, name, number, counter):
        """Have both ranks ask; return the seconds from the last request to both answers."""
        self.ask(PAIRS[name][0], name, number, counter)
        return self.last_asks(PAIRS[name][1], name, number, counter)
