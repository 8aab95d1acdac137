"""The faults of far ends in one trial: a switch that misbehaves while something else breaks.

They happen on the twin's side of the wire, so there are none on hardware, and no permission of the
lab is needed. Each is proved by the far end's own count of how often it struck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed.faults.contracts import Undo
from testbed.plugins import kind
from testbed.run.cleanup import CleanupStep
from testbed.run.context import RunContext
from testbed.run.planning.steps import FarEndFault
from testbed.run.twin_control import TwinControl

_T = TypeVar("_T")

_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class _Armed:
    fault: FarEndFault
    name: str
    struck_before: int
    undo: CleanupStep


class FarEndFaults:
    """Those of one trial; `begin` each, then `end` them all."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._log = context.log
        self._armed: list[_Armed] = []

    @property
    def _control(self) -> TwinControl:
        if self._context.twin is None:
            raise UsageError("switch-* faults require a twin", hint="run it with --twin")
        return self._context.twin

    def begin(self, fault: FarEndFault, options: Any) -> None:
        """Let a far end misbehave from now on; its undo is journalled first."""
        name = kind("faults", fault.kind).far_end
        control, guard = self._control, self._context.bench.guard
        self._asked(lambda: guard.check(fault.switch, ()))
        before = self._asked(lambda: control.struck(fault.switch, name))

        def undo(_: Deadline) -> None:
            guard.check(fault.switch, ())
            control.clear(fault.switch, name)

        what = f"{fault.kind} of {fault.switch}"
        entry = Undo("far-end-fault", {"switch": fault.switch, "fault": name})
        step = self._context.push_undo(what, undo, _LIMIT, entry)
        self._armed.append(_Armed(fault, name, before, step))
        scope = asdict(options)

        def begin() -> None:
            guard.check(fault.switch, ())
            control.fault(fault.switch, name, scope)

        self._asked(begin)
        self._log.append("far-end.fault", fault.switch, fault=fault.kind, scope=scope)

    def end(self) -> bool:
        """End them all; tell whether each has struck."""
        have_struck = True
        while self._armed:
            armed = self._armed.pop()
            count = self._strikes_of(armed)
            self._context.cleanup.run_now(armed.undo)
            fault = armed.fault
            self._log.append("far-end.clear", fault.switch, fault=fault.kind, struck=count)
            have_struck = have_struck and count > 0
        return have_struck

    def _strikes_of(self, armed: _Armed) -> int:
        switch = armed.fault.switch
        return self._asked(lambda: self._control.struck(switch, armed.name)) - armed.struck_before

    def _asked(self, question: Callable[[], _T]) -> _T:
        limit = Deadline.after(_LIMIT)
        return self._context.inbox.in_worker("asking the twin", lambda _: question(), limit)
