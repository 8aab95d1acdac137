"""Run directories as commands of a user find them, made without running anything."""

from __future__ import annotations

from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory


def made(results, experiment="lumion", **facts):
    """Return a run that was begun and has no summary yet."""
    run = RunDirectory.create(results, experiment)
    usual = {"run": run.id, "started": "2026-11-22T10:00:00Z", "lab": "rack"}
    usual |= {"label": "measured-twin", "overrides": [], "twin": None}
    run.write_json("run.json", usual | facts)
    return run


def ended(results, experiment="lumion", outcome="passed", metrics=None, trials=(), **facts):
    """Return a run that is over, with a summary."""
    run = made(results, experiment, **facts)
    summary = {"run": run.id, "experiment": experiment, "lab": "rack", "label": "measured-twin"}
    summary |= {"outcome": outcome, "reason": "as planned", "metrics": metrics or {}}
    run.write_json("summary.json", summary | {"trials": list(trials)})
    return run


def owing(results, experiment="killed"):
    """Return a run that was killed after it had changed something."""
    run = made(results, experiment)
    journal = Journal(run.journal)
    journal.record_undo("circuits", start={}, ports=[], made=[])
    journal.close()
    return run


def recovered(results, experiment="mended"):
    """Return a run that was killed, and taken back since."""
    run = made(results, experiment)
    log = EventLog(run.events)
    log.append("recover.begin", run.id, utc="", promises=[])
    log.append("recover.end", run.id, exit_code=0, left=[])
    log.close()
    return run
