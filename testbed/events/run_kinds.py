"""The kinds of events about a run as a whole: its life cycle, its leases, its clean-up."""

from __future__ import annotations

from testbed.events.kind import event_kind, flag, integer, items, mapping, number, text

RUN_KINDS = {
    "run.begin": event_kind(
        "a run starts; label, seed, versions, the monotonic `clock` that `t` counts from",
        clock=number("s", "the orchestrator's monotonic clock at t = 0", optional=True),
        format=integer("the version of the format of the run directory"),
        run=text("the run's name, which is that of its directory"),
        started=text("when, in UTC (ISO 8601)"),
        question=text("what the experiment answers", optional=True),
        command=text("the command line"),
        overrides=items("what -S set, each as `key=value`"),
        seed=integer("the seed of the plan", optional=True),
        label=text("what was real: measured-hw, measured-twin or model"),
        lab=text("the lab's name"),
        twin=text("the identity of the twin; null on hardware", nullable=True),
        plan=text("the digest of the plan", optional=True),
        bundle=text("the digest of the code that hosts ran", optional=True),
        versions=mapping("versions by package", optional=True),
        git=mapping("the commit of this code, and whether it was changed", optional=True),
        machine=mapping("system and name of the orchestrator's machine", optional=True),
    ),
    "run.end": event_kind(
        "a run is over; outcome, clean-up verdict, reason",
        error=text("what stopped it; empty where nothing did"),
        exit_code=integer("the exit code of what stopped it, 0 where nothing did"),
        cleanup=text("verified or failed"),
        left=items("what was not taken back"),
        signals=items("the numbers of the signals that came", optional=True),
    ),
    "phase": event_kind(
        "the life cycle enters a phase: prepare, baseline, trials, restore",
        limit=number("s", "the longest that it may take", optional=True),
    ),
    "wiring.port": event_kind(
        "what was found of one host port's fibres: found, lossy, swapped or dark",
        state=text("found, lossy, swapped or dark"),
        text=text("the finding in words"),
    ),
    "cells.look": event_kind(
        "circuits were made through a photonic mesh, and ports said whom they heard",
        circuits=items("the circuits, host port to host port"),
        cells=text("the state of each cell as it was sent, `=` or `x`"),
        heard=items("whose light came out where, pairs of ingress and egress"),
        missing=items("pairs that should have been heard and were not"),
    ),
    "cells.mesh": event_kind(
        "what was found of the cells of a photonic mesh: moves, stuck or unexplained",
        state=text("moves, stuck or unexplained"),
        text=text("the finding in words"),
    ),
    "note": event_kind(
        "something a reader of the record should know", text=text("what it is, in words")
    ),
    "load": event_kind(
        "share of this machine's processor time that other programs took during a trial",
        others=number("1", "the share, from 0 to 1"),
        busiest=number("1", "what all programs took in the busiest second", optional=True),
    ),
    "settings": event_kind(
        "what a trial's numbers rest on: settle, loss_of_signal, link_up, heartbeat, rate",
        settle=number("s", "how long a new circuit is dark"),
        heartbeat=number("s", "how long a rank may be silent"),
        loss_of_signal=number("s", "how long after the light a carrier goes", optional=True),
        link_up=number("s", "how long after the light a carrier comes", optional=True),
        rate=number("bit/s", "the rate of the twin's fabric ports", optional=True),
        delivered=number("bit/s", "what the slowest link delivered to a probe", optional=True),
        credit=number("B", "what a link let pass at once after a pause", optional=True),
        inside_hosts=text("dimensions of a mesh whose groups are inside hosts", optional=True),
        rings=integer("the rings that share a sum, each over a port of its own", optional=True),
    ),
    "health": event_kind(
        "something is not as it should be before a run: what, and what to do about it",
        text=text("what it is, in words"),
    ),
    "retry": event_kind(
        "something that failed was tried once more: what, and how it had failed",
        what=text("what was tried"),
        why=text("how it had failed"),
    ),
    "lease.wait": event_kind(
        "a resource that the run needs is leased to another, or it is not its turn in the queue",
        holder=text("who has it, since when and why; in the queue with its position there"),
    ),
    "lease.taken": event_kind(
        "all that the run needs is leased to it: its ports, hosts and outlets",
        resources=items("what is leased"),
        policy=text("that of the queue in which it waited for its turn", optional=True),
        waited=number("s", "how long it waited there", optional=True),
        expected=number(
            "s", "how long the queue expected it to wait, as it came", optional=True, nullable=True
        ),
        behind=text("what it waited for as it came; empty where for nothing", optional=True),
    ),
    "lease.regained": event_kind(
        "what the run lost of its leases is its own again; others may have used it since"
    ),
    "cleanup.begin": event_kind("one undo starts"),
    "cleanup.end": event_kind(
        "one undo ended, verified or not",
        verified=flag("whether it was verified"),
        problem=text("what went wrong; empty where nothing did"),
    ),
    "recover.begin": event_kind(
        "a run that is over is taken back: the open undos of its journal",
        utc=text("when, in UTC (ISO 8601)"),
        promises=items("the open undos, in words"),
    ),
    "recover.end": event_kind(
        "taking a run back is over; what is still changed, and the exit code",
        left=items("what was not taken back"),
        exit_code=integer("the exit code of `testbed recover`"),
    ),
}
"""By name."""
