"""Mutated run directories: no traceback, no hang, nothing written outside, nothing that runs."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import testbed.cli
from testbed.analysis.summary import summarise
from testbed.cli.standard_streams import StandardStream
from testbed.events import Event
from testbed.record.rundir import RunDirectory, runs
from testbed.schema import load_experiment
from tests.unit.cli.mutated_runs import (
    EXPERIMENT,
    PRECIOUS,
    RUN,
    SCRIPTS,
    Base,
    Mutator,
    contents,
    removed,
)

SEED = 12
CODES = {0, 1, 2, 3, 4, 5, 6, 130, 143}

LAB = """\
lab: rack
switches:
  ocs: {driver: polatis, resource: "TCPIP::127.0.0.1::1::SOCKET", model: {ports: 32}}
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "experiment.yaml"
    path.write_text(EXPERIMENT)
    experiment = load_experiment(path)

    def summary(rows):
        events = [Event.from_json(json.dumps(row)) for row in rows]
        return summarise(RUN, experiment, events).to_json()

    return Base.make(LAB, summary)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the results, and what lies beside them and must stay as it is."""
    results, outside = tmp_path / "results", tmp_path / "outside"
    for place in (results, outside, outside / "directory"):
        place.mkdir()
    for name in ("file", "other file", "directory/inner"):
        (outside / name).write_text(PRECIOUS)
    (outside / "empty").touch()
    monkeypatch.chdir(tmp_path)
    return results, outside


def typed(monkeypatch, *words):
    """Type a command; return its exit code and all that it wrote, as a terminal would get it."""
    written = [io.BytesIO(), io.BytesIO()]
    with monkeypatch.context() as streams:
        for name, stream in zip(("stdout", "stderr"), written, strict=True):
            streams.setattr(sys, name, StandardStream(stream, "utf-8", "backslashreplace"))
        code = testbed.cli.run([str(word) for word in words])
        said = []
        for name, stream in zip(("stdout", "stderr"), written, strict=True):
            getattr(sys, name).flush()
            said.append(stream.getvalue().decode())
    return code, *said


def commands(number, path, results, other):
    """Yield every reader in turn: of those that read alike, another one for each mutant."""
    yield "report", path, *(("--json",) if number % 3 == 0 else ())
    yield "compare", *((path, other), (other, path, "--json"))[number % 2]
    lists = ((), ("--json", "--metric", "speed"), ("--best", "3", "--metric", METRIC))
    yield "list", "runs", "--results", results, *lists[number % 3]
    cleaning = ("clean", "--keep", "0", "--dry-run", "--results", results)
    yield (("export", path), cleaning)[number % 2]
    yield "recover", path


METRIC = "splice-warm.recovery_time"


def check(path, done, words, outcome):
    code, out, err = outcome
    about = f"{path.name}: {'; '.join(done)}: testbed {' '.join(map(str, words))}\n{out}{err}"
    assert code in CODES, about
    assert "Traceback" not in out + err and "this is a bug" not in err, about
    controls = {c for c in out + err if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2028"}
    assert controls <= {"\n", "\t"}, about
    assert len(err) < 100_000, about
    if code == 2 and "--json" not in words:
        assert err.strip().splitlines()[-1].startswith("testbed: "), about


def played(mutator, numbers, places, monkeypatch, pages=None):
    """Make each mutant, type every command on it, and look that all is as it must be."""
    results, outside = places
    other = RunDirectory.create(results, "whole", is_latest=False).path
    for name in ("run.json", "summary.json", "experiment.yaml", "lab.yaml", "events.jsonl"):
        shutil.copy(results.parent / "whole" / name, other / name)
    before, whole = contents(outside), contents(other)
    for number in numbers:
        path, done = mutator.make(number)
        for words in commands(number, path, results, other):
            foreign, held = RunDirectory(path).foreign(), contents(path)
            outcome = typed(monkeypatch, *words)
            check(path, done, words, outcome)
            assert contents(outside) == before, (done, words)
            assert contents(other) == whole, (done, words)
            if foreign:
                assert contents(path) == held, (done, words)
            if words[0] == "list" and "--best" not in words and outcome[0] == 0:
                assert all(run.id[-6:] in outcome[1] for run in runs(results)), (done, words)
        page = path / "report.html"
        if pages is not None and page.is_file() and not page.is_symlink():
            shutil.copy(page, pages / f"{number}.html")
        path.chmod(0o700)
        removed(path)


@pytest.fixture
def mutator(base, places):
    whole = places[0].parent / "whole"
    whole.mkdir()
    (whole / "run.json").write_text(json.dumps(base.facts))
    (whole / "summary.json").write_text(json.dumps(base.summary))
    (whole / "experiment.yaml").write_text(EXPERIMENT)
    (whole / "lab.yaml").write_text(LAB)
    (whole / "events.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in base.events))
    return Mutator(base, *places, SEED)


@pytest.mark.parametrize("part", range(4))  # with number 20, a long record
def test_no_command_fails_on_a_mutated_run_directory(mutator, places, monkeypatch, part):
    played(mutator, range(5 + part * 4, 9 + part * 4), places, monkeypatch)


def test_no_command_fails_on_mutants_that_once_broke_one(mutator, places, monkeypatch):
    played(mutator, [0x493], places, monkeypatch)  # a step that `recover` ended and never began


PARTS, EACH = 80, 25
"""So that one that hangs is found by the time that pytest gives a test."""


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_command_fails_on_two_thousand_mutants_and_no_report_runs_scripts(
    mutator, places, monkeypatch, tmp_path, part
):
    pages = tmp_path / "pages"
    pages.mkdir()
    first = 1000 + part * EACH
    played(mutator, range(first, first + EACH), places, monkeypatch, pages)
    shown = sorted(page.name for page in pages.iterdir())
    assert shown
    print(f"{EACH} mutants, {len(shown)} pages")
    assert asked(found_browser(), {name: (pages / name).read_text() for name in shown}) == []


def found_browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("there is no Chromium here to look at the pages; apt-get install chromium")


_AT_ONCE = 25
"""Pages that one browser shows side by side."""


def asked(browser: str, pages: dict[str, str]) -> list[str]:
    """Show pages in a browser; return every path beyond the pages that it asked for."""
    heard: list[str] = []
    shown: set[str] = set()

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            if name.startswith("frames-"):
                first = int(name.removeprefix("frames-"))
                some = sorted(pages)[first : first + _AT_ONCE]
                text = "".join(f'<iframe src="/{one}"></iframe>' for one in some)
            elif name in pages:
                shown.add(name)
                text = pages[name]
            else:
                text = ""
                if name != "favicon.ico":
                    heard.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode("utf-8", "backslashreplace"))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for first in range(0, len(pages), _AT_ONCE):
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
            command += ["--virtual-time-budget=3000", "--disable-background-networking"]
            url = f"http://127.0.0.1:{server.server_port}/frames-{first}"
            subprocess.run([*command, url], capture_output=True, check=True, timeout=300)
        server.shutdown()
    assert shown == set(pages)
    return heard


@pytest.mark.soak
def test_the_check_for_scripts_in_reports_detects_planted_scripts():
    """Show that the test above can fail: what is planted does run where it is not spelled out."""
    browser = found_browser()
    ran = [n for n, text in enumerate(SCRIPTS) if asked(browser, {"a.html": f"<p>{text}</p>"})]
    assert len(ran) >= len(SCRIPTS) // 2
    assert (
        asked(browser, {"c.html": "<p>&lt;script&gt;new Image().src='/ran'&lt;/script&gt;"}) == []
    )
