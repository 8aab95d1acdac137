"""A package that adds a controller, with commands and outcomes of its own."""

import pytest

from testbed import plugins
from testbed.clock import Deadline
from testbed.control.controller import JobObserved
from testbed.control.protocol import StepDone
from testbed.record.log import read_events
from testbed.run.context import RunContext
from testbed.run.start_controllers import start_controllers
from testbed.schema import load_experiment

PACKAGE = """
from dataclasses import dataclass

from testbed.control.controller import JobObserved, OwnCommand, OwnObservation
from testbed.plugins import Kind


@dataclass(frozen=True)
class Options:
    text: str


@dataclass(frozen=True, slots=True)
class Shout(OwnCommand):
    text: str


@dataclass(frozen=True, slots=True)
class Echo(OwnObservation):
    text: str


class Crier:
    scopes = ()

    def __init__(self, options, job):
        self.text = f"{options.text} {job}"

    def begin(self, view):
        return ()

    def step(self, state, now, observation):
        match observation:
            case JobObserved():
                return state, (Shout(self.text),)
            case Echo(text):
                return (*state, text), (Shout(f"again {text}"),) if len(state) < 2 else ()
        return state, ()

    def wake_at(self, state):
        return None


def handlers(job, log):
    def shout(command, sender):
        log.append("note", sender.name, text=f"{command.text} on {job.hosts[0]}")
        sender.in_worker(lambda: Echo(command.text.upper()), Echo)

    return {Shout: shout}


CRIER = Kind("cries out", "crierlab:Crier", Options, handlers="crierlab:handlers")
"""


@pytest.fixture
def crier(tmp_path, monkeypatch):
    (tmp_path / "crierlab.py").write_text(PACKAGE)
    info = tmp_path / "crierlab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crierlab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[testbed.controllers]\ncrier = crierlab:CRIER\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.kinds.cache_clear()
    yield
    plugins.kinds.cache_clear()


def test_a_controller_of_another_package_gives_commands_of_its_own(
    crier, desk, bench, job, inbox, log, tmp_path
):
    desk.change(
        "experiment", "variants:\n", "controllers: [{kind: crier, text: oyez}]\nvariants:\n"
    )
    desk.plan()
    bench.open_fabric(())
    context = RunContext(bench, inbox, None, log, None, None)
    executor = start_controllers(load_experiment("experiment.yaml"), {"main": job}, context)
    inbox.handler = executor.handle
    executor.observe(JobObserved("main", StepDone(0, 1)))

    def said():
        return [event.data["text"] for event in read_events(tmp_path / "log.jsonl")]

    assert inbox.wait(lambda: len(said()) == 3, Deadline.after(10))
    executor.end()
    assert said() == ["oyez main on h0", "again OYEZ MAIN on h0", "again AGAIN OYEZ MAIN on h0"]
