"""What must come of every fault that a far end knows, in words and as a check: one table.

No answer that is wrong is ever believed, no order is sent twice, no call outlives its deadline;
after every fault the next answers are right again. What differs from fault to fault is how the
driver says that something was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.contract.fault_checks import (
    PATIENCE,
    RIGHT,
    SILENCE,
    UNANSWERED,
    Check,
    Outcomes,
    SpoiltAnswer,
    drift_shows,
    is_busy,
    left_by_others,
    light_shows,
    read_back_shows,
    reads_back_late,
    refuses,
    refuses_connections,
    refuses_login,
    restarts,
    settles_late,
    status_shows,
    sweeps,
    unseen,
    vanishes,
)
from testbed.errors import Garbled, LinkLost, NoReply


@dataclass(frozen=True)
class Expected:
    """What must come of a fault, in words and as a check of a rig and its driver."""

    words: str
    check: Check
    only: str = ""
    """What a language must have for this fault; empty: every switch can have it."""


_ANSWERED: Outcomes = frozenset({RIGHT})
_LOST: Outcomes = frozenset({LinkLost})
_ANY: Outcomes = frozenset({RIGHT, Garbled, NoReply})

_SILENT = Expected(
    "`NoReply` at the deadline, a fresh line, then right answers; an order is sent once",
    SpoiltAnswer(UNANSWERED, UNANSWERED, SILENCE, delay=2 * SILENCE),
)
_NOISY = Expected(
    "asked again on a fresh line, or `Garbled`; never believed; an order is sent once",
    SpoiltAnswer(_ANY, _ANY, PATIENCE),
)
_HUNG_UP = Expected(
    "asked again on a fresh line; an order is sent once and ends in `LinkLost` "
    "(on a serial line, which cannot be hung up, `NoReply`)",
    SpoiltAnswer(_ANSWERED, _LOST, PATIENCE, on_serial=UNANSWERED),
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
    "wrong-end": replace(_NOISY, check=SpoiltAnswer(_ANY, _ANY, SILENCE)),
    "banner": _NOISY,
    "doubled": Expected(
        "the first is the answer; the second is never taken for another",
        SpoiltAnswer(_ANSWERED, _ANSWERED, 5.0),
    ),
    "drip": Expected(
        "`NoReply` at the deadline unless it is all there by then",
        SpoiltAnswer(_ANY, _ANY, SILENCE, delay=0.01),
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
