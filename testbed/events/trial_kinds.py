"""The kinds of events about a trial: its fault, what is predicted, and how it is recovered."""

from __future__ import annotations

from testbed.events.kind import EventField, event_kind, flag, integer, items, mapping, number, text


def _term(what: str) -> EventField:
    return number("s", what, optional=True)


TRIAL_KINDS = {
    "trial.begin": event_kind(
        "a trial starts: variant, victim, planned instant of the fault",
        generation=integer("the generation that the job is in", optional=True),
        jobs=items("the names of the jobs, where there are several", optional=True),
    ),
    "trial.end": event_kind(
        "a trial is over: valid, recovered (the job was well), response, reason",
        valid=flag("whether every fault was seen by another than its injector"),
        recovered=flag("whether the job was well at its end"),
        response=text("what the job did to its fault", nullable=True, optional=True),
        reason=text("why it is invalid or the job was not well; else empty"),
        failures=mapping("by job why it failed, where there are several", optional=True),
    ),
    "job.failed": event_kind(
        "one of several jobs cannot go on; the others do",
        reason=text("why, in words"),
    ),
    "prediction": event_kind(
        "what the model expects of a trial; the last one about each value counts",
        noticing=_term("until the failure is noticed"),
        held=_term("how long the fault is held"),
        settle=_term("how long a new circuit is dark"),
        link_up=_term("until a carrier comes after the light"),
        reconfiguration=_term("until light and link are good after the command"),
        waiting_for_spare=_term("until the spare is ready, beyond that"),
        resending=_term("until TCP sends again what was lost"),
        state=_term("to send the newcomer its state"),
        step=_term("one step"),
        total=_term("from the fault to the first verified step of the last rank"),
        profiles=items("the total with switches and links as reported", optional=True),
        values=mapping("the expected values by metric", optional=True),
        alpha=_term("a message of nothing"),
        beta=number("s/B", "each byte of a message", optional=True),
        delta=_term("a change of circuits, as it was timed"),
        credit=number("B", "what a link lets pass at once after a pause", optional=True),
        changes=integer("how many changes of circuits were timed", optional=True),
        fastest=_term("the fastest of these changes"),
        slowest=_term("the slowest of these changes"),
    ),
    "model": event_kind(
        "what a model says of a trial in which nothing is run, metric by metric",
        "the value of each metric that the model computes",
    ),
    "fault.inject": event_kind(
        "a fault was fired; data holds the interval [sent, done]",
        rank=integer("the rank that it hit"),
        fault=text("the kind of fault"),
        note=text("what was done, in words"),
        breaks=flag("whether it breaks the job, or only slows a rank down"),
        held=flag("whether it is taken back before the job must have recovered"),
        entry=integer("which of the experiment's faults it is, from 0", optional=True),
        options=mapping("its options", optional=True),
        sent=_term("the earliest that it took effect, in `t`"),
        done=_term("the latest that it took effect, in `t`"),
        host=text("the host whose clock `mono` is on, where there is one", optional=True),
        mono=items("both ends of the interval on that clock", "s", optional=True),
    ),
    "fault.receipt": event_kind(
        "an observer other than the injector saw the fault",
        host=text("the host on which it was seen", optional=True),
        mono=_term("when, on that host's monotonic clock"),
    ),
    "fault.undo": event_kind(
        "a fault was undone and the undo verified",
        fault=text("the kind of fault"),
        sent=number("s", "when the undo began, in `t`"),
        done=number("s", "when it was verified, in `t`"),
    ),
    "recovery.decided": event_kind(
        "the policy decided what failed and what replaces it",
        because=text("what it saw, in words"),
        replacement=text("the host, or the circuit, that takes its place; empty if nothing does"),
    ),
    "recovery.fenced": event_kind(
        "the victim can no longer take part",
        rank=integer("the victim's rank"),
        by=text("how it was fenced: power, network, process or none"),
        means=text("how that is known, in words"),
    ),
    "membership": event_kind(
        "the ranks were ordered to form a new generation",
        generation=integer("its number"),
        hosts=items("the host of each rank"),
    ),
    "steps.counted": event_kind(
        "the steps of a job were counted at the end of a trial that does not record all of them",
        every=integer("every how many steps one is recorded, but near a fault, where all are"),
        completed=integer("how many steps all ranks have finished since the job began"),
        reports=integer("how many steps were reported in the trial, by all ranks together"),
        recorded=integer("how many of these reports are in the record"),
        elements=integer("how many values of sums the ranks have verified in all of them"),
    ),
    "recovery.failed": event_kind(
        "the policy gave up, with the reason", reason=text("why, in words")
    ),
    "collective.chosen": event_kind(
        "which AllReduce suits the job now, and why; ranks are told of a new one",
        choice=integer("the number of the choice that ranks follow then"),
        because=text("why, in words"),
        straggler=integer("the rank that comes last, if one does", nullable=True),
        expected=mapping("what each algorithm is expected to take", "s"),
        present=number("s", "what the one in use is expected to take"),
    ),
}
"""By name."""
