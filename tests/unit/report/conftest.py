"""Two real runs on a twin, cut to their event logs: two recoveries, and an AllReduce."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from testbed.analysis.summary import Summary, summarise
from testbed.events import Event
from testbed.record.log import read_events
from testbed.schema import Experiment, load_experiment

DATA = Path(__file__).parent / "data"
BEGIN = Event(
    0,
    0.0,
    "run.begin",
    "lumion",
    None,
    {
        "run": "20260101T000000Z-lumion-0a1b2c",
        "question": "How soon is the job <back>?",
        "started": "2026-01-01T00:00:00.000Z",
        "command": "testbed run experiments/lumion.yaml --twin",
        "seed": 7,
        "label": "measured-twin",
        "lab": "rack",
        "versions": {"testbed": "0.1.0"},
        "git": {"commit": "0123abcd", "dirty": True},
    },
)

EXPERIMENT = (DATA / "lumion.yaml").read_text()


@pytest.fixture(scope="session")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    path = tmp_path_factory.mktemp("experiment") / "lumion.yaml"
    path.write_text(EXPERIMENT)
    return load_experiment(path)


@pytest.fixture(scope="session")
def recoveries() -> list[Event]:
    """Return the events of a run of two trials, each of which recovered from a power cut."""
    return [BEGIN, *read_events(DATA / "recoveries.jsonl")]


@pytest.fixture(scope="session")
def allreduce() -> list[Event]:
    """Return the events of a run of one trial of five message sizes, without a fault."""
    return [BEGIN, *read_events(DATA / "allreduce.jsonl")]


@pytest.fixture(scope="session")
def summarised(experiment: Experiment) -> Callable[[list[Event]], Summary]:
    return lambda events: summarise("20260101T000000Z-lumion-0a1b2c", experiment, events)


@pytest.fixture
def text() -> Callable[..., str]:
    """Return what is printed on a console that is no terminal, without trailing blanks."""

    def printed(print_it: Callable[[Console], None], width: int = 100) -> str:
        out = io.StringIO()
        print_it(Console(file=out, width=width, color_system=None))
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    return printed
