"""What a run leaves behind: event log, run directory, undo journal, leases."""
