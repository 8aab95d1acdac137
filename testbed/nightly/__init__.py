"""Nightly runs: every experiment on the twin of every lab that it fits, within a time budget.

    files → pairs → order → one `testbed run` each → cases → table, Markdown, JUnit, JSON

Dates and durations of earlier runs are read from the run directories: there is no other state but
the baselines. Each run is a separate process, so that its crash does not end the nightly run.
"""
