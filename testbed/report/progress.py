"""The progress of a run, computed from its events so far; without output and clock."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from testbed.analysis.causes import DECISION, Repairs
from testbed.errors import EXIT_BUSY
from testbed.events import Event
from testbed.report.wording import quantity, size
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import RunTrial
from testbed.schema.arm_names import short_names

Tone = Literal["plain", "fault", "good", "bad"]

_PHASES = {
    "open": "opening instruments and hosts",
    "prepare": "making circuits and starting ranks",
    "trials": "trials",
    "restore": "taking everything back",
}
_FIRST = {"symptom": "t1", DECISION: "t2", "recovery.fenced": "t3"}
_LAST = {"link.good": "t6", "rank.left": "t7", "generation": "t8", "state.restored": "t9"}
"""Marks that the first or the last event of a kind reaches; the record is made with more care."""

_KEPT_STEPS = 2000

_SENTENCES: dict[str, tuple[str, Tone]] = {
    "lease.wait": ("waiting: {holder}", "plain"),
    "instrument.ready": ("{subject} is a {maker} {model}, {serial}", "plain"),
    "host.ready": ("{subject} answers", "plain"),
    "host.lost": ("the agent of {subject} is gone: {reason}", "plain"),
    "note": ("{subject}: {text}", "plain"),
    "health": ("{subject}: {text}", "plain"),
    "retry": ("{what} of {subject} once more: {why}", "plain"),
    "program.begin": ("{host} runs {argv[0]}", "plain"),
    "fault.inject": ("{fault} of {subject}: {note}", "fault"),
    "collective.chosen": ("{because}; {subject} suits the job", "plain"),
    "light.excess": ("{text}", "bad"),
    "receiver.destroyed": ("the receiver of {subject} was destroyed by {dbm:.1f} dBm", "bad"),
    "job.failed": ("job {subject} failed: {reason}; the other jobs go on", "bad"),
    "recovery.failed": ("the recovery failed: {reason}", "bad"),
}
"""The line for an event of a kind, in terms of its subject and its data."""

_RESPONSES: dict[str, tuple[str, Tone]] = {
    "ridden out": ("the job rode the fault out", "good"),
    "not known": ("whether the job rode the fault out is not known: too few steps before", "bad"),
}
"""The line for a trial whose fault no policy repaired."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of progress, with its time in seconds of the log."""

    t: float
    text: str
    tone: Tone = "plain"
    stays: bool = False
    """Whether it stays on a terminal when the picture is removed: an answer to a signal."""


class Progress:
    """The state of a run in progress. Times are in seconds of the log."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.arm_names = short_names(trial.arm for trial in plan.trials)
        self.phase = ""
        self.trial: RunTrial | None = None
        self.circuits: tuple[str, ...] = ()
        self.dark: set[str] = set()
        """Host ports without carrier."""
        self.step: int | None = None
        self.size: int | None = None
        """Bytes of the message that a collective is timed with."""
        self.collective = ""
        """Which one, as `AllReduce`."""
        self._iterations = 0
        """How many iterations over all sizes the trial has begun."""
        self.ends: deque[float] = deque(maxlen=_KEPT_STEPS)
        """When each step was finished by its last rank."""
        self.disturbed: list[tuple[float, float | None]] = []
        """From each fault to the first step of all ranks after it."""
        self.marks: dict[str, float] = {}
        """The marks that the recovery under way, or the last one, has reached."""
        self._repairs = Repairs()
        self.steps: dict[str, int] = {}
        """By job the last step that all its ranks finished, where several run side by side."""
        self._jobs: dict[str, _JobProgress] = {}
        self._has_begun = False
        """Whether a trial has begun."""

    def note(self, event: Event) -> Iterator[Line]:
        """Update the progress with an event and yield the lines to print for it."""
        self._follow(event)
        match event.kind:
            case "step":
                yield from self._step(event)
            case "sample":
                yield from self._sample(event)
            case _:
                yield from self._said(event)

    def _follow(self, event: Event) -> None:
        """Update the state, but for steps."""
        self._reach(event)
        data = event.data
        match event.kind:
            case "phase":
                self.phase = _PHASES.get(event.subject, event.subject)
                self.trial = None
            case "trial.begin" if event.trial is not None:
                self._has_begun = True
                self.trial, self.size = self.plan.trials[event.trial], None
                self._iterations, self.steps = 0, {}
            case "trial.end":
                for job in self._jobs.values():
                    job.is_new = True
                self._settle(event.t)
            case "cleanup.begin" if event.trial is None:
                self.phase = f"taking back {event.subject}"
            case "prediction" if not self.is_disturbed:
                self.marks = {}
            case "fault.inject":
                self.marks["t0"] = data.get("sent", event.t)
                self.disturbed.append((self.marks["t0"], None))
            case "fabric.change":
                self.circuits = tuple(data["circuits"])
            case "symptom" if data["source"] == "carrier":
                port = f"{data['host']}.{data['port']}"
                (self.dark.discard if data["up"] else self.dark.add)(port)
            case "generation":
                job = self._jobs.setdefault(event.origin.job, _JobProgress())
                job.join(data["generation"], data["rank"])

    def _reach(self, event: Event) -> None:
        """Keep the marks that an event reaches, as far as they are known during the run."""
        self._repairs.add(event)
        if "t10" in self.marks or not self._repairs.include(event):
            return
        if mark := _LAST.get(event.kind):
            self.marks[mark] = event.t
        elif (mark := _FIRST.get(event.kind)) and not event.data.get("up", False):
            self.marks.setdefault(mark, event.t)
        elif event.kind == "fabric.change" and self._repairs.include_change(event):
            self.marks |= {"t4": event.data["commanded"], "t5": event.data["read_back"]}

    def _watched_job(self) -> str:
        """Return which of several jobs is shown: the one that faults strike, or the first."""
        arms = (arm for arm in self.plan.arms if self.trial and arm.name == self.trial.arm)
        arm = next(arms, None)
        if arm is None or len(arm.jobs) < 2:
            return ""
        return arm.faults[0].job if arm.faults else arm.jobs[0].name

    def _step(self, event: Event) -> Iterator[Line]:
        job = event.origin.job
        if not self._jobs.setdefault(job, _JobProgress()).finish(event.data):
            return
        if watched := self._watched_job():
            self.steps[job] = event.data["step"]
            if job != watched:
                return
        self.step = event.data["step"]
        self.ends.append(event.t)
        if self.is_disturbed and "t8" in self.marks:
            self.marks["t10"] = event.t
            self._settle(event.t)
            took = quantity(round(event.t - self.marks["t0"], 3), "s")
            text = f"all ranks finished a step again, about {took} after the fault"
            yield Line(event.t, text, "good")

    def _sample(self, event: Event) -> Iterator[Line]:
        """Yield a line for a new size, or for a new iteration where the sizes alternate."""
        before, self.size = self.size, event.data["size"]
        words = event.data.get("operation", "all_reduce").split("_")
        self.collective = "".join(word.capitalize() for word in words)
        if "algorithm" not in event.data:
            if self.size != before:
                yield Line(event.t, f"{self.collective} of {size(event.data['size'])}")
        elif event.data["iteration"] >= self._iterations:
            self._iterations = event.data["iteration"] + 1
            yield Line(event.t, f"AllReduces of all sizes, iteration {self._iterations}")

    def _settle(self, t: float) -> None:
        if self.is_disturbed:
            self.disturbed[-1] = (self.disturbed[-1][0], t)

    def _said(self, event: Event) -> Iterator[Line]:
        line = self._text(event)
        if line is not None:
            text, tone = line
            yield Line(event.data.get("sent", event.t), text, tone, _answers_signal(event))

    def _text(self, event: Event) -> tuple[str, Tone] | None:
        data, subject = event.data, event.subject
        match event.kind:
            case "phase":
                limit = f", at most {data['limit']:.0f} s" if "limit" in data else ""
                return f"{self.phase}{limit}", "plain"
            case "note" if _answers_signal(event):
                return str(data["text"]), "bad"
            case "trial.begin":
                return f"trial {self.number}: {self.arm_names.get(subject, subject)}", "plain"
            case "recovery.decided":
                return f"{data['because']}; {_replaced(subject, data['replacement'])}", "plain"
            case "trial.end":
                return self._ended(event)
            case "cleanup.end" if data["problem"]:
                return f"taking back {subject} failed: {data['problem']}", "bad"
            case "run.end" if not self._has_begun and data.get("exit_code") == EXIT_BUSY:
                return None  # the command says why it was refused
            case "run.end":
                return (data["error"], "bad") if data["error"] else ("the run is over", "plain")
            case kind if kind in _SENTENCES:
                sentence, tone = _SENTENCES[kind]
                return sentence.format_map({**data, "subject": subject}), tone
        return None

    def _ended(self, event: Event) -> tuple[str, Tone] | None:
        if not event.data["valid"]:
            return f"the trial is invalid: {event.data['reason'] or 'no receipt'}", "bad"
        if not event.data["recovered"]:
            return f"the trial ended badly: {event.data['reason']}", "bad"
        if event.data.get("response") in _RESPONSES:
            return _RESPONSES[event.data["response"]]
        return None if "t10" in self.marks else ("the trial is done", "good")

    @property
    def is_disturbed(self) -> bool:
        """Return whether a fault was injected from which the job has not recovered."""
        return bool(self.disturbed) and self.disturbed[-1][1] is None

    @property
    def number(self) -> str:
        """Return the number of the trial and the total, counted from one, as text."""
        reached = self.trial.number + 1 if self.trial else 0
        return f"{reached} of {len(self.plan.trials)}"


@dataclass(slots=True)
class _JobProgress:
    """The ranks of a job in its present generation, and which of them finished each step."""

    generation: int = 0
    members: set[int] = field(default_factory=set)
    is_new: bool = True
    _finished: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def join(self, generation: int, rank: int) -> None:
        """Count a rank as a member of a generation."""
        if generation != self.generation or self.is_new:
            self.members, self._finished = set(), {}
        self.generation, self.is_new = generation, False
        self.members.add(rank)

    def finish(self, step: Mapping[str, Any]) -> bool:
        """Note that a rank finished a step; tell whether all members have."""
        key = (step["generation"], step["step"])
        ranks = self._finished.setdefault(key, set())
        ranks.add(step["rank"])
        if len(ranks) < len(self.members):
            return False
        del self._finished[key]
        return True


def _answers_signal(event: Event) -> bool:
    """Return whether an event is the answer to a signal."""
    return event.kind == "note" and event.subject in signal.Signals.__members__


def _replaced(victim: str, replacement: str) -> str:
    """Return in words what follows from a decision."""
    if not replacement:
        return "the others go on without it"
    return "it is made again" if replacement == victim else f"{replacement} takes its place"
