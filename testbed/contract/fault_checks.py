"""What is checked of a driver while its far end has a fault, for each way in which that shows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pytest

from testbed.bench.contracts import OpticalSwitch
from testbed.clock import Deadline, now
from testbed.contract.rig import Rig, States, change, reach, soon
from testbed.errors import InstrumentError, LinkLost, NoReply, Rejected
from testbed.fabric.change import Change
from testbed.fabric.device import State

Check = Callable[[Rig, OpticalSwitch, str], None]

SILENCE = 0.06
"""Seconds of patience with a switch that will not answer."""
PATIENCE = 0.3
"""Seconds of patience with a switch that may answer on a fresh line."""
_LONGEST = 4.0
OVERRUN = 10.0
"""Seconds by which a busy machine may end a wait too late."""

LAG = 0.15
"""Seconds by which a read-back is late."""

RIGHT = "right"
Outcome = str | type[InstrumentError]
"""RIGHT, or the error that a call ended in."""
Outcomes = Collection[Outcome]
UNANSWERED: Outcomes = frozenset({NoReply})


# --- faults of the wire: the same for every language ---------------------------------------------


@dataclass(frozen=True)
class SpoiltAnswer:
    """The check of a fault that spoils one answer: to a question, then to an order.

    `reading` and `changing` are what may come of the call that it hits, `on_serial` what may come
    of both where the line cannot be hung up; `patience` is the deadline of the call.
    """

    reading: Outcomes
    changing: Outcomes
    patience: float
    delay: float = 0.0
    on_serial: Outcomes | None = None

    def __call__(self, rig: Rig, switch: OpticalSwitch, name: str) -> None:
        """Let the fault hit a question, then an order."""
        asked, ordered = self.reading, self.changing
        if self.on_serial and rig.is_serial:
            asked = ordered = self.on_serial
        states = States(switch.capabilities)
        limit = SILENCE if asked == UNANSWERED else self.patience
        self._ask(rig, switch, name, asked, limit)
        self._order(rig, switch, name, ordered, limit)
        _is_consistent(rig, switch)
        assert reach(switch, states.other).state == states.other
        rig.wait_for_light(states.other)

    def _ask(
        self, rig: Rig, switch: OpticalSwitch, name: str, expected: Outcomes, limit: float
    ) -> None:
        states = States(switch.capabilities)
        while True:
            reach(switch, states.one)
            rig.learn_orders(switch)
            rig.far_end.fault(name, count=1, delay=self.delay)
            began = now()
            outcome = _outcome(lambda deadline: switch.state(deadline), states.one, limit)
            is_expected = outcome in expected or self._came_late(name, outcome, began)
            if is_expected or limit >= _LONGEST:
                break
            limit *= 4  # a busy machine used up the deadline before it could be asked again
            rig.disarm()
        assert is_expected, f"asked: {outcome}"
        _is_right_again(rig, switch, states.one)

    def _order(
        self, rig: Rig, switch: OpticalSwitch, name: str, expected: Outcomes, limit: float
    ) -> None:
        states = States(switch.capabilities)
        wanted = change(states.one, states.other)
        while True:
            rig.sent.clear()
            struck = rig.far_end.struck(name)
            rig.at_order(name, count=1, delay=self.delay)
            began = now()
            outcome = _outcome(lambda at: switch.apply(wanted, at).state, states.other, limit)
            if rig.far_end.struck(name) > struck or outcome == RIGHT or limit >= _LONGEST:
                break
            limit *= 4  # a busy machine used up the deadline before the order was sent
            rig.disarm()
            reach(switch, states.one)
        came_late = self._came_late(name, outcome, began)
        assert outcome in expected or came_late, f"ordered: {outcome}"
        assert rig.far_end.struck(name) == struck + 1
        orders = rig.orders
        assert len(orders) == len(set(orders)), f"an order was sent twice: {orders}"

    def _came_late(self, name: str, outcome: Outcome, began: float) -> bool:
        """Tell whether a late answer was there before the driver, on a busy machine, looked."""
        return name == "late" and outcome == RIGHT and now() - began >= self.delay


def refuses_connections(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """Every new connection is hung up; a line that cannot be hung up goes on."""
    reach(switch, States(switch.capabilities).one)
    rig.far_end.fault(name)
    rig.cut()
    expected = {RIGHT} if rig.is_serial else {LinkLost}
    one = States(switch.capabilities).one
    assert _outcome(lambda deadline: switch.state(deadline), one, 2.0) in expected
    _is_right_again(rig, switch, one)


# --- faults of the language -----------------------------------------------------------------------


def refuses(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """An order is refused in the words of the switch, and nothing changes."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.learn_orders(switch)
    rig.at_order(name, count=1)
    with pytest.raises(Rejected) as caught:
        switch.apply(change(states.one, states.other), soon())
    assert caught.value.reply
    _is_consistent(rig, switch)
    assert reach(switch, states.other).state == states.other


def is_busy(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """Orders are refused, or wait, as long as the switch is busy; then they are done."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.far_end.fault(name, delay=0.1)
    try:
        switch.apply(change(states.one, states.other), Deadline.after(PATIENCE))
    except (Rejected, NoReply) as error:
        assert str(error)
    rig.wait(0.1)
    assert reach(switch, states.other).state == states.other


def refuses_login(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """A fresh line is refused in the words of the switch, as long as it lasts."""
    one = States(switch.capabilities).one
    reach(switch, one)
    rig.far_end.fault(name)
    rig.cut()
    with pytest.raises(Rejected) as caught:
        switch.state(soon())
    assert caught.value.reply
    _is_right_again(rig, switch, one)


def left_by_others(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """What another client left behind before the line was opened is not blamed on an order."""
    switch.close()
    rig.far_end.fault(name)
    states = States(switch.capabilities)
    assert reach(switch, states.one).state == states.one
    rig.wait_for_light(states.one)


def unseen(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """What the language is made to live with is nothing that a caller sees."""
    states = States(switch.capabilities)
    for wanted in (states.one, states.all, states.other):
        rig.far_end.fault(name, delay=0.01)
        assert reach(switch, wanted).state == wanted
    assert rig.far_end.struck(name)
    _is_right_again(rig, switch, states.other)


# --- faults of the box ----------------------------------------------------------------------------


def read_back_shows(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """What the box did instead of its order is in what it reads back, or says."""
    states = States(switch.capabilities)
    reach(switch, states.rotated)
    rig.far_end.fault(name)
    try:
        applied = switch.apply(change(states.rotated, states.all), soon())
    except Rejected:
        pass
    else:
        assert applied.state != states.all or applied.refused
    _is_consistent(rig, switch)
    assert reach(switch, states.all).state == states.all


def light_shows(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """The box reads back what it was told, and only the light tells; monitors, where there are."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.wait_for_light(states.one)
    rig.far_end.fault(name)
    assert reach(switch, states.other).state == states.other
    assert rig.settled_light() != states.other
    _monitors_tell(switch, states.other)
    rig.far_end.clear()


def status_shows(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """The circuit stays dark, and `unsteady` names it where the box has a word for that."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.far_end.fault(name)
    reach(switch, states.other)
    assert rig.settled_light() != states.other
    if switch.capabilities.steadiness:
        assert switch.unsteady(soon()).keys() <= states.other.keys()
        assert switch.unsteady(soon())
    rig.far_end.clear()


def settles_late(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """The read-back does not wait for the light, or waits as long as it takes."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.wait_for_light(states.one)
    rig.far_end.fault(name)
    began = now()
    assert reach(switch, states.other).state == states.other
    rig.wait_for_light(states.other)
    assert now() - began >= 9 * rig.settle


def drift_shows(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """A change by another client is in the next read-back."""
    states = States(switch.capabilities)
    reach(switch, states.all)
    rig.wait_for_light(states.all)
    rig.far_end.fault(name)
    rig.settled_light()
    assert switch.state(soon()) != states.all
    _is_consistent(rig, switch)
    assert reach(switch, states.all).state == states.all
    rig.wait_for_light(states.all)


def restarts(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """The line is lost for a moment; then the box shows what it came back with."""
    states = States(switch.capabilities)
    reach(switch, states.all)
    rig.far_end.fault(name)
    rig.settled_light()
    _is_consistent(rig, switch)
    assert reach(switch, states.all).state == states.all
    rig.wait_for_light(states.all)


def vanishes(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """The circuit is there at first; a second look finds it gone."""
    states, began = States(switch.capabilities), now()
    reach(switch, states.one)
    delay = max(0.1, 10 * (now() - began))  # the next change is read back by then
    rig.far_end.fault(name, delay=delay)
    assert reach(switch, states.other).state == states.other
    rig.wait_for_light(states.other)
    rig.wait(delay)
    rig.far_end.clear()
    assert switch.state(soon()) != states.other
    _is_consistent(rig, switch)


def sweeps(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """A circuit that was not named is gone, and the read-back says so."""
    states = States(switch.capabilities)
    reach(switch, states.all)
    rig.wait_for_light(states.all)
    rig.far_end.fault(name, count=1)
    (first, *others) = sorted(states.all.items())
    state = switch.apply(Change({first[0]: first[1]}, {}), soon()).state
    assert len(state) == len(others) - 1 and state.items() <= dict(others).items()
    _is_consistent(rig, switch)


def reads_back_late(rig: Rig, switch: OpticalSwitch, name: str) -> None:
    """The read-back shows for a while what was there before; then what is there.

    A switch that removes a circuit before it adds the next has had neither in between.
    """
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.wait(LAG)
    rig.far_end.fault(name, delay=LAG)
    stale = reach(switch, states.other).state
    right = (states.one, states.other)
    is_removed_first = switch.capabilities.mesh is None and not switch.capabilities.positions
    assert stale in ((*right, {}) if is_removed_first else right)
    rig.wait(3 * LAG)
    assert switch.state(soon()) == states.other == rig.settled_light()
    rig.far_end.clear()


# --- what the checks share ------------------------------------------------------------------------


def _outcome(act: Callable[[Deadline], State], right: State, patience: float) -> Outcome:
    """Return RIGHT, or the error that a call ended in; a wrong answer or a hang fails."""
    deadline = Deadline.after(patience)
    try:
        answer = act(deadline)
    except InstrumentError as error:
        assert now() < deadline.at + OVERRUN, "it hung"
        return type(error)
    assert answer == right
    return RIGHT


def _is_right_again(rig: Rig, switch: OpticalSwitch, state: State) -> None:
    """Expect right answers from now on, each to its own question."""
    rig.far_end.clear()
    for _ in range(3):
        assert switch.state(soon()) == state
        assert switch.identify(soon()).serial == (rig.family.serial or "")


def _is_consistent(rig: Rig, switch: OpticalSwitch) -> None:
    """Expect the read-back to be what carries light, once all is settled and no fault is left."""
    rig.far_end.clear()
    assert switch.state(soon()) == rig.settled_light()


def _monitors_tell(switch: OpticalSwitch, state: State) -> None:
    ports = switch.capabilities.monitored & set(state.values())
    levels = switch.power(ports, soon())
    assert all(one.dbm is None or one.dbm < -20 for one in levels.values()), levels
