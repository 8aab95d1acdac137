"""Nights of models, which need no twin: small experiments, their labs, and what a night made."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.cli import run as command_line
from testbed.nightly.pairs import Pair
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]

MODEL = """\
experiment: {name}
question: By how much does StragglAR beat a ring in the α-β model?
lab: {lab}
needs: {{hosts: 0, fabric: any}}
jobs:
  main: {{kind: collective-model, algorithm: stragglar, against: ring, ranks: 8, size: 1 GiB,
         alpha: 3 us, rate: {rate}, delay: 0 s}}
variants:
  n4: {{jobs.main.ranks: 4}}
  n8: {{jobs.main.ranks: 8}}
trials: {trials}
checks:
  n8.rounds: {{equals: {rounds}}}
"""


def shipped_pair(experiment: str, lab: str) -> Pair:
    """Return an experiment and a lab of this checkout."""
    files = ROOT / "experiments" / f"{experiment}.yaml", ROOT / "configs" / f"{lab}.yaml"
    return Pair(*files, load_experiment(files[0]), load_lab(files[1]))


@dataclass
class Nights:
    """A directory with experiments and labs, in which nights are run."""

    path: Path

    def experiment(self, name: str = "small", **changes: Any) -> None:
        """Write an experiment that passes, but for what is changed."""
        usual = {"lab": "rack", "rate": "100 Gbit/s", "trials": 6, "rounds": 9}
        (self.path / "experiments").mkdir(exist_ok=True)
        text = MODEL.format(name=name, **usual | changes)
        (self.path / "experiments" / f"{name}.yaml").write_text(text)

    def labs(self, *names: str) -> None:
        """Take labs that we ship."""
        (self.path / "configs").mkdir(exist_ok=True)
        for name in names:
            shutil.copy(ROOT / "configs" / f"{name}.yaml", self.path / "configs")

    @property
    def arguments(self) -> list[str]:
        """Return the command line of a night here."""
        where = [("experiments", "experiments"), ("labs", "configs"), ("results", "results")]
        pairs = ((f"--{option}", str(self.path / place)) for option, place in where)
        return ["nightly", *(word for pair in pairs for word in pair)]

    def __call__(self, *more: str) -> int:
        """Run a night; return its exit code."""
        return command_line([*self.arguments, *more])

    def facts(self) -> Any:
        """Return what the latest night wrote for scripts."""
        return json.loads((self.path / "results" / "nightly" / "nightly.json").read_text())

    def text(self, name: str) -> str:
        """Return a file of the latest night."""
        return (self.path / "results" / "nightly" / name).read_text()
