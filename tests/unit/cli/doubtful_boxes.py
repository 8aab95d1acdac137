"""Commands on switches that are late, lie, flap or lose circuits, judged by what the box has.

The command line is the real one, in this process; the box answers on a real port. The judge knows
what the box has and had, which no client can ask for. `python doubtful_boxes.py SEED COUNT` plays
one box at full time and prints what disagreed.
"""

import contextlib
import io
import json
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from testbed.bench.sites import SwitchSite
from testbed.cli import run as command_line
from testbed.plugins import kind
from testbed.record import lease_store, locks
from testbed.record.journal import open_entries
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.switch import sides

SIDE = 8
MINE, OTHERS = range(1, 6), range(6, SIDE + 1)
LAB = """\
lab: doubtful
hosts:
  h0: {{ssh: h0, ports: {{p0: {{interface: e, address: 10.0.0.1/8, tx: ocs.1, rx: ocs.9}}}}}}
  h1: {{ssh: h1, ports: {{p0: {{interface: e, address: 10.0.0.2/8, tx: ocs.2, rx: ocs.10}}}}}}
switches:
  ocs: {{driver: {driver}, resource: "{resource}", ports: [1-16]{more}}}
"""


@dataclass(frozen=True)
class Language:
    """A driver with its far end, and whether the box measures light on both sides."""

    driver: str
    resource: str
    more: str = ""
    measures: bool = False


LANGUAGES = (
    Language("polatis", "tcp://127.0.0.1:{}", ", monitors: true", measures=True),
    Language("polatis", "tcp://127.0.0.1:{}", ", monitors: false"),
    Language("polatis-tl1", "tcp://127.0.0.1:{}", ", user: admin, password: {file: password}"),
    Language("polatis-restconf", "http://127.0.0.1:{}"),
)
CHARACTERS = ("honest", "troubled", "late", "flapping", "lying", "losing", "sweeping")
_TROUBLES = ("stuck", "misrouted", "failed", "error", "silent", "reset", "slow")
"""What goes wrong once with a box whose read-back is right and prompt."""
_LOST_AFTER = (0.0, 0.001, 0.01, 0.03, 0.1, 0.3)


class Disagreement(AssertionError):
    """Report that the exit code, the words and the box do not say the same."""


class DoubtfulBox:
    """A switch of one character on a port, and a person who types commands.

    `scale` makes everything faster, the longest lag that is supposed of a box too.
    """

    def __init__(self, directory, seed, scale=1.0):
        self.chance = random.Random(seed)
        self.language = LANGUAGES[seed % len(LANGUAGES)]
        self.character = CHARACTERS[seed // len(LANGUAGES) % len(CHARACTERS)]
        self._scale = scale
        self.lag = 0.0
        self.codes = Counter()
        self._scheduler = WallScheduler()
        site = SwitchSite(
            *sides(SIDE, SIDE), "S1", 0.002, seed, self._scheduler, self._hear,
            launched=lambda port: 0.0,
        )  # fmt: skip
        kind_ = kind("drivers", self.language.driver)
        options = kind_.options(**self._options(directory))
        self.far_end = kind("far_ends", kind_.far_end).load()(site, options)
        self.box = self.far_end._switch
        self.lit = {}
        self.reads = []
        self._listen_to_reads()
        self._wire = serve_tcp(self.far_end)
        self.results = directory / "results"
        self.results.mkdir()
        self.lab = directory / "lab.yaml"
        resource = self.language.resource.format(self._wire.port)
        more = self.language.more.replace("password}", f"{directory / 'password'}}}")
        text = LAB.format(driver=self.language.driver, resource=resource, more=more)
        self.lab.write_text(text)
        self.box.connect({i: i + SIDE for i in OTHERS})

    def _options(self, directory):
        (directory / "password").write_text("root\n")
        if self.language.driver == "polatis":
            return {"monitors": self.language.measures}
        if self.language.driver == "polatis-tl1":
            from testbed.secret import Secret

            return {"user": "admin", "password": Secret(file=str(directory / "password"))}
        return {}

    def _hear(self, lit):
        self.lit = lit

    def _listen_to_reads(self):
        read_back = self.box.read_back

        def noted():
            self.reads.append(self._scheduler.now())
            return read_back()

        self.box.read_back = noted

    # --- what happens ------------------------------------------------------------------------

    def play(self, count):
        """Type commands, each judged at once."""
        for _ in range(count):
            self._arm()
            words = self._drawn()
            before = dict(self.box.commanded)
            code, out, err = self.type_("switch", "ocs", *words, *self._where)
            self._rest()
            self.codes[code] += 1
            with self._told(words, code, out + err):
                self._judge(words, before, code, out, err)
            if code == 6:
                self._mend(dict(self.box.commanded) if "is done, but" in err else before, words)

    def type_(self, *words):
        """Type a command; return its exit code and what it printed on each output."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command_line([*words])
        return code, out.getvalue(), err.getvalue()

    @property
    def _where(self):
        return ["--lab", str(self.lab), "--results", str(self.results)]

    def _arm(self):
        self.far_end.clear()
        before, self.lag = self.lag, self.chance.uniform(0.5, 10.0) * self._scale
        if self.character in ("late", "flapping") and self.reads:
            # What was read last was `before` old: a read-back never goes back in time.
            self._wait_until(self.reads[-1] + self.lag - before)
        match self.character:
            case "troubled":
                known = [name for name in _TROUBLES if name in self.far_end.known_faults]
                self.far_end.fault(self.chance.choice(known), count=1)
            case "late":
                self.far_end.fault("lag", delay=self.lag)
            case "flapping":
                self.far_end.fault("flap", delay=self.lag)
            case "lying":
                self.far_end.fault("lie", count=1, probability=0.5)
            case "losing":
                self.far_end.fault("vanish", delay=self.chance.choice(_LOST_AFTER))
            case "sweeping" if self.chance.random() < 0.5:
                self.far_end.fault("swept", count=1)

    def _rest(self):
        """Let what was begun be over; a box that is late goes on being late."""
        if self.character in ("late", "flapping"):
            return
        self.far_end.clear()
        later = max(_LOST_AFTER) if self.character == "losing" else 0.0
        self._wait_until(self._scheduler.now() + later + 0.01)

    def _wait_until(self, at):
        passed = threading.Event()
        self._scheduler.call_at(at, passed.set)
        passed.wait()

    def _drawn(self):
        mine = {i: e for i, e in self.box.commanded.items() if i in MINE}
        free = [e for e in range(SIDE + 1, SIDE + 6) if e not in mine.values()]
        idle = [i for i in MINE if i not in mine]
        verb = self.chance.choice(["connect", "connect", "disconnect", "again", "show"])
        if verb == "show":
            return ["show"]
        if verb == "connect" and idle and free:
            return ["connect", str(self.chance.choice(idle)), str(self.chance.choice(free))]
        if mine:
            ingress = self.chance.choice(sorted(mine))
            verb = "connect" if verb == "again" else "disconnect"
            return [verb, str(ingress), str(mine[ingress])]
        return ["connect", str(idle[0]), str(free[0])]

    def _mend(self, before, words):
        """See that what is owed can be taken back once the box is as it should be."""
        self.far_end.clear()
        time.sleep(0.02)
        for run in self._owed():
            code, out, err = self.type_("recover", str(run), "--results", str(self.results))
            with self._told(["recover", "after", *words], code, out + err):
                _agree(code == 0, "what is owed is not recovered on a box that is in order")
        with self._told(["after", *words], 6, ""):
            mine = {i: e for i, e in before.items() if i in MINE}
            shown = {i: e for i, e in self.box.commanded.items() if i in MINE}
            _agree(mine == shown, f"recovered to {shown}, was {mine}")
        swept = {i: i + SIDE for i in OTHERS if i not in self.box.commanded}
        self.box.connect(swept)
        time.sleep(0.02)
        if self.character in ("late", "flapping"):  # whose read-back never goes back in time
            time.sleep(10.5 * self._scale)

    # --- the verdict -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _told(self, words, code, said):
        try:
            yield
        except Disagreement as wrong:
            box = f"{self.language.driver}{self.language.more}, {self.character}, {self.lag:.2f} s"
            typed = " ".join(words)
            raise Disagreement(f"{box}: `{typed}` ended {code}: {wrong}\n{said}") from None

    def _at_last_look(self):
        """Return what the box had when it was read last."""
        until = self.reads[-1]
        return next(rows for since, rows in reversed(self.box._history) if since <= until)

    def _judge(self, words, before, code, out, err):
        verb, ends = words[0], tuple(map(int, words[1:]))
        had = self._at_last_look()
        said = " ".join((out + err).split())
        _agree("Traceback" not in said, "a traceback")
        if code == 0:
            self._is_as_printed(verb, ends, had, out)
            there = [i for i in OTHERS if i in before]
            _agree(all(i in had for i in there), "circuits of others went without a word")
        elif code == 6:
            self._is_declared(before, had, said)
        elif code == 4 and "was made and verified" in said:
            _agree((ends in had.items()) == (verb == "connect"), "it was not made")
        else:
            _agree(code in (4, 5), "an unknown exit code")
            _agree(had == before, f"it has {had}, had {before}")
            self._is_lit(had)

    def _is_as_printed(self, verb, ends, had, out):
        rows = {int(i): int(e) for i, e in re.findall(r"^ +(\d+) .*?→ (\d+)", out, re.MULTILINE)}
        if verb == "show":
            if self.character not in ("late", "flapping"):
                _agree(rows == had, f"it has {had}")
            return
        _agree(rows == had, f"it has {had}")
        _agree((ends in rows.items()) == (verb == "connect"), "the rows contradict the exit code")
        self._is_lit(had)

    def _is_lit(self, had):
        if self.language.measures and self.character != "losing":
            _agree(self.lit == had, f"light is on {self.lit}, it has {had}")

    def _is_declared(self, before, had, said):
        honest = ("honest", "troubled")
        _agree(self.character not in honest, "an honest box ended 6")
        if "made by another client, was removed" in said:
            gone = {i for i in OTHERS if i in before and had.get(i) != before[i]}
            _agree(gone and all(f"{i}→{before[i]}" in said for i in gone), f"gone are {gone}")
            return
        _agree(self._owed(), "its journal has no change to undo")

    def _owed(self):
        runs = [run for run in self.results.iterdir() if (run / "journal.jsonl").exists()]
        return [run for run in runs if open_entries(run / "journal.jsonl")]

    def close(self):
        """End the box."""
        self._wire.close()
        self._scheduler.close()


def _agree(is_so, words):
    if not is_so:
        raise Disagreement(words)


def _main(seed, count):
    with tempfile.TemporaryDirectory() as directory:
        locks.SHARED = lease_store.SHARED = Path(directory) / "shared"  # nobody else is to see it
        box = DoubtfulBox(Path(directory), seed)
        wrong = ""
        try:
            box.play(count)
        except Disagreement as error:
            wrong = str(error)
        finally:
            box.close()
        who = [box.language.driver, box.character]
        print(json.dumps({"seed": seed, "box": who, "codes": box.codes, "wrong": wrong}))


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
