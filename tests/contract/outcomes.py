"""What must come of every fault that a far end knows: one table, and the checks behind it.

No answer that is wrong is ever believed, no order is sent twice, no call outlives its deadline;
after every fault the next answers are right again. What differs from fault to fault is how the
driver says that something was wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from testbed.clock import Deadline, now
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply, Rejected
from testbed.fabric.change import Change
from tests.contract.rig import States, change, reach, soon

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


@dataclass(frozen=True)
class Expected:
    """What must come of a fault, in words and as a check of a rig and its driver."""

    words: str
    check: Callable
    only: str = ""
    """What a language must have for this fault; empty: every switch can have it."""


# --- faults of the wire: the same for every language ---------------------------------------------


def on_the_wire(reading, changing, patience, *, delay=0.0, on_serial=None):
    """Return the check of a fault that spoils one answer: to a question, then to an order.

    `reading` and `changing` are what may come of the call that it hits, `on_serial` what may come
    of both where the line cannot be hung up; `patience` is the deadline of the call.
    """

    def check(rig, switch, name):
        scope = {"count": 1, "delay": delay}
        asked, ordered = (
            (on_serial, on_serial) if on_serial and rig.is_serial else (reading, changing)
        )
        states = States(switch.capabilities)
        reach(switch, states.one)
        rig.learn_orders(switch)
        rig.far_end.fault(name, **scope)
        limit = SILENCE if asked == _UNANSWERED else patience
        began = now()
        outcome = _outcome(lambda deadline: switch.state(deadline), states.one, limit)
        # On a busy machine a driver may look only once a late answer, which is right, is there.
        came_late = name == "late" and outcome == RIGHT and now() - began >= delay
        assert outcome in asked or came_late, f"asked: {outcome}"
        _is_right_again(rig, switch, states.one)
        wanted = change(states.one, states.other)
        while True:
            rig.sent.clear()
            struck = rig.far_end.struck(name)
            rig.at_order(name, **scope)
            began = now()
            outcome = _outcome(lambda at: switch.apply(wanted, at).state, states.other, limit)
            if rig.far_end.struck(name) > struck or outcome == RIGHT or limit >= _LONGEST:
                break
            limit *= 4  # a busy machine used up the deadline before the order was sent
            rig.disarm()
            reach(switch, states.one)
        came_late = name == "late" and outcome == RIGHT and now() - began >= delay
        assert outcome in ordered or came_late, f"ordered: {outcome}"
        assert rig.far_end.struck(name) == struck + 1
        orders = rig.orders
        assert len(orders) == len(set(orders)), f"an order was sent twice: {orders}"
        _is_consistent(rig, switch)
        assert reach(switch, states.other).state == states.other
        rig.wait_for_light(states.other)

    return check


def refuses_connections(rig, switch, name):
    """Every new connection is hung up; a line that cannot be hung up goes on."""
    reach(switch, States(switch.capabilities).one)
    rig.far_end.fault(name)
    rig.cut()
    expected = {RIGHT} if rig.is_serial else {LinkLost}
    one = States(switch.capabilities).one
    assert _outcome(lambda deadline: switch.state(deadline), one, 2.0) in expected
    _is_right_again(rig, switch, one)


# --- faults of the language -----------------------------------------------------------------------


def refuses(rig, switch, name):
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


def is_busy(rig, switch, name):
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


def refuses_login(rig, switch, name):
    """A fresh line is refused in the words of the switch, as long as it lasts."""
    one = States(switch.capabilities).one
    reach(switch, one)
    rig.far_end.fault(name)
    rig.cut()
    with pytest.raises(Rejected) as caught:
        switch.state(soon())
    assert caught.value.reply
    _is_right_again(rig, switch, one)


def left_by_others(rig, switch, name):
    """What another client left behind before the line was opened is not blamed on an order."""
    switch.close()
    rig.far_end.fault(name)
    states = States(switch.capabilities)
    assert reach(switch, states.one).state == states.one
    rig.wait_for_light(states.one)


def unseen(rig, switch, name):
    """What the language is made to live with is nothing that a caller sees."""
    states = States(switch.capabilities)
    for wanted in (states.one, states.all, states.other):
        rig.far_end.fault(name, delay=0.01)
        assert reach(switch, wanted).state == wanted
    assert rig.far_end.struck(name)
    _is_right_again(rig, switch, states.other)


# --- faults of the box ----------------------------------------------------------------------------


def read_back_shows(rig, switch, name):
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


def light_shows(rig, switch, name):
    """The box reads back what it was told, and only the light tells; monitors, where there are."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.wait_for_light(states.one)
    rig.far_end.fault(name)
    assert reach(switch, states.other).state == states.other
    assert rig.settled_light() != states.other
    _monitors_tell(switch, states.other)
    rig.far_end.clear()


def status_shows(rig, switch, name):
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


def settles_late(rig, switch, name):
    """The read-back does not wait for the light, or waits as long as it takes."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.wait_for_light(states.one)
    rig.far_end.fault(name)
    began = now()
    assert reach(switch, states.other).state == states.other
    rig.wait_for_light(states.other)
    assert now() - began >= 9 * rig.settle


def drift_shows(rig, switch, name):
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


def restarts(rig, switch, name):
    """The line is lost for a moment; then the box shows what it came back with."""
    states = States(switch.capabilities)
    reach(switch, states.all)
    rig.far_end.fault(name)
    rig.settled_light()
    _is_consistent(rig, switch)
    assert reach(switch, states.all).state == states.all
    rig.wait_for_light(states.all)


def vanishes(rig, switch, name):
    """The circuit is there at first; a second look finds it gone."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.far_end.fault(name, delay=0.1)
    assert reach(switch, states.other).state == states.other
    rig.wait_for_light(states.other)
    rig.wait(0.1)
    rig.far_end.clear()
    assert switch.state(soon()) != states.other
    _is_consistent(rig, switch)


def sweeps(rig, switch, name):
    """A circuit that was not named is gone, and the read-back says so."""
    states = States(switch.capabilities)
    reach(switch, states.all)
    rig.wait_for_light(states.all)
    rig.far_end.fault(name, count=1)
    (first, *others) = sorted(states.all.items())
    state = switch.apply(Change({first[0]: first[1]}, {}), soon()).state
    assert len(state) == len(others) - 1 and state.items() <= dict(others).items()
    _is_consistent(rig, switch)


def reads_back_late(rig, switch, name):
    """The read-back shows for a while what was there before; then what is there."""
    states = States(switch.capabilities)
    reach(switch, states.one)
    rig.wait(LAG)
    rig.far_end.fault(name, delay=LAG)
    stale = reach(switch, states.other).state
    assert stale in (states.one, states.other)
    rig.wait(3 * LAG)
    assert switch.state(soon()) == states.other == rig.settled_light()
    rig.far_end.clear()


# --- what the checks share ------------------------------------------------------------------------


def _outcome(act, right, patience):
    """Return RIGHT, or the error that a call ended in; a wrong answer or a hang fails."""
    deadline = Deadline.after(patience)
    try:
        answer = act(deadline)
    except InstrumentError as error:
        assert now() < deadline.at + OVERRUN, "it hung"
        return type(error)
    assert answer == right
    return RIGHT


def _is_right_again(rig, switch, state):
    """Expect right answers from now on, each to its own question."""
    rig.far_end.clear()
    for _ in range(3):
        assert switch.state(soon()) == state
        assert switch.identify(soon()).serial == (rig.family.serial or "")


def _is_consistent(rig, switch):
    """Expect the read-back to be what carries light, once all is settled and no fault is left."""
    rig.far_end.clear()
    assert switch.state(soon()) == rig.settled_light()


def _monitors_tell(switch, state):
    ports = switch.capabilities.monitored & set(state.values())
    levels = switch.power(ports, soon())
    assert all(one.dbm is None or one.dbm < -20 for one in levels.values()), levels


_ANSWERED = frozenset({RIGHT})
_LOST = frozenset({LinkLost})
_UNANSWERED = frozenset({NoReply})
_ANY = frozenset({RIGHT, Garbled, NoReply})

_SILENT = Expected(
    "`NoReply` at the deadline, a fresh line, then right answers; an order is sent once",
    on_the_wire(_UNANSWERED, _UNANSWERED, SILENCE, delay=2 * SILENCE),
)
_NOISY = Expected(
    "asked again on a fresh line, or `Garbled`; never believed; an order is sent once",
    on_the_wire(_ANY, _ANY, PATIENCE),
)
_HUNG_UP = Expected(
    "asked again on a fresh line; an order is sent once and ends in `LinkLost` "
    "(on a serial line, which cannot be hung up, `NoReply`)",
    on_the_wire(_ANSWERED, _LOST, PATIENCE, on_serial=_UNANSWERED),
)
_READ_BACK = Expected("`Applied.state` differs from what was wanted, or `refused`", read_back_shows)
_LIGHT = Expected(
    "reads back as done; light, and `power` where it is measured, do not", light_shows
)
_LEFT = Expected(
    "forgotten when the line is opened, and blamed on no order", left_by_others, "an error queue"
)

_UNSEEN = Expected("", unseen, "TL1")

EXPECTED = {
    "silent": _SILENT,
    "late": _SILENT,
    "after-next": _SILENT,
    "merged": _SILENT,
    "truncated": _SILENT,
    "garbled": _NOISY,
    "wrong-end": replace(_NOISY, check=on_the_wire(_ANY, _ANY, SILENCE)),
    "banner": _NOISY,
    "doubled": Expected(
        "the first is the answer; the second is never taken for another",
        on_the_wire(_ANSWERED, _ANSWERED, 5.0),
    ),
    "drip": Expected(
        "`NoReply` at the deadline unless it is all there by then",
        on_the_wire(_ANY, _ANY, SILENCE, delay=0.01),
    ),
    "cut": _HUNG_UP,
    "reset": _HUNG_UP,
    "refuse": Expected("`LinkLost` when the line is opened", refuses_connections),
    "error": Expected("`Rejected` in the words of the switch; nothing changed", refuses),
    "busy": Expected("`Rejected`, or waits; done afterwards", is_busy),
    "login-rejected": Expected("`Rejected` for a fresh line", refuses_login, only="a login"),
    "not-json": replace(_NOISY, only="HTTP"),
    "kicked": replace(_UNSEEN, words="logs in again; repeats only what was refused for that"),
    "alarms": replace(_UNSEEN, words="written into the transcript, never taken for an answer"),
    "in-progress": replace(_UNSEEN, words="waits for the answer"),
    "stale": _LEFT,
    "overflow": _LEFT,
    "stuck": _READ_BACK,
    "partial": _READ_BACK,
    "half-refused": replace(_READ_BACK, only="a status per circuit"),
    "misrouted": _READ_BACK,
    "stale-circuit": replace(_READ_BACK, only="a configuration of its own"),
    "lie": _LIGHT,
    "dim": _LIGHT,
    "cell-stuck": replace(_LIGHT, only="a mesh of cells"),
    "half-switched": replace(_LIGHT, only="interferometers"),
    "failed": Expected("dark; `unsteady` names it where the switch tells", status_shows),
    "slow": Expected("reads back as done; light comes when it comes", settles_late),
    "vanish": Expected("gone at the next read-back", vanishes),
    "swept": Expected("gone in the read-back that comes with the change", sweeps),
    "lag": Expected("reads back late; what was read last may be over", reads_back_late),
    "flap": Expected("reads back late; what was read last may be over", reads_back_late),
    "meddled": Expected("drift: the next read-back differs", drift_shows),
    "restart": Expected("a fresh line, and what is left in the read-back", restarts),
    "restart-wrong": Expected("a fresh line, and the wrong circuits in the read-back", restarts),
}
"""What must come of each fault; a fault that is not listed here is a hole."""

BOX = {
    read_back_shows,
    light_shows,
    status_shows,
    settles_late,
    drift_shows,
    restarts,
    vanishes,
    reads_back_late,
    sweeps,
}
"""The checks of faults that are the box's own, whatever line it hangs on."""
