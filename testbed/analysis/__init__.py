"""Compute marks, metrics, statistics and checks from the events of a run.

Pure: every number of a run is a function of its event log and can be computed again at any time.
"""
