"""Find which experiments fit which labs, and why the others cannot run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from testbed.errors import UsageError
from testbed.run.planning.planner import draw_seed, make_plan
from testbed.run.planning.program_commands import refuse_a_twin
from testbed.schema import Experiment, Lab, check_quarantine, load_experiment, load_lab

ANY_LAB = "any lab"


@dataclass(frozen=True, slots=True)
class Pair:
    """An experiment, and a lab on whose twin it can run."""

    experiment_file: Path
    lab_file: Path
    experiment: Experiment
    lab: Lab

    @property
    def key(self) -> tuple[str, str]:
        """Return the names of experiment and lab, which identify its runs."""
        return self.experiment.experiment, self.lab.lab

    @property
    def name(self) -> str:
        """Return a readable name of the pair."""
        return " on ".join(self.key)

    @property
    def is_home(self) -> bool:
        """Return whether this is the lab that the experiment names; its checks count only there."""
        return self.experiment.lab in (None, self.lab.lab)


@dataclass(frozen=True, slots=True)
class Excluded:
    """An experiment or lab that cannot run, and why; `broken` marks mistakes in its files."""

    experiment: str
    lab: str
    reason: str
    broken: bool = False

    @property
    def is_misfit(self) -> bool:
        """Return whether the only problem is that the experiment needs another lab."""
        return not self.broken and self.lab != ANY_LAB

    @property
    def name(self) -> str:
        """Return a readable name of the excluded experiment."""
        return " on ".join(filter(None, (self.experiment, self.lab)))


def find_pairs(experiments: Path, labs: Path) -> tuple[list[Pair], list[Excluded]]:
    """Return every experiment with every lab that it fits, and the excluded ones with reasons.

    A model experiment uses no lab and is paired with its own only. Raise UsageError for a directory
    without files.
    """
    broken: list[Excluded] = []
    found: list[tuple[Path, Lab]] = []
    for path in _files(labs):
        try:
            lab = load_lab(path)
            check_quarantine(lab, datetime.now(UTC).date())
        except UsageError as error:
            broken.append(Excluded("", path.stem, str(error), broken=True))
        else:
            found.append((path, lab))
    pairs: list[Pair] = []
    for path in _files(experiments):
        try:
            experiment = load_experiment(path)
        except UsageError as error:
            broken.append(Excluded(path.stem, "", str(error), broken=True))
            continue
        fitting, others = _of_experiment(path, experiment, found)
        pairs += fitting
        broken += others
    return pairs, broken


def _files(directory: Path) -> list[Path]:
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise UsageError(f"{directory} holds no files *.yaml", hint="name another directory")
    return files


def _of_experiment(
    path: Path, experiment: Experiment, labs: list[tuple[Path, Lab]]
) -> tuple[list[Pair], list[Excluded]]:
    name = experiment.experiment
    if reason := _impossible_here(experiment):
        return [], [Excluded(name, ANY_LAB, reason)]
    fitting, others = [], []
    for file, lab in labs:
        pair = Pair(path, file, experiment, lab)
        if experiment.needs.hosts == 0 and not pair.is_home:
            continue
        try:
            make_plan(experiment, lab, seed=draw_seed(experiment, None), repeat=1)
        except UsageError as error:
            is_its_own = experiment.lab == lab.lab
            others.append(Excluded(name, lab.lab, str(error), broken=is_its_own))
        else:
            fitting.append(pair)
    if not fitting and not others:
        others.append(Excluded(name, str(experiment.lab), "there is no such lab", broken=True))
    return fitting, others


def _impossible_here(experiment: Experiment) -> str:
    """Return why no twin on this machine can run an experiment, or nothing."""
    try:
        refuse_a_twin(experiment)
    except UsageError as error:
        return str(error)
    jobs = [job for arm in experiment.arms() for job in arm.experiment.jobs.values()]
    libraries = {name for job in jobs for name in getattr(job.options, "libraries", ())}
    if libraries and find_spec("torch") is None:
        return f"{', '.join(sorted(libraries))} comes with PyTorch, which is not installed here"
    return ""
