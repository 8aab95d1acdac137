"""Output in every form that nccl-tests and rccl-tests have, and ways in which text is damaged.

The files were written by hand from the programs' sources; none comes from a GPU.
"""

from __future__ import annotations

import random
from pathlib import Path

from testbed.analysis.nccl import Output
from testbed.analysis.nccl_files import read_output

DATA = Path(__file__).parent / "data"
FORMS = sorted(path.name for path in DATA.glob("[nr]ccl*"))
PROGRAM = "build/all_reduce_perf"
"""What rccl-tests ran, which do not say so."""


def text_of(form: str) -> str:
    return (DATA / form).read_bytes().decode()


def read(form: str) -> Output:
    return read_output(text_of(form), PROGRAM)


def cut(chance: random.Random, text: str) -> str:
    """Return what a program had written when it was killed."""
    return text[: chance.randrange(len(text))]


def lose(chance: random.Random, text: str) -> str:
    """Return the text without a piece, which may go over many lines."""
    start = chance.randrange(len(text))
    return text[:start] + text[start + chance.randint(1, 300) :]


def interrupt(chance: random.Random, text: str) -> str:
    """Return the text with the line of another program, or a piece of itself, in it."""
    start, other = chance.randrange(len(text)), chance.randrange(len(text))
    pieces = (
        "gpu-1:4120:4190 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
        text[other : other + chance.randint(1, 200)],
        "".join(chance.choices("0123456789. \n", k=chance.randint(1, 12))),
    )
    return text[:start] + chance.choice(pieces) + text[start:]


def garble(chance: random.Random, text: str) -> str:
    """Return the text with some characters replaced by such as no number has."""
    damaged = list(text)
    for place in chance.choices(range(len(text)), k=chance.randint(1, 5)):
        damaged[place] = chance.choice("#?~xX\x00\x7fé")
    return "".join(damaged)


def exchange(chance: random.Random, text: str) -> str:
    """Return the text with two of its lines exchanged."""
    lines = text.split("\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def miscopy(chance: random.Random, text: str) -> str:
    """Return the text with one digit replaced by another."""
    place = chance.choice([n for n, letter in enumerate(text) if letter in "0123456789"])
    other = chance.choice([digit for digit in "0123456789" if digit != text[place]])
    return text[:place] + other + text[place + 1 :]


DAMAGES = (cut, lose, interrupt, garble, exchange)
