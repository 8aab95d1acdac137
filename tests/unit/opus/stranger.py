"""Ranks of strangers as bytes: what the message table of the protocol has them send, and mutations.

Nothing of ours writes or reads these lines, so a test with them is one of the bytes.
"""

import re
from dataclasses import dataclass

PER_STAGE = 1_000_000
NUMBER = rb"(-?[0-9]{1,10})"
COMM = re.compile(rb"COMM;([!-+\--~]{1,128})," + NUMBER + b"," + NUMBER)
CONFIG_REQ = re.compile(rb"CONFIG_REQ;([!-+\--~]{1,128})," + NUMBER + b"," + NUMBER)


@dataclass(frozen=True)
class Job:
    """A job of data x pipeline x tensor ranks: rank = tensor + tensors * (data + datas * stage)."""

    stages: int
    datas: int
    tensors: int

    @property
    def ranks(self):
        return self.stages * self.datas * self.tensors

    def address_of(self, rank):
        return f"127.0.1.{1 + rank // self.tensors}"

    def script(self, rank, iterations, tag=""):
        """Return the lines of a rank, each of which is answered before it sends the next.

        A `tag` tells the communicators of jobs apart.
        """
        stage, inside = divmod(rank, self.datas * self.tensors)
        data, tensor = divmod(inside, self.tensors)
        ids = {
            "A": 0,
            "B": data * self.tensors + tensor,
            "C": stage * self.tensors + tensor,
            "D": stage * self.datas + data,
        }
        ids = {kind: f"{tag}{kind}{number}".ljust(64, "0") for kind, number in ids.items()}
        sizes = {"A": self.ranks, "B": self.stages, "C": self.datas, "D": self.tensors}
        lines = [f"COMM;{ids[kind]},{size},{tensor}" for kind, size in sizes.items()]
        counters = dict.fromkeys((stage, stage + 1), 0)
        for iteration in range(iterations):
            lines.append(f"CONFIG_REQ;{ids['C']},2,{PER_STAGE * stage + 2 * iteration}")
            for pair in (stage, stage + 1, stage + 1, stage):  # forward, then backward
                if 1 <= pair < self.stages:
                    counter = PER_STAGE * pair + counters[pair]
                    lines.append(f"CONFIG_REQ;{ids['B']},{1 + 10 * pair},{counter}")
                    counters[pair] += 1
            lines.append(f"CONFIG_REQ;{ids['C']},2,{PER_STAGE * stage + 2 * iteration + 1}")
        return [line.encode() + b"\n" for line in lines]


def answer_to(line):
    """Return how the line begins that answers one."""
    header, _, rest = line.partition(b";")
    name = rest.partition(b",")[0]
    return {b"COMM": b"CHECKIN_ACK;", b"CONFIG_REQ": b"CONFIG_ACK;"}[header] + name


def word_after(word, number, counter):
    """Return a rail's word with a stage, as section 4 of the protocol's record has it."""
    stage = counter // PER_STAGE
    return word | 1 << stage | 1 << (stage - 1) if number > 10 else word & ~(1 << stage)


def mutated(line, rng):
    """Return a line with a few bytes changed, removed, added or repeated, or another line."""
    found = bytearray(line)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0 if at < len(found):
                found[at] = rng.choice(b";,0123456789AZaz-\x00\xff \t\r\n")
            case 1 if found:
                del found[at : at + rng.randint(1, 5)]
            case 2:
                found[at:at] = rng.choice([b";", b",", b"9", b"-", b"COMM;", b"\x00", b"\n"])
            case 3:  # a number of another stage, group or rank
                end = found.rfind(b",")
                found[end + 1 :] = b"%d\n" % rng.choice([0, 1, 2, 11, PER_STAGE, 2 * PER_STAGE])
            case _:
                found += found[at : at + 8]
    return bytes(found)
