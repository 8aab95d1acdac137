"""The record of a run on disk: event log, run directory, undo journal, leases."""
