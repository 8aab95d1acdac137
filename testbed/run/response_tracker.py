"""Track how a running job responds to a fault, by the time stamps of the hosts."""

from __future__ import annotations

from collections import deque

from testbed.analysis.clocks import Clocks
from testbed.analysis.fault_effect import Response
from testbed.analysis.marks import MarkFinder
from testbed.analysis.step_in_progress import StepInProgress
from testbed.analysis.steps import KINDS, Step
from testbed.events import Event

_KEPT = 500
"""Steps that are kept: a job may run for days before its fault comes."""

_MARKING = ("trial.begin", "fault.inject", "fault.undo", "fault.receipt", "symptom")


class ResponseTracker:
    """The events of one trial that show whether its job has recovered."""

    def __init__(self, ranks: int, clocks: Clocks) -> None:
        """Begin with what is known of the hosts' clocks before the fault."""
        self._ranks = ranks
        self._in_generation: dict[int, int] = {}
        self._clocks = clocks
        self._events: list[Event] = []
        self._under_way: dict[tuple[int, int], StepInProgress] = {}
        self._steps: deque[Step] = deque(maxlen=_KEPT)
        self._known: Response | None = None

    def handle(self, event: Event) -> None:
        """Add an event of the trial."""
        if event.kind in KINDS and event.data["rank"] is not None:
            self._add_step(event)
        elif event.kind in _MARKING:
            self._events.append(event)
            self._known = None

    def expect(self, generation: int, ranks: int) -> None:
        """Wait for the reports of so many ranks in a new generation."""
        self._in_generation[generation] = ranks

    def _add_step(self, event: Event) -> None:
        key = (event.data["generation"], event.data["step"])
        ranks = self._in_generation.get(key[0], self._ranks)
        one = self._under_way.get(key)
        if one is None:
            one = self._under_way[key] = StepInProgress(event)
        one.add(event, self._clocks)
        if one.reports == ranks:
            step = one.finished()
            self._steps.extend([step] if step else ())
            for done in [known for known in self._under_way if known <= key]:
                del self._under_way[done]
            self._known = None

    @property
    def response(self) -> Response:
        """Return the job's response to the fault so far, where no policy repaired it."""
        if self._known is None:
            steps = sorted(self._steps, key=lambda step: step.end.late)
            self._known = MarkFinder(self._events, self._clocks, steps).find().response
        return self._known
