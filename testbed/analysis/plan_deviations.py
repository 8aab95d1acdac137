"""Compare a run with its plan: circuits, places of ranks and faults, by `plan.json` and its events.

What a run did otherwise is a deviation, which names its cause: an observation, a decision, why a
trial came to nothing. One without a cause is an error of ours. Jobs are told apart by their names,
ranks by job and number, faults by trial and kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.events import Event

_LIGHT = "light"
"""The subject of changes that protect receivers from too much light."""

Circuits = frozenset[str]


@dataclass(frozen=True, slots=True)
class Deviation:
    """What a run did otherwise than planned, and its cause; empty where nothing names one."""

    what: str
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.cause or 'nothing says why'}"


def deviations(plan: Mapping[str, Any], events: Iterable[Event]) -> list[Deviation]:
    """Return in what the events of a run differ from its plan, in their order."""
    run = _Run(plan)
    found = [deviation for event in events for deviation in run.follow(event)]
    return [*found, *run.not_begun()]


class _Run:
    """What a run has done so far, beside its plan."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._steps = {step["do"]: step for step in plan["steps"]}
        self._trials = {one["number"]: one for one in plan["steps"] if one["do"] == "RunTrial"}
        self._arms = {arm["name"]: arm for arm in plan.get("arms", ())}
        self._first = next(iter(self._arms), "")
        self._events: dict[int, Event] = {}
        self._circuits: dict[str, Circuits] = {}
        """By owner, those that are made."""
        self._places: dict[tuple[str, int], str] = {}
        """By job and rank, the host that it joined on."""
        self._in_trial: set[str] = set()
        """The jobs of which a trial has begun since they were started."""
        self._why: dict[str, str] = {}
        """By job or owner, the cause of the last change that was not planned."""
        self._left: dict[str, Mapping[str, Any]] = {}
        """By job, the last recovery that was predicted of it: a job that lives on begins there."""
        self._trial: _Trial | None = None
        self._begun: set[int] = set()
        self._end = "the record has no end"

    def follow(self, event: Event) -> Iterator[Deviation]:
        """Take an event in; yield what is not as planned."""
        self._events[event.seq] = event
        match event.kind:
            case "instrument.ready" | "host.ready":
                yield from self._check_opened(event)
            case "fabric.change":
                yield from self._change(event)
            case "generation":
                self._join(event.origin.job, event.data)
            case "membership":
                yield from self._move(event)
            case "trial.begin":
                yield from self._begin(event)
            case "recovery.decided" if self._trial:
                yield from self._trial.decide(event, self._cause(event))
            case "recovery.fenced" if self._trial:
                yield from self._trial.fence(event, self._cause(event))
            case "trial.end" if self._trial:
                ended = event.data["reason"] or event.data.get("response") or ""
                yield from self._trial.missing(ended)
                self._left |= {one["job"]: one for one in self._trial.recoveries}
                self._trial = None
            case "fault.inject" if self._trial:
                yield from self._inject(event, self._trial)
            case "far-end.fault" if self._trial:
                yield from self._trial.arm_far_end(event)
            case "run.end":
                self._end = event.data["error"] or "a signal" * bool(event.data.get("signals"))

    def not_begun(self) -> Iterator[Deviation]:
        """Yield the trials that were planned and not run, and faults of one that never ended."""
        if self._trial:
            yield from self._trial.missing(self._end)
        for number in sorted(self._trials.keys() - self._begun):
            yield Deviation(f"trial {number} was not run", self._end)

    # --- what is open -----------------------------------------------------------------------

    def _check_opened(self, event: Event) -> Iterator[Deviation]:
        opened = [*self._steps.get("OpenHosts", {}).get("hosts", ())]
        for names in self._steps.get("OpenInstruments", {}).values():
            opened += names if isinstance(names, Sequence) else ()
        if event.subject not in opened:
            yield Deviation(f"{event.subject} was opened")

    # --- circuits and places ----------------------------------------------------------------

    def _jobs(self, arm: str) -> Mapping[str, Any]:
        return {job["name"]: job for job in self._arms[arm]["jobs"]} if arm in self._arms else {}

    def _change(self, event: Event) -> Iterator[Deviation]:
        """Follow a change; within a trial it must be planned, or name its cause."""
        lit = frozenset(event.data["circuits"])
        owned = {owner: one & lit for owner, one in self._circuits.items()}
        owner = event.origin.owner
        owned[owner] = owned.get(owner, frozenset()) | (lit - _merged(owned))
        before, self._circuits = self._circuits, owned
        changed = sorted(owner for owner in owned if owned[owner] != before.get(owner))
        if self._trial is None:  # those of a job that has begun before the trial have a cause
            self._why |= dict.fromkeys(changed, self._cause(event))
            return
        for name in changed:
            if event.subject in self._trial.faults or owned[name] in self._trial.planned_circuits(
                name
            ):
                continue
            self._why[name] = cause = self._cause(event)
            what = f"{event.subject} gave job {name} other circuits than planned"
            yield Deviation(f"trial {self._trial.number}: {what}", cause)

    def _join(self, job: str, data: Mapping[str, Any]) -> None:
        """Follow a rank into a generation; a job that is started anew has no other places."""
        if data["generation"] == 1 and job in self._in_trial:
            self._in_trial.remove(job)
            self._left.pop(job, None)
            self._places = {at: host for at, host in self._places.items() if at[0] != job}
        self._places[job, data["rank"]] = data["host"]

    def _move(self, event: Event) -> Iterator[Deviation]:
        """Follow a change of the hosts of a job; in a trial it must be predicted, or caused."""
        hosts = tuple(event.data["hosts"])
        self._places = {at: host for at, host in self._places.items() if at[0] != event.origin.job}
        self._places |= {(event.origin.job, rank): host for rank, host in enumerate(hosts)}
        self._why[event.origin.job] = self._cause(event)
        if self._trial and hosts not in self._trial.predicted_hosts(event.origin.job):
            what = f"job {event.origin.job} went on on {', '.join(hosts)}"
            yield Deviation(f"trial {self._trial.number}: {what}", self._cause(event))

    def _begin(self, event: Event) -> Iterator[Deviation]:
        """Compare circuits and places at the beginning of a trial with those of its arm."""
        number = event.trial
        trial = self._trials.get(-1 if number is None else number)
        if number is None or trial is None or trial["arm"] != event.subject:
            yield Deviation(f"trial {number} ran {event.subject}")
            return
        self._begun.add(number)
        self._trial = _Trial(trial, self._arms.get(event.subject, {}))
        self._in_trial |= self._jobs(event.subject).keys()
        for name, job in self._jobs(event.subject).items():
            at = f"trial {number} begins with job {name}"
            planned = {"hosts": job["hosts"], "circuits": []}
            left = self._left.get(name, planned)
            if len(left["hosts"]) != len(job["hosts"]):
                left = planned
            circuits = [_named(one) for one in (job["circuits"], *left["circuits"][-1:])]
            if self._circuits.get(name, frozenset()) not in circuits:
                yield Deviation(f"{at} on other circuits", self._why.get(name, ""))
            ranks = sorted(rank for of, rank in self._places if of == name)
            hosts = [self._places[name, rank] for rank in ranks]
            if hosts not in (job["hosts"], left["hosts"]):
                yield Deviation(f"{at} on {', '.join(hosts)}", self._why.get(name, ""))

    def _inject(self, event: Event, trial: _Trial) -> Iterator[Deviation]:
        """Compare a fault that was injected with the planned one of its kind and job."""
        job, rank, what = event.origin.job, event.data["rank"], event.data["fault"]
        at = f"trial {trial.number}: {what} hit rank {rank} on {event.subject}"
        planned = trial.take(what, job, rank)
        if planned is None:
            yield Deviation(at)
            return
        if planned["rank"] != rank or self._places.get((job, rank)) != event.subject:
            yield Deviation(f"{at}, not rank {planned['rank']}", self._why.get(job, ""))
        if event.data["held"] != (planned["hold"] is not None):
            yield Deviation(f"{at}, and was held otherwise than planned")
        options = trial.options(planned.get("entry", 0))
        if (given := event.data.get("options", options)) != options:
            yield Deviation(f"{at} with {given}, not with {options}")

    def _cause(self, event: Event) -> str:
        """Return what led to an event, in words; empty where nothing says so."""
        root = event
        while root.origin.cause is not None and root.origin.cause in self._events:
            root = self._events[root.origin.cause]
        if root is not event:
            told = root.data.get("because") or root.data.get("source") or root.data.get("fault", "")
            return f"{root.kind} {root.seq} of {root.subject} {told}".rstrip()
        if event.subject == _LIGHT:
            return "light above a limit"
        return str(event.data.get("because", ""))


class _Trial:
    """A planned trial of an arm, and those of its faults that have not happened yet."""

    def __init__(self, planned: Mapping[str, Any], arm: Mapping[str, Any]) -> None:
        self.number: int = planned["number"]
        self.arm: str = planned["arm"]
        self._planned, self._arm = planned, arm
        self._left = list(planned["faults"])
        self._far_ends = list(planned["far_end_faults"])
        self.faults = frozenset(fault["kind"] for fault in self._left)
        self.recoveries: Sequence[Mapping[str, Any]] = planned.get("recoveries", ())
        self._undecided = [
            (one["job"], decision["victim"], decision["replacement"])
            for one in self.recoveries
            for decision in one["decisions"]
        ]
        self._unfenced = [
            (one["job"], fence["host"], fence["means"])
            for one in self.recoveries
            for fence in one.get("fences", ())
        ]

    def planned_circuits(self, job: str) -> Iterator[Circuits]:
        """Yield all circuits that a job may have at some time of the trial."""
        for one in self._arm.get("jobs", ()):
            if one["name"] == job:
                yield from map(_named, (one["circuits"], *one["asked"]))
        for controller in self._arm.get("controllers", ()):
            if controller["job"] == job:
                yield from map(_named, controller["circuits"])
        for recovery in self._recoveries(job):
            yield from map(_named, recovery["circuits"])

    def predicted_hosts(self, job: str) -> list[tuple[str, ...]]:
        """Return the hosts that a job has after each of its predicted recoveries."""
        return [tuple(recovery["hosts"]) for recovery in self._recoveries(job)]

    def _recoveries(self, job: str) -> Iterator[Mapping[str, Any]]:
        return (one for one in self.recoveries if one["job"] == job)

    def decide(self, event: Event, cause: str) -> Iterator[Deviation]:
        """Compare a decision with those predicted; another one is caused by an observation."""
        decision = event.origin.job, event.subject, event.data["replacement"]
        if decision in self._undecided:
            self._undecided.remove(decision)
        else:
            _, victim, replacement = decision
            what = f"{replacement} replaced {victim}, which was not predicted"
            yield Deviation(f"trial {self.number}: {what}", cause)

    def fence(self, event: Event, cause: str) -> Iterator[Deviation]:
        """Compare a fence with those predicted: which host, and by which means."""
        fence = event.origin.job, event.subject, event.data["by"]
        if fence in self._unfenced:
            self._unfenced.remove(fence)
        else:
            _, host, means = fence
            what = f"{host} was fenced by {means}, which was not predicted"
            yield Deviation(f"trial {self.number}: {what}", cause)

    def options(self, entry: int) -> Any:
        """Return the options of one of the arm's faults."""
        return self._arm["faults"][entry]["options"]

    def take(self, kind: str, job: str, rank: int) -> Mapping[str, Any] | None:
        """Return a planned fault that has not happened yet, that of the rank if there is one."""
        alike: list[Mapping[str, Any]] = [
            one for one in self._left if one["kind"] == kind and one.get("job", job) == job
        ]
        alike.sort(key=lambda one: one["rank"] != rank)
        if not alike:
            return None
        self._left.remove(alike[0])
        return alike[0]

    def arm_far_end(self, event: Event) -> Iterator[Deviation]:
        """Compare a fault of a far end with those planned."""
        kind, scope = event.data["fault"], event.data["scope"]
        for one in self._far_ends:
            planned = one["kind"], one["switch"], self.options(one["entry"])
            if planned == (kind, event.subject, scope):
                self._far_ends.remove(one)
                return
        yield Deviation(f"trial {self.number}: {kind} of {event.subject} with {scope}")

    def missing(self, reason: str) -> Iterator[Deviation]:
        """Yield the faults, decisions and fences that did not happen, for this reason."""
        for fault in (*self._left, *self._far_ends):
            yield Deviation(f"trial {self.number}: {fault['kind']} did not happen", reason)
        for _, victim, replacement in self._undecided:
            yield Deviation(f"trial {self.number}: {replacement} did not replace {victim}", reason)
        for _, host, means in self._unfenced:
            yield Deviation(f"trial {self.number}: {host} was not fenced by {means}", reason)


def _named(circuits: Iterable[Mapping[str, Any]]) -> Circuits:
    """Return circuits of a plan as events name them."""

    def ends(circuit: Mapping[str, Any]) -> list[str]:
        a, b = (f"{end['host']}.{end['port']}" for end in (circuit["a"], circuit["b"]))
        return [a, *circuit.get("via", ()), b]

    return frozenset("–".join(ends(circuit)) for circuit in circuits)


def _merged(owned: Mapping[str, Circuits]) -> Circuits:
    return frozenset[str]().union(*owned.values())
