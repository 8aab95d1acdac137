"""A real plug-in package on disk, and valid files that use it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import plugins
from testbed.errors import FileError
from testbed.schema import Experiment, Lab, load_experiment, load_lab

KINDS = '''
"""Plug-ins of an imaginary lab."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from testbed.plugins import Kind
from testbed.secret import Secret
from testbed.units import Seconds


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    password: Secret


@dataclass(frozen=True, slots=True)
class OcsOptions:
    settle: Seconds = 25e-3
    """Time for the mirrors to come to rest."""
    login: Login | None = None


@dataclass(frozen=True, slots=True)
class TrainOptions:
    ranks: int
    """Number of ranks that compute."""
    spares: int = 0
    topology: Literal["ring", "tree"] = "ring"
    sizes: tuple[int, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.ranks < self.spares:
            raise ValueError("more spares than ranks")


@dataclass(frozen=True, slots=True)
class SpliceOptions:
    standby: Literal["warm", "cold"] = "warm"


@dataclass(frozen=True, slots=True)
class SlowOptions:
    delay: Seconds


toy_ocs = Kind("a toy switch", "toy:Ocs", OcsOptions, role="switch", reciprocal=True)
toy_pdu = Kind("a toy power unit", "toy:Pdu", role="power")
toy_train = Kind("train a toy", "toy:Train", TrainOptions)
toy_cut = Kind("cut the power", "toy:Cut")
toy_slow = Kind("slow a port", "toy:Slow", SlowOptions)
toy_splice = Kind("splice a spare in", "toy:Splice", SpliceOptions)
toy_wait = Kind("wait for repair", "toy:Wait")
'''

ENTRY_POINTS = """
[testbed.drivers]
toy-ocs = testbed_toy:toy_ocs
toy-pdu = testbed_toy:toy_pdu

[testbed.jobs]
toy-train = testbed_toy:toy_train

[testbed.faults]
toy-cut = testbed_toy:toy_cut
toy-slow = testbed_toy:toy_slow

[testbed.policies]
toy-splice = testbed_toy:toy_splice
toy-wait = testbed_toy:toy_wait
"""

LAB = """\
lab: bench
hosts:
  h0:
    ssh: me@h0:2222
    power: pdu.1
    env: {NCCL_SOCKET_IFNAME: mgmt0}
    allow: [toy-cut]
    ports:
      p0: {interface: eth1, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.17}
      p1: {interface: eth2, address: 10.0.1.1/24, bidi: ocs.2}
  h1:
    ssh: h1
    power: pdu.2
    ports:
      p0: {interface: eth1, address: 10.0.0.2/24, tx: ocs.3, rx: ocs.19}
switches:
  ocs:
    driver: toy-ocs
    resource: TCPIP::192.0.2.10::5025::SOCKET
    identity: "0042"
    ports: [1-16, 17, 18-32]
    settle: 30 ms
    login: {user: admin, password: {env: OCS_PASSWORD}}
power:
  pdu: {driver: toy-pdu, resource: "https://192.0.2.11"}
allow: [toy-cut, toy-slow]
twin: {settle: 20 ms, rate: 400 Mbit/s}
"""

EXPERIMENT = """\
experiment: splice
question: How soon does the job complete its next step after a host dies?
lab: bench
needs: {hosts: 2, fabric: circuit}
jobs:
  main: {kind: toy-train, ranks: 2, spares: 1, hosts: [h0, h1], sizes: [1, 2], weights: {a: 0.5}}
faults:
  - {kind: toy-cut, job: main, target: random, at: {step: 20}}
  - {kind: toy-slow, target: h1.p0, at: {step: 5}, hold: 2 s, delay: 10 ms}
policy: {kind: toy-splice}
variants:
  warm: {policy.standby: warm}
  cold: {policy.standby: cold, lab.twin.settle: 50 ms}
trials: 3
checks:
  warm.recovery_time: {every: "< 1 s", near_prediction: 10 %}
  cold.recovery_time: {median: ">= 20 ms", equals: 3}
limits: {trial: 90 s, run: 1 h}
keep: false
seed: 7
"""


@contextmanager
def installed(site: Path, package: str, code: str, entry_points: str) -> Iterator[None]:
    """Install plug-ins as pip would: a package and its dist-info on the path."""
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    sys.path.insert(0, str(site))
    plugins.kinds.cache_clear()
    yield
    sys.path.remove(str(site))
    sys.modules.pop(package, None)
    plugins.kinds.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def toy_plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the imaginary lab's plug-ins for all tests of this room."""
    with installed(tmp_path_factory.mktemp("site"), "testbed_toy", KINDS, ENTRY_POINTS):
        yield


@pytest.fixture
def clashing_policy(tmp_path: Path) -> Iterator[str]:
    """Install a policy with an option that its kind key already is; return its name."""
    code = """
from dataclasses import dataclass
from testbed.plugins import Kind

@dataclass(frozen=True)
class Options:
    kind: str = ""

clash = Kind("clashes", "none:none", Options)
"""
    entry = "[testbed.policies]\ntoy-clash = testbed_clash:clash\n"
    with installed(tmp_path, "testbed_clash", code, entry):
        yield "toy-clash"


@pytest.fixture
def lab_text() -> str:
    """Return a lab file without mistakes."""
    return LAB


@pytest.fixture
def experiment_text() -> str:
    """Return an experiment file without mistakes."""
    return EXPERIMENT


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return the lab of that file."""
    return load_lab(_written(tmp_path / "lab.yaml", LAB))


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Return the experiment of that file."""
    return load_experiment(_written(tmp_path / "experiment.yaml", EXPERIMENT))


@pytest.fixture
def read_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Lab]:
    """Return what reads the text of a lab file, which is called `f` in errors."""
    monkeypatch.chdir(tmp_path)
    return lambda text: load_lab(_written(Path("f"), text))


Refusal = Callable[[str, str], list[str]]
"""Replaces the first text by the second in a valid file and returns all errors, placed in `f`."""


@pytest.fixture
def refused_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    monkeypatch.chdir(tmp_path)
    return lambda old, new: _errors(LAB, old, new, load_lab)


@pytest.fixture
def refused_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    monkeypatch.chdir(tmp_path)
    return lambda old, new: _errors(EXPERIMENT, old, new, load_experiment)


def _errors(text: str, old: str, new: str, read: Callable[[Path], object]) -> list[str]:
    assert text.count(old) >= 1
    with pytest.raises(FileError) as caught:
        read(_written(Path("f"), text.replace(old, new, 1)))
    return [str(one) for one in (caught.value, *getattr(caught.value, "others", ()))]


def _written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path
