"""Secrets planted in a lab, and searched for in everything that a run of it leaves and says."""

from __future__ import annotations

import base64
import re
import sys
import traceback
from contextlib import ExitStack

import pytest

from testbed.bench.bench import Bench
from testbed.bench.sites import PowerSite, SwitchSite
from testbed.cli.files import read
from testbed.cli.record import open_record
from testbed.contract.places import PLACES
from testbed.contract.rig import soon
from testbed.errors import Rejected, TestbedError
from testbed.jobs.program_descriptors import CommandOptions
from testbed.jobs.programs import Command
from testbed.plugins import kind
from testbed.record.journal import Journal
from testbed.report.plan_page import print_plan
from testbed.run.agent_reports import record
from testbed.run.inbox import Report
from testbed.run.planning.job_circuits import RingPorts
from testbed.run.programs import Programs
from testbed.secret import Secret
from testbed.twin.scheduler import WallScheduler

USER = "operator"
SWITCHES = {
    "polatis-tl1": "tcp",
    "calient": "tcp",
    "polatis-restconf": "http",
    "calient-rest": "http",
    "sonic-ocs": "ssh",
}
"""Every switch with a password, and how it is reached."""
UNITS = {"redfish": "http", "redfish-host": "http"}
SHAPE = {"calient": "1x8x4"}
IN_FILES = ("calient", "calient-rest", "redfish", "sonic-ocs")
"""Instruments whose password is in a file; those of the others are in the environment."""

EXPERIMENT = """\
experiment: secrets
question: Does anything repeat a password?
needs: {hosts: 2}
jobs: {main: {kind: allreduce, ranks: 2, topology: ring, sizes: [4 KiB]}}
"""
HOSTS = """\
lab: secrets
hosts:
  h0: {ssh: h0, env: {HF_TOKEN: {env: PLANTED_TOKEN}},
       ports: {p0: {interface: e0, address: 10.0.0.1/24, tx: calient.1, rx: calient.33},
               p1: {interface: e1, address: 10.0.0.2/24, tx: calient.2, rx: calient.34}}}
  h1: {ssh: h1, ports: {p0: {interface: e0, address: 10.0.0.3/24, tx: calient.3, rx: calient.35},
                        p1: {interface: e1, address: 10.0.0.4/24, tx: calient.4, rx: calient.36}}}
"""


class PlantedLab:
    """A lab whose every instrument has a password of its own, and the far ends that know it."""

    def __init__(self, directory, monkeypatch, stack):
        self.words = []
        self._directory = directory
        self._environment = monkeypatch
        self._answering = {}
        self._scheduler = WallScheduler()
        stack.callback(self.close)
        sections = {"switches": SWITCHES, "power": UNITS}
        self.text = HOSTS
        self.token = "planted-token-Grüße"
        self.words.append(self.token)
        self._environment.setenv("PLANTED_TOKEN", self.token)
        for section, drivers in sections.items():
            self.text += f"{section}:\n"
            for name, place in drivers.items():
                word = f"planted-{name}" + ("" if place == "tcp" else "-Grüße")  # TL1 is ASCII
                self.give(name, word)
                spot = PLACES[place](directory, "tcp")
                self._answering[name] = (spot, spot.serve(self._far_end(name, word)))
                self.text += self._entry(name, spot.resource)

    def give(self, name, word):
        """Make `word` the password that the lab file leads to."""
        self.words.append(word)
        if name in IN_FILES:
            self._file(name).write_text(f"{word}\n", "utf-8")
        else:
            self._environment.setenv(_variable(name), word)

    def replace(self, name, far_end):
        """Let another far end answer in the place of one."""
        spot, wire = self._answering[name]
        wire.close()
        self._answering[name] = (spot, spot.serve(far_end))

    def close(self):
        for _, wire in self._answering.values():
            wire.close()
        self._scheduler.close()

    def expect_nothing_in(self, said):
        """Fail when a password is in what was said, however it is spelt there."""
        said = said if isinstance(said, bytes) else said.encode("utf-8", "backslashreplace")
        assert not [form for form in self._forms() if form in said], said[:2000]

    def _forms(self):
        for word in self.words:
            for text in (word, word.encode().decode("latin-1")):
                yield from (text.encode(), text.encode("latin-1"), ascii(text)[1:-1].encode())
            yield base64.b64encode(f"{USER}:{word}".encode())

    def _file(self, name):
        return self._directory / f"{name}.password"

    def _entry(self, name, resource):
        user = "" if name == "sonic-ocs" else f", user: {USER}"
        resource = resource.replace("admin@", f"{USER}@")
        at = f"{{file: {self._file(name)}}}" if name in IN_FILES else f"{{env: {_variable(name)}}}"
        ports = ", ports: [1-64]" if name in SWITCHES else ""
        shape = f", shape: {SHAPE[name]}" if name in SHAPE else ""
        options = f"{ports}{shape}{user}, password: {at}"
        return f"  {name}: {{driver: {name}, resource: '{resource}'{options}}}\n"

    def _far_end(self, name, word):
        own = self._directory / f"{name}.known"
        own.write_text(word, "utf-8")
        options = {"password": Secret(file=str(own))}
        options |= {} if name == "sonic-ocs" else {"user": USER}
        options |= {"shape": SHAPE[name]} if name in SHAPE else {}
        described = kind("far_ends", kind("drivers", name).far_end)
        return described.load()(self._site(name), described.options(**options))

    def _site(self, name):
        if name in UNITS:
            return PowerSite({"1": True}, f"S-{name}", self._scheduler, lambda outlet, on: None)
        sides = frozenset(range(1, 33)), frozenset(range(33, 65))
        return SwitchSite(*sides, f"S-{name}", 0.001, 1, self._scheduler, lambda lit: None)


def _variable(name):
    return f"{name.upper().replace('-', '_')}_PASSWORD"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    with ExitStack() as stack:
        yield PlantedLab(tmp_path, monkeypatch, stack)


@pytest.fixture
def heard():
    return []


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "secrets.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture
def bench(planted, directory, heard, capsys):
    """Validate, plan and record; afterwards search all files, events and words for passwords."""
    (directory / "lab.yaml").write_text(planted.text)
    inputs = read(directory / "secrets.yaml", str(directory / "lab.yaml"), [], None, 1)
    print_plan(inputs.plan, sys.stdout, 80)
    planted.expect_nothing_in(repr(inputs))
    run, log = open_record(directory / "results", inputs, "measured-hw")
    log.subscribe(heard.append)
    journal = Journal(run.journal)
    bench = Bench(inputs.lab, run, journal, log, lambda *report: None)
    yield bench
    bench.close_instruments()
    journal.close()
    log.close()
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert {"run.json", "lab.yaml", "events.jsonl", "plan.json"} <= {file.name for file in files}
    for file in files:
        planted.expect_nothing_in(file.read_bytes())
    planted.expect_nothing_in(repr(heard))
    planted.expect_nothing_in("".join(capsys.readouterr()))


def test_a_run_that_logs_in_everywhere_repeats_no_password(bench, heard, planted, directory):
    bench.open_instruments([*SWITCHES, *UNITS], soon())
    assert {event.subject for event in heard} >= {*SWITCHES, *UNITS}
    for switch in bench.switches.values():
        switch.state(soon())
    said = [path for path in directory.rglob("wire/*.jsonl") if path.stat().st_size]
    assert len(said) == len(SWITCHES) + len(UNITS)


@pytest.mark.parametrize("name", [*SWITCHES, *UNITS])
def test_a_login_that_is_refused_repeats_no_password(bench, planted, name):
    planted.give(name, f"tried-{name}")
    switches, units = ([name], []) if name in SWITCHES else ([], [name])
    with pytest.raises(TestbedError, match=name) as refusal:
        bench.open_instruments([*switches, *units], soon())
    planted.expect_nothing_in("".join(traceback.format_exception(refusal.value)))
    planted.expect_nothing_in(repr(refusal.value) + repr(vars(refusal.value)))


def test_secrets_of_the_environment_are_masked_in_the_output_of_a_program(
    bench, heard, planted, directory
):
    """It is told the secret, prints it, has it in its command line, and dies of it."""
    job = Command(CommandOptions(2, ("run", f"--at=https://{planted.token}"), {}))
    ring = [RingPorts("p0", "p1")] * 2
    programs = Programs(job, bench, ("h0", "h1"), ring, frozenset(), seed=7)
    told = programs.options(0)
    assert told["environment"]["HF_TOKEN"] == planted.token
    assert "HF_TOKEN" not in programs.options(1)["environment"]
    begin = {"event": "program.begin", "mono": 1.0, "argv": told["argv"]}
    complaint = {"event": "output", "stream": "stderr", "text": f"no such: {planted.token}\n"}
    end = {"event": "program.end", "mono": 2.0, "code": 1, "left": 0, "left_out": 0}
    for said in (begin, complaint, end):
        record(Report("h0", {"event": "rank", "said": said}, 1.0), 0, bench._log)
        programs.handle(0, said)
    bench._on_event("h0", {"event": "log", "line": f"KeyError: {planted.token!r}"}, 1.0)
    assert [e.data["argv"] for e in heard if e.kind == "program.begin"] == [
        ["run", "--at=https://***"]
    ]
    assert programs.failure.endswith("no such: ***")
    logs = {path.name: path.read_text() for path in directory.rglob("logs/h0/*")}
    assert {"program.stdout", "program.stderr", "ranks.log"} == logs.keys()
    assert all("***" in text for text in logs.values())


class Parrot:
    """A far end that refuses everything and repeats, in its answer, what it was sent."""

    def session(self, send, *, serial=False, hang_up=None):
        self._send = send
        return self

    def receive(self, data):
        said = data.decode()
        if said.startswith("ACT-USER"):
            tag = said.split(":")[3]
            comment = f"   /* {said.rstrip(';')} */"
            head = f"   box 26-01-01 00:00:00\r\nM  {tag} DENY\r\n   PIUI"
            self._send(f"\r\n\n{head}\r\n{comment}\r\n;".encode())
        else:
            (login,) = re.findall("Basic .*", said)
            page = f"{'You sent me':60}{login}"  # a cut at 80 would keep half
            self._send(f"HTTP/1.1 401 No\r\nContent-Length: {len(page)}\r\n\r\n{page}".encode())


@pytest.mark.parametrize("name", ["calient", "polatis-tl1", "redfish", "polatis-restconf"])
def test_a_login_repeated_by_an_instrument_is_masked_in_the_transcript(
    bench, planted, directory, name
):
    planted.replace(name, Parrot())
    switches, units = ([name], []) if name in SWITCHES else ([], [name])
    with pytest.raises(Rejected, match=r"\*\*\*") as refusal:
        bench.open_instruments([*switches, *units], soon())
    planted.expect_nothing_in("".join(traceback.format_exception(refusal.value)))
    planted.expect_nothing_in(repr(vars(refusal.value)))
    (transcript,) = directory.rglob("wire/*.jsonl")
    assert '"receive"' in transcript.read_text()
    assert "***" in transcript.read_text()
