"""The job `clients-model`: jobs that share clients under a policy, in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import fmean
from typing import Any

from testbed.jobs.clients_descriptors import ClientsModelOptions
from testbed.jobs.contracts import PREDICTED, Values
from testbed.tenancy.client_sums import ClientSums
from testbed.tenancy.fluid import Prediction, predict
from testbed.tenancy.outcome import Outcome
from testbed.tenancy.scale import SCALE, Part, ScaleStudy
from testbed.tenancy.studies import COMPLETION, MANY_JOBS, ONE_JOB, UTILISATION, Study
from testbed.tenancy.traces import ClientTrace, Trace

_STUDIES: dict[str, Study] = {
    "utilisation": UTILISATION,
    "completion": COMPLETION,
    "many-jobs": MANY_JOBS,
    "one-job": ONE_JOB,
    "scale": SCALE,
}


class ClientsModel:
    """One simulation of a study, with a second one of another policy to compare it with.

    In the study `scale` a formula is beside it, or instead of it, and the clients are in parts.
    """

    def __init__(self, options: ClientsModelOptions) -> None:
        self._options = options

    def values(self, seed: int) -> Values:
        """Return the metrics; `inputs` is the SHA-256 of trace and jobs, which no policy changes.

        Simulations of the same inputs are kept, so a baseline of several arms is computed once.
        """
        if count := self.parts():
            return self.values_of_parts(seed, (self.part(seed, at) for at in range(count)))
        own = self._options
        study = _study(own.study, own.clients)
        found = _outcome(own.study, own.clients, own.load, own.policy, seed)
        values = {"inputs": study.digest(seed), **_measured(found, own.study)}
        if own.against:
            other = _outcome(own.study, own.clients, own.load, own.against, seed)
            values |= _gains(found, other, own.study)
        return values

    def parts(self) -> int:
        """Return in how many parts the clients are drawn; 0: they are drawn as a whole."""
        study = _study(self._options.study, self._options.clients)
        return study.parts if isinstance(study, ScaleStudy) else 0

    def part(self, seed: int, number: int) -> Part:
        """Draw a part of the clients; for the formula only their sums are kept."""
        part = self._scale.part(seed, number)
        return replace(part, clients=()) if self._options.by == "formula" else part

    def values_of_parts(self, seed: int, parts: Iterable[Any]) -> Values:
        """Return the metrics of the clients of all parts."""
        own, study = self._options, self._scale
        clients: list[Sequence[ClientTrace]] = []
        digests: list[str] = []
        sums: ClientSums | None = None
        for part in parts:
            clients.append(part.clients)
            digests.append(part.digest)
            sums = part.sums if sums is None else sums + part.sums
        assert sums is not None
        inputs = {"inputs": study.digest_of(digests, seed)}
        expected = _expected(predict(sums, study.jobs(own.load, seed), study.settings))
        if own.by == "formula":
            return {**inputs, **expected}
        found = study.run(study.trace_of(clients), own.load, seed, own.policy)
        return {**inputs, **_measured(found, own.study), PREDICTED: expected}

    @property
    def _scale(self) -> ScaleStudy:
        study = _study(self._options.study, self._options.clients)
        assert isinstance(study, ScaleStudy)
        return study


def _measured(found: Outcome, study: str) -> dict[str, float | str]:
    values: dict[str, float | str] = {
        "utilisation": found.utilisation,
        "useful_share": found.useful / found.available,
        "over_assigned": found.over_assign_rate,
        "scheduling_time": fmean(job.scheduling for job in found.jobs),
        "response_time": fmean(job.response for job in found.jobs),
        "clients_bound": found.bound,
    }
    if study != "utilisation":
        values["completion_time"] = found.mean_completion_time
        values["jobs_finished"] = 1 - found.unfinished / len(found.jobs)
    return values


def _expected(found: Prediction) -> dict[str, float]:
    return {
        "utilisation": found.utilisation,
        "completion_time": found.completion,
        "scheduling_time": found.scheduling,
        "response_time": found.response,
        "clients_bound": found.bound,
    }


def _gains(found: Outcome, other: Outcome, study: str) -> dict[str, float]:
    """Return what the policy gains over another; none over one that bound no client."""
    gains = {}
    if other.utilisation:
        gains["utilisation_gain"] = found.utilisation / other.utilisation
    if study != "utilisation":
        gains["completion_gain"] = other.mean_completion_time / found.mean_completion_time
    return gains


def _study(name: str, clients: int | None) -> Study:
    study = _STUDIES[name]
    if clients is None:
        return study
    return replace(study, population=replace(study.population, clients=clients))


@lru_cache(maxsize=2)
def _trace(name: str, clients: int | None, seed: int) -> Trace:
    return _study(name, clients).trace(seed)


@lru_cache(maxsize=64)
def _outcome(name: str, clients: int | None, load: str, policy: str, seed: int) -> Outcome:
    return _study(name, clients).run(_trace(name, clients, seed), load, seed, policy)
