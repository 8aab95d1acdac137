"""Files that nobody should write: good ones mutated from a seed, and every trick of YAML."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from testbed.schema.yaml12 import parse

LARGEST = 10 * 2**20

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3.5, -0.0, 1e308, 2**31, 2**63, 2**64, 10**30, 10**4000),
    *("", " ", "x", "-", ".", "..", "a.b.c", "null", "random", "rank 0", "rank 999999", "h0.p0"),
    *([], {}, [[]], [None], {"a": {}}, {"": 1}, [1, 1], [{}, {}], {"env": "A", "file": "/b"}),
    *("5", "5 s", "-5 s", "1e999 s", "1e-9999999999999999999 B", "1e300 B", "0.5 B", "5s5", "5 S"),
    *("５ s", "5\u00a0s", "5 µs", "5 μs", "٣ s", "1_000 s", "0x10 s", "NaN s", "inf s", ". s"),
    *("< 1 s", "<", "<< 1 s", "<= -1 %", "< 1 furlong", "= 1", "≤ 1 s", "< nan", ">" + "9" * 400),
    *("10.0.0.1/33", "10.0.0.1", "::1/64", "10.0.0.1/24/24", "１0.0.0.1/24", "010.0.0.1/8"),
    *("ocs.0", "ocs.99999999999999999999", "ocs.٣", "ocs.-1", ".1", "ocs.", "0CS.1", "осs.1"),
    *("tcp://[::1", "tcp://h:99999", "tcp://h:-1", "https://u:p@h", "ssh://@:22", "//h", "COM1"),
    *("TCPIP::h::0::SOCKET", "ASRL::INSTR", "GPIB::5::INSTR", "/dev/../dev/x", "file:///etc"),
    *("1-9999999999", "5-1", "1-", "-1-4", "1–32", "2026-01-01", "12:30", "on", ".nan", ".inf"),
    *("$(id)", "`id`", "; rm -rf ~", "{{7*7}}", "${HOME}", "%s%n", "../../../etc/passwd", "~root"),
    *("[/red]", ":warning:", "\x1b[31m", "\r", "a\nb", "\u202egnp", "\ufeffx", "\u2028", "\u0130"),
    *("x" * 300, "x" * 70_000, "9" * 20_000, "<" + " " * 20_000 + "\nx", "a." * 600 + "b"),
)
TOKENS = (
    *("!!python/object/apply:os.system ['id']", "!!python/name:os.system", "!<%", "!!binary aGk="),
    *(
        "!!timestamp 2026-01-01",
        "!!set {a}",
        "!!omap [a: 1]",
        "!x 1",
        "!!int x",
        "!!str 5",
        "!!map",
    ),
    *(
        "*nobody",
        "&a *a",
        "&a [*a]",
        "&a {<<: *a}",
        "{<<: 5}",
        "{<<: [{a: 1}, 2]}",
        "<<",
        "&a &b c",
    ),
    *("2026-01-01", "12:30:45", "0o777", "0x" + "f" * 6000, "9" * 6000, "1e999", ".NaN", "-.INF"),
    *(
        '"\\ud800"',
        '"\\UFFFFFFFF"',
        '"\\0"',
        '"\\e[2J"',
        "'it''s'",
        '"open',
        "'open",
        "[1, 2",
        "{a",
    ),
    *("{a: 1, a: 2}", "? [a]\n: 1", "? x", "|\n  block", ">-\n folded", "> 5 s", "@x", "`x`", "%x"),
    *(
        "\t1",
        "1 # c",
        "#c",
        "a: b: c",
        "- 1",
        "--- 1",
        "...",
        "\ufeff1",
        "\x00",
        "\x07",
        "\x85",
        "~",
    ),
    *("[" * 40 + "]" * 40, "{a: " * 40 + "}" * 40, "- " * 40, "? " * 40, "!!seq " * 40, "&a " * 40),
)
KEYS = (
    *("bogus", "experiment", "lab", "circuits", "hosts", "kind", "driver", "options", "matrix"),
    *("<<", "", " ", "a b", "a.b", "lab.twin.settle", "faults.0.kind", "needs.hosts", "__class__"),
    *("тwin", "рower", "hоsts", "ｌａｂ", "LAB", "lab\u200b", "\x1b[31mlab", "a\nb", "é" * 200),
    *("jobs.main." + "a." * 300 + "b", "x" * 2000, "0", "true", "null", "1.5", "[a]", "*a", "&a"),
)


@dataclass(frozen=True, slots=True)
class BadFile:
    """What is in the file, and by which trick it came about."""

    trick: str
    raw: bytes


def bad_files(seed: int, good: list[str]) -> Iterator[BadFile]:
    """Yield mutants of good files without end; the same seed yields the same ones.

    The first ones are one by each trick, so that a sample has all of them.
    """
    chance = random.Random(seed)
    tricks = list(_TRICKS)
    weights = list(_TRICKS.values())
    for number in count():
        is_first = number < len(tricks)
        trick = tricks[number] if is_first else chance.choices(tricks, weights)[0]
        yield BadFile(trick.__name__.strip("_"), trick(chance, good))


def _structure(chance: random.Random, good: list[str]) -> bytes:
    """Change values, keys and the tree of one file, and write it as JSON, which is YAML."""
    data = parse("f", chance.choice(good))[0]
    tokens: list[str] = []
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        holder, step = chance.choice(_holders(data))
        edit = chance.choice(_EDITS)
        edit(chance, holder, step, lambda: parse("f", chance.choice(good))[0], tokens)
    text = json.dumps(data, indent=chance.choice((None, 1)), ensure_ascii=chance.random() < 0.5)
    for number, token in enumerate(tokens):
        text = text.replace(f'"@@{number}@@"', token)
    return text.encode("utf-8", "surrogatepass")


def _holders(data: Any) -> list[tuple[Any, Any]]:
    """Return every container with each of its keys or indexes."""
    found, left = [], [data]
    while left:
        holder = left.pop()
        steps = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        found += [(holder, step) for step in steps]
        left += [holder[step] for step in steps if isinstance(holder[step], (dict, list))]
    return found or [({"": None}, "")]


def _set(chance, holder, step, other, tokens):
    holder[step] = copy.deepcopy(chance.choice(VALUES))


def _set_raw(chance, holder, step, other, tokens):
    holder[step] = f"@@{len(tokens)}@@"
    tokens.append(chance.choice(TOKENS))


def _drop(chance, holder, step, other, tokens):
    del holder[step]


def _add(chance, holder, step, other, tokens):
    value = copy.deepcopy(chance.choice(VALUES))
    if isinstance(holder, dict):
        holder[chance.choice(KEYS)] = value
    else:
        holder.insert(step, value)


def _rename(chance, holder, step, other, tokens):
    if isinstance(holder, dict):
        holder[chance.choice((*KEYS, *other()))] = holder.pop(step)


def _graft(chance, holder, step, other, tokens):
    theirs, there = chance.choice(_holders(other()))
    holder[step] = theirs[there]


def _wrap(chance, holder, step, other, tokens):
    held = holder[step]
    for _ in range(chance.choice((1, 2, 40))):
        held = [held] if chance.random() < 0.5 else {"a": held}
    holder[step] = held


def _multiply(chance, holder, step, other, tokens):
    number = holder[step]
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        holder[step] = number * chance.choice((-1, 0, 10**6, 10**12, 10**30, 0.5))


_EDITS: tuple[Callable[..., None], ...] = (
    *(_set, _set, _set, _set_raw, _set_raw, _drop, _add, _add, _rename, _graft, _wrap, _multiply),
)


def _lines(chance: random.Random, good: list[str]) -> bytes:
    """Cut, shift, double and spoil lines, and write tokens between characters."""
    lines = chance.choice(good).split("\n")
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(lines))
        lines[at : at + 1] = _spoilt(chance, lines[at])
        lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _spoilt(chance: random.Random, line: str) -> list[str]:
    here = chance.randrange(len(line) + 1)
    before, after = line[:here], line[here:]
    return chance.choice(
        (
            [before + chance.choice((*TOKENS, *KEYS[:12])) + after],
            [before + chance.choice(":,-[]{}&*!|>'\"%@`#?\t \\") + after],
            [before + after[1:]],
            [" " * chance.randrange(1, 9) + line],
            ["\t" + line.lstrip()],
            [line.lstrip()],
            [line, line],
            [],
            [line, chance.choice(("---", "...", "%YAML 1.1", "<<: *a", "? ", "- "))],
            [line.partition(":")[0] + ": " + chance.choice(TOKENS)],
        )
    )


def _bytes(chance: random.Random, good: list[str]) -> bytes:
    """Write a file in another encoding, with other line ends, cut short, or with wrong bytes."""
    text = chance.choice(good)
    end = chance.choice(("\n", "\r\n", "\r", "\x85", "\u2028", "\n\r", "\0"))
    raw = text.replace("\n", end).encode(
        chance.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7"))
    )
    if chance.random() < 0.3:
        raw = raw[: chance.randrange(len(raw))]
    for _ in range(chance.choice((0, 1, 3))):
        at = chance.randrange(len(raw) + 1)
        wrong = chance.choice((b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b"))
        raw = raw[:at] + wrong + raw[at + chance.randrange(2) :]
    return raw


def _flood(chance: random.Random, good: list[str]) -> bytes:
    """Put far too much of one thing at the end of a file: keys, values, depth, aliases, text."""
    size = int(math.exp(chance.uniform(math.log(50), math.log(LARGEST))))
    text = chance.choice(good) + chance.choice(_FLOODS)(size)
    return text.encode()


def _repeated(head: str, unit: str, tail: str = "\n") -> Callable[[int], str]:
    return lambda size: head + unit * (size // len(unit)) + tail


def _numbered(head: str, unit: str, tail: str = "\n") -> Callable[[int], str]:
    def flood(size: int) -> str:
        count = size // (len(unit) + 4)
        return head + "".join(unit.replace("#", str(n + 1)) for n in range(count)) + tail

    return flood


_FLOODS: tuple[Callable[[int], str], ...] = (
    *(_repeated(f"x: {unit}", unit) for unit in ("[", "{a: ", "- ", "? ", "!!x ", "&a ", "a: ")),
    *(_repeated(head, "x") for head in ("# ", "x: ", "x: '", 'x: "', "x: !", "x: &", "x: *", "? ")),
    *(_repeated(head, " ", "x\n") for head in ("", "x:", "x: '", "x: >\n")),
    *(_repeated("x: ", digit) for digit in ("9", "0x", "-", ".", "e", ":", "1:")),
    _repeated("x: [", "1,", "]\n"),
    _repeated("x: [", "[],", "]\n"),
    _repeated("", "\n"),
    _repeated("", "x: 1\n"),
    _repeated("---\n", "--- 1\n"),
    _repeated("x: |\n", "  block\n"),
    _repeated("variants: {v: {? faults.", "a.", "b\n: 1}}\n"),
    _numbered("", "k#: 1\n"),
    _numbered("x: {", "k#: {}, ", "}\n"),
    _numbered("x: [", "&a# 1, ", "]\n"),
    _numbered("x0: &a0 [1]\n", "x#: &a# [*a0, *a0]\n"),
    _numbered("m0: &m0 {k: 1}\n", "m#: &m# {<<: *m0, k#: 1}\n"),
    _numbered("matrix: {needs.hosts: [", "#,", "]}\n"),
    _numbered("matrix: {needs.hosts: [1, 2, 3], limits.trial: [", "# s,", "]}\n"),
    _numbered("variants:\n", "  v#: {needs.hosts: #}\n"),
    _numbered("variants: {v: {", "faults.0.x#: 1, ", "}}\n"),
    _numbered("circuits:\n", "  - h# h#\n"),
    lambda size: "\n".join(
        ["b0: &b0 [1, 1]"]
        + [f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]" for n in range(1, min(size // 20, 5000))]
    ),
)

_TRICKS = {_structure: 55, _lines: 27, _bytes: 15, _flood: 3}
