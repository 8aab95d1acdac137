"""Event logs written by hand, so that what they come to is known by arithmetic."""

from testbed.analysis.clocks import Clocks
from testbed.analysis.trial import analyse_trial
from testbed.analysis.trial_events import TrialEvents
from testbed.events import Event
from testbed.events.origin import NOWHERE

RANKS = 4
HEARD = 0.004
"""Seconds after which the orchestrator hears what happened on a host."""


class Log:
    """A log under the pen. Times are the log's seconds; hosts stamp with their own clocks."""

    def __init__(self, ahead=0.0, bound=0.0):
        self.events = []
        self.ahead = {f"h{n}": ahead * (n + 1) for n in range(RANKS + 2)}
        self._bound = bound

    def write(self, t, kind, subject="", trial=0, origin=NOWHERE, **data):
        """Write an event and return it."""
        event = Event(len(self.events), t, kind, subject, trial, data, origin)
        self.events.append(event)
        return event

    def measure(self, t, *hosts):
        """Measure clocks at `t`; every host's unless some are named."""
        for host in hosts or self.ahead:
            self.write(t, "clock.offset", host, ahead=self.ahead[host], bound=self._bound)

    def on(self, host, t, kind, subject="", **data):
        """Write what happened on a host at `t`; it is heard later."""
        stamp = {"host": host, "mono": t + self.ahead[host]}
        self.write(t + HEARD, kind, subject or host, **stamp | data)

    def begin(self, t=0.0, arm="warm", generation=1):
        self.write(t, "trial.begin", arm, generation=generation)

    def end(self, t, *, valid=True, recovered=True, reason=""):
        self.write(t, "trial.end", "warm", valid=valid, recovered=recovered, reason=reason)

    def step(self, t, number, generation=1, *, length=0.1, verified=True, ranks=RANKS, **changes):
        """Write a step that the last rank ends at `t`; each rank before ends 1 ms earlier."""
        for rank in range(ranks):
            host = f"h{rank}"
            end = t - 0.001 * (ranks - 1 - rank)
            ahead = self.ahead[host]
            data = {
                "rank": rank,
                "generation": generation,
                "step": number,
                "begin": t - length + ahead,
                "end": end + ahead,
                "collective": [end - 0.04 + ahead, end + ahead],
                "verified": verified,
                "loss": 5.0 - number / 10,
                "digest": f"{number:08x}",
                "bytes": 1_000_000,
            }
            self.on(host, end, "step", f"rank {rank}", **data | changes)

    def steps(self, first_end, numbers, generation=1, *, every=0.1):
        for count, number in enumerate(numbers):
            self.step(first_end + count * every, number, generation)

    def sample(self, t, number, size=65536, *, generation=1, length=0.05, verified=True):
        """Write one timed collective that all ranks end at `t`."""
        for rank in range(RANKS):
            ahead = self.ahead[f"h{rank}"]
            data = {
                "rank": rank,
                "generation": generation,
                "step": number,
                "size": size,
                "iteration": number,
                "begin": t - length + ahead,
                "end": t + ahead,
                "verified": verified,
                "bytes": size,
            }
            self.on(f"h{rank}", t, "sample", f"rank {rank}", **data)

    def carrier(self, t, up, host="h0", port="p1"):
        """Write that a port lost its carrier, or has it again."""
        self.on(host, t, "symptom", source="carrier", port=port, up=up)

    def splice(self, zero):
        """Write a recovery from a fault at `zero`; the first step after it is not in it."""
        self.on("h0", zero + 0.010, "symptom", source="carrier", port="p1", up=False)
        self.on("h2", zero + 0.012, "symptom", source="carrier", port="p0", up=False)
        self.write(zero + 0.020, "recovery.decided", "h1")
        self.write(zero + 0.030, "recovery.fenced", "h1")
        self.write(
            zero + 0.041,
            "fabric.change",
            "recovery",
            commanded=zero + 0.035,
            read_back=zero + 0.040,
        )
        for rank, host in ((0, "h0"), (2, "h2"), (3, "h3")):
            self.on(host, zero + 0.050, "rank.left", rank=rank, committed=10)
        self.on("h4", zero + 0.070, "link.good", "h0.p1–h4.p0")
        self.on("h2", zero + 0.080, "link.good", "h2.p0–h4.p1")
        for rank, host in enumerate(("h0", "h4", "h2", "h3")):
            self.on(host, zero + 0.190 + rank * 0.005, "generation", rank=rank, generation=2)
            self.on(host, zero + 0.290 + rank * 0.005, "state.restored", rank=rank, step=10)

    def fault(self, t, until=None, **data):
        """Write a fault that took effect between two instants of the orchestrator's clock."""
        sent, done = t, t if until is None else until
        data = {"fault": "power-cut", "rank": 1} | data
        self.write(done, "fault.inject", "h1", **data, sent=sent, done=done)

    def undo(self, t, until=None):
        """Write that the fault was taken back between two instants of the orchestrator's clock."""
        done = t if until is None else until
        self.write(done, "fault.undo", "h1", fault="power-cut", sent=t, done=done)

    def receipt(self, t, host="h0"):
        self.on(host, t, "fault.receipt", f"{host}.p1 carrier")

    def trial(self, number=0):
        """Return what this comes to."""
        ordered = sorted(self.events, key=lambda event: event.t)
        mine = [event for event in ordered if event.trial == number]
        return analyse_trial(number, TrialEvents(mine), Clocks(ordered, slew=0.0))


def recovery(ahead=0.0, bound=0.0):
    """Return a log of ten steps, a fault at 2 s, and a recovery whose first step ends at 2.5 s.

    Steps take 0.1 s before; afterwards two take 0.2 s, and then it is 0.1 s again.
    """
    log = Log(ahead, bound)
    log.begin()
    log.measure(0.5)
    log.steps(1.0, range(10))
    log.fault(2.0)
    log.receipt(2.010)
    log.splice(2.0)
    log.measure(2.5)
    log.steps(2.5, range(10, 13), generation=2, every=0.2)
    log.steps(3.0, range(13, 20), generation=2)
    log.measure(3.9)
    log.end(4.0)
    return log
