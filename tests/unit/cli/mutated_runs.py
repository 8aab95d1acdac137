"""Run directories as an enemy, a full disk or a careless copy would leave them; seeded."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "report" / "data"
NOBODY = 65534
PRECIOUS = "precious"

SCRIPTS = (
    "<script>new Image().src='/ran'</script>",
    '"><img src=/loaded onerror="new Image().src=\'/ran\'">',
    "'><svg/onload=\"new Image().src='/ran'\">",
    "</style><script>new Image().src='/ran'</script>",
    "</code></pre><iframe src=\"javascript:new Image().src='/ran'\"></iframe>",
    "--><script>new Image().src='/ran'</script>",
    "]]><script>new Image().src='/ran'</script>",
    "</title><script>new Image().src='/ran'</script>",
    "<link rel=stylesheet href=/loaded><base href=//127.0.0.1:1/>",
    '" onmouseover="new Image().src=\'/ran\'" style="background:url(/loaded)" autofocus x="',
    "<meta http-equiv=refresh content=\"0;url=javascript:new Image().src='/ran'\">",
    "<details open ontoggle=\"new Image().src='/ran'\">",
)
"""What a browser would run or load, were it not spelled out."""

ESCAPES = (
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b31m",
    "\u202e",
    "\r\x1b[A",
    "\x00",
    "\udc80",
    "\u2028",
)
MARKUP = ("[bold red]x[/]", "$\\frac{$", "{{ 7 * 7 }}{% raw %}", "%s%n", "../../../etc/passwd")
OTHERS: tuple[Any, ...] = (
    *(None, True, [], {}, [[]], {"": {}}, "", -1, 0, 1e308, 1e-308, 10**18, 10**400, -(10**9)),
    *(float("nan"), float("inf"), 0.5, "x" * 5000, "é" * 300, "1", "nan"),
)
JSON_FILES = ("run.json", "summary.json")
LOGS = ("events.jsonl", "journal.jsonl")
TEXTS = ("experiment.yaml", "lab.yaml")
FILES = (*JSON_FILES, *LOGS, *TEXTS)
WRITTEN = ("summary.json", "junit.xml", "report.html", "figures", "wire", "logs")

EXPERIMENT = (DATA / "lumion.yaml").read_text()
RUN = "20260101T000000Z-lumion-0a1b2c"


@dataclass
class Base:
    """What a whole run directory holds, before anything is done to it."""

    facts: dict[str, Any]
    summary: dict[str, Any]
    lab: str
    events: list[dict[str, Any]]
    few: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def make(cls, lab: str, summary: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> Base:
        """Return the record of two recoveries, and of a run in which little happened."""
        facts = {
            "format": 1,
            "run": RUN,
            "started": "2026-01-01T00:00:00.000Z",
            "seed": 7,
            "question": "How soon?",
            "command": "testbed run x --twin",
            "overrides": [],
            "label": "measured-twin",
            "lab": "rack",
            "versions": {"testbed": "0.1.0"},
            "twin": f"{socket.gethostname()}/an earlier boot/pid:[1]/12/345",
            "git": {"commit": "0123abcd", "dirty": True},
            "machine": {"node": "here"},
        }
        lines = (DATA / "recoveries.jsonl").read_text().splitlines()
        events = [event(0, "run.begin", "lumion", facts), *map(json.loads, lines)]
        few = [
            event(0, "run.begin", "lumion", facts),
            event(1, "health", "h0", {"text": "its clock is 3 s off"}),
            event(2, "trial.begin", "splice-warm", {}, trial=1),
            event(3, "retry", "ocs", {"what": "a read", "why": "no answer"}, trial=1),
            event(4, "reading", "speed", {"value": 3.5, "unit": "", "better": "higher"}, trial=1),
            event(5, "note", "h0", {"text": "a word"}, trial=1),
            event(6, "trial.end", "", {"valid": True, "recovered": True, "reason": ""}, trial=1),
            event(7, "cleanup.begin", "circuits of ocs", {}),
            event(8, "cleanup.end", "circuits of ocs", {"verified": True, "problem": ""}),
            next(row for row in events if row["kind"] == "run.end") | {"seq": 9, "t": 9.0},
            event(10, "recover.begin", RUN, {"utc": "2026", "promises": ["circuits of ocs"]}),
            event(11, "cleanup.begin", "circuits of ocs", {}),
            event(12, "cleanup.end", "circuits of ocs", {"verified": True, "problem": ""}),
            event(13, "recover.end", RUN, {"left": ["circuits"], "exit_code": 0}),
        ]
        return cls(facts, summary(events), lab, events, few)


def event(
    seq: int, kind: str, subject: str, data: dict[str, Any], trial: int | None = None
) -> dict[str, Any]:
    row = {"seq": seq, "t": float(seq), "kind": kind, "subject": subject, "data": data}
    return row | ({} if trial is None else {"trial": trial})


class Mutator:
    """Make run directories below `results`; what lies in `outside` must never change."""

    def __init__(self, base: Base, results: Path, outside: Path, seed: int) -> None:
        self._base = base
        self._results = results
        self._outside = outside
        self._seed = seed

    def make(self, number: int) -> tuple[Path, list[str]]:
        """Return one directory and what was done to it."""
        self._chance = chance = random.Random(self._seed * 1_000_003 + number)
        path = self._results / f"20260102T000000Z-mutant-{number:06x}"
        events = self._base.events if number % 20 == 0 else self._base.few
        self._write_whole(path, events)
        ways = (self._field, self._field, self._escape, self._escape, self._lines, self._nesting)
        ways = (*ways, self._link, self._draft, self._special, self._owner, self._bytes)
        done = [chance.choice(ways)(path) for _ in range(chance.choice((1, 1, 2, 3)))]
        return path, done

    def _write_whole(self, path: Path, events: list[dict[str, Any]]) -> None:
        for part in (path, path / "wire", path / "logs"):
            part.mkdir()
        base = self._base
        promise = {"id": 0, "undo": "circuits", "ports": {"ocs": [1, 17]}}
        owed = [promise] if self._chance.random() < 0.5 else [promise, {"done": 0}]
        for name, value in (("run.json", base.facts), ("summary.json", base.summary)):
            (path / name).write_text(json.dumps(value))
        for name, rows in (("events.jsonl", events), ("journal.jsonl", owed)):
            (path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (path / "experiment.yaml").write_text(EXPERIMENT)
        (path / "lab.yaml").write_text(base.lab)

    # --- fields ----------------------------------------------------------------------------

    def _field(self, path: Path) -> str:
        """Put something else into a field, or take it away."""
        name = self._chance.choice((*JSON_FILES, *LOGS, "events.jsonl"))
        value = self._chance.choice((*OTHERS, *SCRIPTS, *MARKUP))
        return self._changed(path, name, lambda old: value, deletes=True)

    def _escape(self, path: Path) -> str:
        """Put what a terminal or a browser obeys into a text."""
        bad = "".join(self._chance.sample((*SCRIPTS, *ESCAPES, *MARKUP), 2))
        name = self._chance.choice((*FILES, "events.jsonl", "events.jsonl"))
        if name not in TEXTS:
            return self._changed(path, name, lambda old: f"{old}{bad}", texts=True)
        if not regular(path / name):
            return f"{name}: left as it is"
        word = self._chance.choice(["splice-warm", "splice-cold", "How soon", "rack", "ocs"])
        spelled = json.dumps(word + bad)[1:-1]
        changed = text(path / name).replace(word, f'"{spelled}"', self._chance.choice((1, 9)))
        (path / name).write_text(changed)
        return f"{name}: {bad!r} in {word!r}"

    def _changed(
        self,
        path: Path,
        name: str,
        change: Callable[[Any], Any],
        *,
        texts: bool = False,
        deletes: bool = False,
    ) -> str:
        with suppress(OSError, ValueError, IndexError, RecursionError):
            lines = (path / name).read_text().splitlines() if regular(path / name) else []
            at = self._chance.randrange(len(lines))
            value = json.loads(lines[at])
            places = list(slots(value, texts=texts))
            holder, key = self._chance.choice(places)
            if deletes and self._chance.random() < 0.2:
                del holder[key]
            else:
                holder[key] = change(holder[key])
            lines[at] = json.dumps(value)
            (path / name).write_text("\n".join(lines) + "\n")
            return f"{name}:{at + 1}: {key!r} changed"
        return f"{name}: left as it is"

    # --- files -----------------------------------------------------------------------------

    def _lines(self, path: Path) -> str:
        """Drop, repeat, swap or cut lines of a log."""
        name = self._chance.choice(LOGS)
        if not regular(path / name):
            return f"{name}: left as it is"
        old = text(path / name)
        lines = old.splitlines(keepends=True)
        way = self._chance.choice(("drop", "repeat", "shuffle", "cut", "join"))
        at = self._chance.randrange(len(lines) or 1)
        match way:
            case "drop":
                del lines[at : at + self._chance.choice((1, 1, 50))]
            case "repeat":
                lines[at:at] = lines[at : at + 1] * self._chance.choice((1, 300))
            case "shuffle":
                self._chance.shuffle(lines)
            case "cut":
                lines = ["".join(lines)[: self._chance.randrange(len(old) + 1)]]
            case _:
                lines[at : at + 2] = ["".join(lines[at : at + 2]).replace("\n", " ")]
        (path / name).write_text("".join(lines))
        return f"{name}: {way} at line {at + 1}"

    def _nesting(self, path: Path) -> str:
        """Nest a file, or a field, far too deeply."""
        name, depth = self._chance.choice(FILES), self._chance.choice((65, 990, 5000, 300_000))
        opening, closing = self._chance.choice((("[", "]"), ('{"a":', "}")))
        deep = f"{opening * depth}1{closing * depth}"
        if not regular(path / name):
            return f"{name}: left as it is"
        old = text(path / name)
        if name in TEXTS:
            (path / name).write_text(f"{old}\ndeep: {deep}\n")
        elif self._chance.random() < 0.5:
            (path / name).write_text(f"{deep}\n{deep}\n")
        else:
            (path / name).write_text(old.replace("{", f'{{"deep": {deep}, ', 1))
        return f"{name}: nested {depth} levels deep"

    def _bytes(self, path: Path) -> str:
        """Put any bytes into a file, or instead of it."""
        name = self._chance.choice(FILES)
        if not regular(path / name):
            return f"{name}: left as it is"
        content = bytearray((path / name).read_bytes())
        way = self._chance.choice(("flip", "replace", "empty", "nul", "huge"))
        if way == "huge":
            os.truncate(path / name, 3 << 30)  # a hole, which takes no space
            return f"{name}: 3 GiB"
        if way == "flip" and content:
            for _ in range(self._chance.choice((1, 5, 100))):
                content[self._chance.randrange(len(content))] = self._chance.randrange(256)
        elif way == "replace":
            content = bytearray(self._chance.randbytes(self._chance.choice((1, 100, 10_000))))
        else:
            content = bytearray(b"" if way == "empty" else b"\0" * 5000)
        (path / name).write_bytes(bytes(content))
        return f"{name}: {way}"

    def _link(self, path: Path) -> str:
        """Put a link in the place of something."""
        name = self._chance.choice((*FILES, *WRITTEN))
        targets = (*self._outside.iterdir(), "/dev/zero", "/etc/passwd", name, "nowhere", "/", "..")
        target = self._chance.choice(targets)
        removed(path / name)
        (path / name).symlink_to(target)
        return f"{name} -> {target}"

    def _draft(self, path: Path) -> str:
        """Put a link where a file is drafted, as far as that can be guessed."""
        victims = sorted(one for one in self._outside.iterdir() if one.is_file())
        for name in WRITTEN[:3]:
            draft = path / f".{name}.tmp"
            removed(draft)
            draft.symlink_to(self._chance.choice(victims))
        return "links at the drafts"

    def _special(self, path: Path) -> str:
        """Put what is no regular file in the place of something."""
        name = self._chance.choice((*FILES, *FILES, *WRITTEN))
        way = self._chance.choice(("fifo", "fifo", "socket", "directory", "nothing"))
        removed(path / name)
        if way == "fifo":
            os.mkfifo(path / name)
        elif way == "socket":
            with socket.socket(socket.AF_UNIX) as server:
                here = Path.cwd()
                os.chdir(path)
                try:
                    server.bind(name)
                finally:
                    os.chdir(here)
        elif way == "directory":
            (path / name).mkdir()
        return f"{name}: {way}"

    def _owner(self, path: Path) -> str:
        """Give something to somebody else, or to everybody, or to nobody."""
        name = self._chance.choice((".", ".", *FILES))
        if self._chance.random() < 0.5 and os.getuid() == 0:
            with suppress(OSError):
                os.chown(path / name, NOBODY, NOBODY, follow_symlinks=False)
            return f"{name} is nobody's"
        mode = self._chance.choice((0o777, 0o666, 0o000, 0o400))
        if regular(path / name) or name == ".":
            (path / name).chmod(mode | (0o700 if name == "." else 0))
        return f"{name}: {mode:o}"


def text(path: Path) -> str:
    """Return the text of a plain file; one that is not UTF-8 has none."""
    with suppress(UnicodeDecodeError):
        return path.read_text()
    return ""


def regular(path: Path) -> bool:
    """Tell whether it is a plain file of a size to be held, and ours to read and write."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size >= 1 << 24:
        return False
    return os.access(path, os.R_OK | os.W_OK)


def removed(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            removed(inner)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def slots(value: Any, *, texts: bool) -> Any:
    """Yield every holder of a value in plain data, with the key that the value has there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, held in list(pairs) if isinstance(value, (dict, list)) else ():
        if not texts or isinstance(held, str):
            yield value, key
        if isinstance(held, (dict, list)):
            yield from slots(held, texts=texts)


def contents(directory: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything below a directory, to see whether anything has changed."""
    found = {}
    for path in sorted([directory, *directory.rglob("*")]):
        stat = path.lstat()
        held = path.read_bytes() if regular(path) else None
        link = str(path.readlink()) if path.is_symlink() else None
        found[str(path)] = (stat.st_mode, stat.st_uid, stat.st_ino, stat.st_size, held, link)
    return found
