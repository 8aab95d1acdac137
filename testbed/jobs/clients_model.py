"""The job `clients-model`: jobs that share clients under a policy, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from statistics import fmean

from testbed.jobs.clients_descriptors import ClientsModelOptions
from testbed.tenancy.outcome import Outcome
from testbed.tenancy.studies import COMPLETION, UTILISATION, Study
from testbed.tenancy.traces import Trace

_STUDIES = {"utilisation": UTILISATION, "completion": COMPLETION}


class ClientsModel:
    """One simulation of a study, with a second one of another policy to compare it with."""

    def __init__(self, options: ClientsModelOptions) -> None:
        self._options = options

    def values(self, seed: int) -> Mapping[str, float | str]:
        """Return the metrics; `inputs` is the SHA-256 of trace and jobs, which no policy changes.

        Simulations of the same inputs are kept, so a baseline of several arms is computed once.
        """
        own = self._options
        found = _outcome(own.study, own.clients, own.load, own.policy, seed)
        values = {"inputs": _study(own.study, own.clients).digest(seed), **_measured(found)}
        if own.study == "completion":
            values["completion_time"] = found.mean_completion_time
            values["jobs_finished"] = 1 - found.unfinished / len(found.jobs)
        if own.against:
            other = _outcome(own.study, own.clients, own.load, own.against, seed)
            values |= _gains(found, other, own.study)
        return values


def _measured(found: Outcome) -> dict[str, float | str]:
    return {
        "utilisation": found.utilisation,
        "useful_share": found.useful / found.available,
        "over_assigned": found.over_assign_rate,
        "scheduling_time": fmean(job.scheduling for job in found.jobs),
        "response_time": fmean(job.response for job in found.jobs),
        "clients_bound": found.bound,
    }


def _gains(found: Outcome, other: Outcome, study: str) -> dict[str, float]:
    """Return what the policy gains over another; none over one that bound no client."""
    gains = {}
    if other.utilisation:
        gains["utilisation_gain"] = found.utilisation / other.utilisation
    if study == "completion":
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
